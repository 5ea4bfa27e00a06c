"""Mental models: what was concluded about a subject, in versions, with what each rests on."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, cast

import apsw

from nexus import ids
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.arguments import Arguments
from nexus.memory.conclusions import batches
from nexus.memory.conclusions.batches import SQL, most
from nexus.memory.conclusions.support import check_citations, find_citations
from nexus.memory.writing import ActorKind, Scope, Step

OPERATION: Final = "mental-model"
EXAMPLE: Final = (
    'memory-write.sh mental-model --name "Sarah and deadlines" --question "How does Sarah handle deadlines?" '
    '--content "Sarah moves a deadline sooner than she cuts scope [fact_01…, obs_01…]."'
)
REFLECTION: Final = "reflection"
"""The author of what the reflection role concluded."""

_MAX_CHARACTERS: Final = 20_000
_MODEL: Final = (
    "id", "name", "subject_entity_id", "content", "version", "previous_version_id", "stale_at",
    "stale_reason", "source_request_id", "metadata_json", "created_at",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class MentalModel:
    """One version of a mental model."""

    id: str
    name: str
    question: str
    """What it answers."""
    content: str
    version: int
    previous_version_id: str | None
    subject_entity_id: str | None
    stale_at: str | None
    stale_reason: str | None
    source_request_id: str | None
    created_at: str
    author: str = REFLECTION
    """Who concluded it: the reflection role, or the agent or person who saved it."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewModel:
    """A version before it is recorded. Without `previous_id` it follows the newest one of its name."""

    name: str
    question: str
    content: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    """Kind and id of what it rests on."""
    previous_id: str | None = None
    author: str = REFLECTION
    author_kind: ActorKind | None = None
    """None: the reflection role at the owner's request, whose answers say no more than their sources."""


@dataclass(kw_only=True, slots=True)
class SaveModel(Step):
    """Save what somebody concluded, as the first version of a mental model or its next one."""

    id: str
    new: NewModel
    previous: str | None
    """The name or an id of the mental model that it is the next version of."""
    subject: str | None = None
    version: int = 1
    removed: tuple[str, ...] = field(default=())

    @property
    def makes(self) -> list[tuple[str, str]]:
        return [("mental_model", self.id)]

    async def prepare(self, ledgers: Ledgers) -> None:
        """Check the citations: each must be in the memory, and hold the names and numbers of its sentence."""
        new = self.new
        follows = await find_followed(ledgers, new)
        if self.previous is not None or follows is not None:
            known = await load_newest(ledgers, self.previous or follows or "")
            name, question, follows = new.name or known.name, new.question or known.question, known.id
            new = replace(new, name=name, question=question, previous_id=follows)
        # What it answers when it is refreshed; its name says it as well.
        new = replace(new, question=new.question or new.name)
        cited = await asyncio.to_thread(find_citations, new.content)
        rejected = {row[0] for row in await ledgers.memory.read(rows, SQL["rejected"], (json.dumps(cited),))}
        found = {
            each["id"]: each for each in await load_sources(ledgers, cited) if each["id"] not in rejected
        }
        shown = {id_: f"{each['at'][:10]} {each['text']}" for id_, each in found.items()}
        checked = await asyncio.to_thread(check_citations, new.content, shown)
        sources = tuple((found[id_]["kind"], id_) for id_ in checked.ids if id_ != follows)
        if not sources:
            reason = "The conclusion cites no fact, observation or other mental model"
            if checked.removed:
                reason = (
                    f"No citation of the conclusion holds: {', '.join(checked.removed)}. "
                    "Each must be in the memory and not rejected, with the names and numbers of its sentence"
                )
            raise UsageError(reason, hint=f"Cite what you found behind each sentence. For example: {EXAMPLE}")
        self.new = replace(new, content=checked.text, sources=sources)
        self.removed = checked.removed
        self.subject = await _find_subject(ledgers, sources)

    def in_memory(self, connection: apsw.Connection, scope: Scope) -> None:
        new = replace(self.new, author=scope.provenance.actor, author_kind=scope.provenance.kind)
        self.version = _record(
            connection, new, self.id, self.subject, request_id=scope.provenance.request_id, now=scope.now
        )

    def answer(self) -> dict[str, Any]:
        sources = [id_ for _, id_ in self.new.sources]
        saved = {"id": self.id, "name": self.new.name, "version": self.version, "sources": sources}
        return saved | ({"removed": list(self.removed)} if self.removed else {})


def parse(arguments: Arguments) -> SaveModel:
    """`mental-model`: name, question and content, which cites its sources; a next version needs the last."""
    previous = arguments.text("previous")
    name = arguments.text("name") if previous else arguments.require("name")
    content = arguments.require("content")
    if len(content) > _MAX_CHARACTERS:
        raise UsageError(
            f"`content` has {len(content):,} characters; a mental model holds at most {_MAX_CHARACTERS:,}",
            hint="Save the conclusion alone, or one mental model for each part.",
        )
    new = NewModel(
        name=storable(name or ""), question=arguments.text("question") or "", content=storable(content)
    )
    return SaveModel(id=ids.new("mod"), new=new, previous=previous)


