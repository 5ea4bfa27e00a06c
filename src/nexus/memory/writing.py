"""How operations are written: first all that concerns identity, then all that was learned.

No transaction spans two ledgers. What the memory ledger refers to is committed in the identity ledger
before it, so a process that is killed in between leaves entities that nothing is known about yet, which
is true and harms nothing. Ids are made when an operation is read, so running the work again gives the same.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.text import storable

ActorKind = Literal["owner", "writer", "automation", "client", "unknown"]
"""Who writes, as far as that decides what is believed: the owner by a command, the dashboard or the token;
the memory writer; an automation; a program that uses the memory over MCP; anybody else."""
SCOPED_CHANNELS: Final = "library:"
"""How channels begin on which an application keeps its users' memories apart."""
# Called with a kind (entity, fact, episode) and the ids of what was written.
EnqueueEmbedding = Callable[[str, list[str]], Awaitable[None]]
# Called with a text and ids of entities; gives the cosine with each that has a vector.
Cosines = Callable[[str, Sequence[str]], Awaitable[dict[str, float]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Who writes, in which run, and what it learned from, where a write does not say that itself."""

    actor: str = "unknown"
    kind: ActorKind = "unknown"
    request_id: str | None = None
    event_id: str | None = None
    episode_id: str | None = None
    channel: str | None = None
    """Where somebody writes by hand: cli, dashboard, api. What they write is then its own source."""
    scope: str = ""
    """The channel of `SCOPED_CHANNELS` to which the entities that are made belong; empty: the whole home."""

    @property
    def author(self) -> str:
        """Who writes by hand, by the name that the channel knows; the owner where it knows none."""
        person, _, name = self.actor.partition(":")
        return name if person == "person" and name != self.channel else "owner"


@dataclass(kw_only=True, slots=True)
class Scope:
    """What the operations of one call share."""

    provenance: Provenance
    now: str
    phone_region: str = ""
    # For a new entity's id: others that mean nearly the same, with their cosine.
    alike: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    # References that were looked up already, with the entity that they mean.
    found: dict[str, str] = field(default_factory=dict[str, str])
    # Entities that were made because an id of the writer's own was used before it was described.
    placeholders: list[str] = field(default_factory=list[str])


class MissingError(Exception):
    """A reader met something that must be written first."""


class Step:
    """One operation, read and checked, ready to be written."""

    writes_identity: ClassVar[bool] = False

    @property
    def needs(self) -> list[tuple[str, str]]:
        """Episodes and facts that must exist, as kind and id."""
        return []

    @property
    def makes(self) -> list[tuple[str, str]]:
        """What is new and has a text to embed, as kind and id."""
        return []

    async def prepare(self, ledgers: Ledgers) -> None:
        """Read what it must know before anything is written; a `UsageError` refuses it."""

    def in_identity(self, connection: apsw.Connection, scope: Scope) -> None:
        """Resolve references, and write what belongs into the identity ledger."""

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        """Write what belongs into the memory ledger."""

    def answer(self) -> dict[str, Any]:
        """Return what the writer is told."""
        raise NotImplementedError


async def write(ledgers: Ledgers, steps: Sequence[Step], scope: Scope) -> None:
    """Write the steps: one transaction for each ledger, and all of a ledger's part or nothing of it."""
    for number, step in enumerate(steps, start=1):
        try:
            await step.prepare(ledgers)
        except UsageError as error:
            raise place_error(error, number, len(steps)) from error
    await _check_needs(ledgers, steps, scope.provenance.episode_id)
    await _write_identity(ledgers, steps, scope)
    if any(type(step).in_memory is not Step.in_memory for step in steps):
        await ledgers.memory.write(_run_each, steps, "in_memory", scope)


async def _write_identity(ledgers: Ledgers, steps: Sequence[Step], scope: Scope) -> None:
    def work(connection: apsw.Connection) -> None:
        scope.found.clear()
        scope.placeholders.clear()
        # What makes and merges entities comes before what refers to them, wherever it stands in a batch.
        _run_each(connection, steps, "in_identity", scope, writes=True)
        _run_each(connection, steps, "in_identity", scope, writes=False)

    if not any(step.writes_identity for step in steps):
        try:
            # Most facts are about entities that are known: looking them up needs no write lock.
            return await ledgers.identity.read(work)
        except MissingError:
            pass
    return await ledgers.identity.write(work)


def _run_each(
    connection: apsw.Connection, steps: Sequence[Step], phase: str, scope: Scope, writes: bool | None = None
) -> None:
    for number, step in enumerate(steps, start=1):
        if writes is not None and step.writes_identity != writes:
            continue
        try:
            getattr(step, phase)(connection, scope)
        except UsageError as error:
            raise place_error(error, number, len(steps)) from error


class PlacedError(UsageError):
    """An operation of a batch that cannot be written."""

    def __init__(self, error: UsageError, number: int, count: int) -> None:
        super().__init__(f"Operation {number} of {count}: {error.message}", hint=error.hint)
        self.error = error
        self.number = number


def place_error(error: UsageError, number: int, count: int) -> UsageError:
    """Say in an error which operation of a batch it is about."""
    return error if count == 1 else PlacedError(error, number, count)


async def _check_needs(ledgers: Ledgers, steps: Sequence[Step], episode_id: str | None) -> None:
    made = {each for step in steps for each in step.makes}
    given = {("episode", episode_id)} if episode_id else set[tuple[str, str]]()
    needed = ({each for step in steps for each in step.needs} | given) - made
    if not needed:
        return

    def work(connection: apsw.Connection) -> list[tuple[str, str]]:
        queries = sql.queries("memory")
        return [
            (kind, id_)
            for kind, id_ in sorted(needed)
            if not connection.execute(queries[f"has_{kind}"], (id_,)).get
        ]

    for kind, id_ in await ledgers.memory.read(work):
        raise UsageError(f"Unknown {kind} {id_!r}", hint=f"List them with `nexus memory {kind}s`.")


def storable_or_none(text: str | None) -> str | None:
    """Make a text that may be missing storable."""
    return None if text is None else storable(text)