async def append(ledgers: Ledgers, new: NewModel, *, id_: str, request_id: str | None, now: str) -> str:
    """Record a version whose sources were checked; the same id again changes nothing. Returns the id."""
    subject = await _find_subject(ledgers, new.sources)
    await ledgers.memory.write(_record, new, id_, subject, request_id=request_id, now=now)
    return id_


async def find_followed(ledgers: Ledgers, new: NewModel) -> str | None:
    """Find the version that a new one would follow."""
    return (await ledgers.memory.read(_find_previous, new))[0]


async def load_newest(ledgers: Ledgers, reference: str) -> MentalModel:
    """Load the newest version of the mental model with that id, in any version, or that name."""

    def work(connection: apsw.Connection) -> MentalModel | None:
        for query in ("newest_version_of_model", "model_named"):
            found = rows(connection, SQL[query], (storable(reference),))
            if found:
                return _read_model(rows(connection, SQL["model"], (found[0][0],))[0])
        return None

    found = await ledgers.memory.read(work)
    if found is None:
        raise UsageError(
            f"Unknown mental model {reference!r}", hint="List them with `nexus memory mental-models`."
        )
    return found


async def list_models(ledgers: Ledgers, *, stale: bool = False, limit: int = 50) -> list[MentalModel]:
    """List mental models in their last version, newest first."""
    given = {"stale": stale, "limit": limit}
    found = await ledgers.memory.read(rows, SQL["listed_models"], given)
    return [_read_model(row) for row in found]


async def find_stale(ledgers: Ledgers, *, made_until: str, limit: int) -> list[str]:
    """Find stale models made by a moment that haven't failed since, the longest stale first."""
    given = {"made_until": made_until, "limit": limit}
    return [row[0] for row in await ledgers.memory.read(rows, SQL["models_to_refresh"], given)]


async def note_failure(
    ledgers: Ledgers, model_id: str, *, reason: str, request_id: str | None, now: str
) -> None:
    """Note that a mental model could not be refreshed, and why."""
    given = {"model": model_id, "detail": storable(reason), "request": request_id, "now": now}
    await ledgers.memory.write(sql.run, SQL["note_model"], given)


async def load_sources(ledgers: Ledgers, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Load facts, observations and mental models as sources: kind, id, time, text and staleness."""
    found = await ledgers.memory.read(rows, SQL["told"], (json.dumps(list(ids)),))
    return [dict(zip(("kind", "id", "at", "text", "stale_since"), row, strict=True)) for row in found]


async def describe(ledgers: Ledgers, reference: str) -> dict[str, Any]:
    """Describe a mental model in its newest version, with its sources and all versions, newest first."""
    model = await load_newest(ledgers, reference)
    found = await ledgers.memory.read(rows, SQL["sources_of_model"], (model.id,))
    versions = await ledgers.memory.read(rows, SQL["versions_of_model"], (model.id,))
    return {
        **model.to_json(),
        "sources": await load_sources(ledgers, [row[1] for row in found]),
        "versions": [_read_model(row).to_json() for row in versions],
    }


async def _find_subject(ledgers: Ledgers, sources: Sequence[tuple[str, str]]) -> str | None:
    """Find the entity that most of some sources are about."""
    found = await ledgers.memory.read(batches.subjects, [source for _, source in sources])
    roots = await batches.roots_of_entities(ledgers, found.values())
    return most(roots.get(entity, (entity, ""))[0] for entity in found.values())


def _record(
    connection: apsw.Connection,
    new: NewModel,
    id_: str,
    subject: str | None,
    *,
    request_id: str | None,
    now: str,
) -> int:
    """Record a version; the same id again changes nothing. Returns its number."""
    recorded = rows(connection, SQL["model"], (id_,))
    if recorded:
        return _read_model(recorded[0]).version
    previous, version = _find_previous(connection, new)
    if new.author_kind not in {None, "owner"} and _is_owners(connection, previous):
        raise UsageError("This mental model is the owner's", hint="Save yours under another name.")
    metadata = {"question": storable(new.question), "author": storable(new.author)}
    if new.author_kind is not None:
        metadata["author_kind"] = new.author_kind
    connection.execute(
        SQL["add_model"],
        {
            "id": id_,
            "name": storable(new.name),
            "subject": subject,
            "content": storable(new.content),
            "version": version + 1,
            "previous": previous,
            "request": request_id,
            "metadata": json.dumps(metadata, ensure_ascii=False),
            "now": now,
        },
    )
    connection.executemany(SQL["add_model_source"], [(id_, kind, source) for kind, source in new.sources])
    return version + 1


def _is_owners(connection: apsw.Connection, id_: str | None) -> bool:
    """Whether the owner wrote that version by hand."""
    return connection.execute(SQL["author_kind_of_model"], (id_,)).get == "owner"


def _find_previous(connection: apsw.Connection, new: NewModel) -> tuple[str | None, int]:
    query, value = ("model_named", new.name)
    if new.previous_id is not None:
        query, value = ("newest_version_of_model", new.previous_id)
    found = rows(connection, SQL[query], (value,))
    return cast("tuple[str | None, int]", found[0]) if found else (None, 0)


def _read_model(row: Sequence[Any]) -> MentalModel:
    fields = dict(zip(_MODEL, row, strict=True))
    metadata = json.loads(fields.pop("metadata_json"))
    question, author = metadata.get("question") or fields["name"], metadata.get("author") or REFLECTION
    return MentalModel(question=question, author=author, **fields)
