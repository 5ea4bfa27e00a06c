"""What can be written to the memory: one table of operations, from a name and a JSON object to an answer.

The skill's scripts, the home's socket, the command line and the automations all come through here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import find_fact, reviews
from nexus.ledgers.memory.reviews import Decision, State
from nexus.memory import aliases, contacts, correction, entities, episodes, facts, merging, references
from nexus.memory.arguments import Arguments
from nexus.memory.conclusions import mental_models
from nexus.memory.entities import AddEntity
from nexus.memory.gate import Gate, Rules
from nexus.memory.references import OWN_ID, resolve_labels
from nexus.memory.writing import (
    SCOPED_CHANNELS,
    Cosines,
    EnqueueEmbedding,
    PlacedError,
    Provenance,
    Scope,
    Step,
    place_error,
    write,
)

BATCH_EXAMPLE: Final = json.dumps(
    {
        "operations": [
            {"operation": "entity", "id": "sarah", "name": "Sarah Chen", "type": "Person"},
            {"operation": "fact", "about": "sarah", "fact": "Sarah is allergic to nuts"},
        ]
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One kind of write: how its arguments are read, what it does, and how it is written in a shell."""

    name: str
    about: str
    example: str
    parse: Callable[[Arguments], Step]


OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            name="entity",
            about="Make an entity with its aliases; says which others it may be.",
            example=references.EXAMPLE,
            parse=entities.parse,
        ),
        Operation(
            name="describe",
            about="Change what an entity is said to be: its name, its type, its summary.",
            example=entities.DESCRIBE_EXAMPLE,
            parse=entities.parse_describe,
        ),
        Operation(
            name="alias",
            about="Give an entity further names, addresses, numbers or handles.",
            example=aliases.EXAMPLE,
            parse=aliases.parse,
        ),
        Operation(
            name="relationship",
            about="Append an observation of how one entity stands to another, or to a value.",
            example=facts.RELATIONSHIP_EXAMPLE,
            parse=facts.parse_relationship,
        ),
        Operation(
            name="fact",
            about="Append an observation that is a statement of its own.",
            example=facts.FACT_EXAMPLE,
            parse=facts.parse_fact,
        ),
        Operation(
            name="causal-link",
            about="Say that one fact led to another.",
            example=facts.CAUSE_EXAMPLE,
            parse=facts.parse_causal_link,
        ),
        Operation(
            name="episode",
            about="Record a stretch of conversation, or a new version of one.",
            example=episodes.EXAMPLE,
            parse=episodes.parse,
        ),
        Operation(
            name=mental_models.OPERATION,
            about="Save a conclusion that cites its sources, as a mental model or its next version.",
            example=mental_models.EXAMPLE,
            parse=mental_models.parse,
        ),
        Operation(
            name="contact",
            about="Record how somebody is reached on a channel.",
            example=contacts.CONTACT_EXAMPLE,
            parse=contacts.parse_contact,
        ),
        Operation(
            name="person-fact",
            about="Record hard identity data about a person, such as a birthday.",
            example=contacts.PERSON_FACT_EXAMPLE,
            parse=contacts.parse_person_fact,
        ),
        Operation(
            name="merge",
            about="Let one entity stand for another; can be taken back.",
            example=merging.MERGE_EXAMPLE,
            parse=merging.parse_merge,
        ),
        Operation(
            name="reject",
            about="Say that two merge candidates are not one.",
            example=merging.REJECT_EXAMPLE,
            parse=merging.parse_reject,
        ),
        Operation(
            name="unmerge",
            about="Take a merge back exactly.",
            example=merging.UNMERGE_EXAMPLE,
            parse=merging.parse_unmerge,
        ),
    )
}
BATCH: Final = "batch"
# Code of the program that writes for itself. Whatever comes from elsewhere says where.
_PROGRAM: Final = Provenance(kind="owner")


class Memory:
    """A home's memory, ready to be written."""

    def __init__(
        self,
        ledgers: Ledgers,
        *,
        enqueue_embedding: EnqueueEmbedding | None = None,
        cosines: Cosines | None = None,
        phone_region: str = "",
        keeps_codes: bool = True,
        now: clock.Clock = clock.now,
    ) -> None:
        self.ledgers = ledgers
        self._enqueue_embedding = enqueue_embedding
        self._cosines = cosines
        self._phone_region = phone_region
        self._keeps_codes = keeps_codes
        self._now = now

    async def run(
        self,
        operation: str,
        arguments: object,
        provenance: Provenance = _PROGRAM,
        *,
        rules: Rules | None = None,
    ) -> dict[str, Any]:
        """Carry out one operation, or a `batch` of them; when this returns, it is durable.

        Every write passes the gate, as its provenance and the rules of its run allow. A batch is written in
        whole or not at all; that of a run with rules of its own without what they refuse, which is told.
        """
        gate = Gate(provenance=provenance, rules=rules, keeps_codes=self._keeps_codes)
        if operation == BATCH and rules is not None:
            return await self._run_in_part(gate, rules, arguments)
        admitted = await _admit(gate, operation, arguments)
        steps = [_parse_at(*each, number, len(admitted)) for number, each in enumerate(admitted, start=1)]
        scope = await self._write(steps, provenance)
        for name, given in admitted:
            gate.note_write(name, given)
        noted = {"placeholders": scope.placeholders} if scope.placeholders else {}
        if operation == BATCH:
            return {"ok": True, "count": len(steps), "results": [step.answer() for step in steps], **noted}
        return {"ok": True, **steps[0].answer(), **noted}

    async def _run_in_part(self, gate: Gate, rules: Rules, arguments: object) -> dict[str, Any]:
        """Write what of a batch may be written. Each operation that may not says why in its place."""
        listed = _list_operations(arguments)
        asked = await resolve_labels(self.ledgers, listed, self._phone_region)
        results: list[dict[str, Any]] = [{} for _ in asked]
        given, steps, refusals = await _judge(gate, rules, asked)
        for place, error in refusals.items():
            results[place] = _format_refusal(error)

        def refuse(place: int, error: UsageError) -> None:
            rules.note_refusal(asked[place][0], error.message)
            results[place] = _format_refusal(error)

        scope = await self._write_in_part(steps, gate.provenance, refuse)
        for place, step in steps.items():
            gate.note_write(asked[place][0], given[place])
            results[place] = step.answer()
        refused = [each for each in results[: len(listed)] if "error" in each]
        if not steps:
            first = next(number for number, each in enumerate(results) if "error" in each)
            error = UsageError(results[first]["error"], hint=results[first]["hint"])
            raise place_error(error, first + 1, len(results))
        noted: dict[str, Any] = {"placeholders": scope.placeholders} if scope.placeholders else {}
        if refused:
            noted["refused"] = len(refused)
        return {"ok": True, "count": len(steps), "results": results[: len(listed)], **noted}

    async def _write_in_part(
        self, steps: dict[int, Step], provenance: Provenance, refuse: Callable[[int, UsageError], object]
    ) -> Scope:
        """Write the steps; one that does not fit what is known is left out, and the rest tried again."""
        while steps:
            places = list(steps)
            try:
                return await self._write([steps[place] for place in places], provenance)
            except PlacedError as error:
                place = places[error.number - 1]
                refuse(place, error.error)
                del steps[place]
            except UsageError as error:
                # Of one alone, or of something that must be there before all of them.
                for place in places:
                    refuse(place, error)
                    del steps[place]
        return Scope(provenance=provenance, now=clock.timestamp(self._now()))

    async def rehearse(
        self, operations: Sequence[Mapping[str, Any]], provenance: Provenance, rules: Rules
    ) -> list[dict[str, Any]]:
        """Show what of a batch would be written, without writing it; `rules` note the rest."""
        gate = Gate(provenance=provenance, rules=rules, keeps_codes=self._keeps_codes)
        asked = await resolve_labels(
            self.ledgers, _list_operations({"operations": list(operations)}), self._phone_region
        )
        given, steps, _ = await _judge(gate, rules, asked)
        return [{"operation": asked[place][0], **given[place]} for place in sorted(steps)]

    async def add(self, arguments: Mapping[str, Any], provenance: Provenance) -> dict[str, Any]:
        """Record a fact in the owner's own words, with the owner as its source."""
        correction.require_owner(provenance)
        return await self.run("fact", correction.credit_owner(dict(arguments)), provenance)

    async def correct(
        self, fact_id: str, statement: str, provenance: Provenance, *, how: str | None = None
    ) -> dict[str, Any]:
        """Replace a fact by what the owner says is true now. Both stay in the log.

        `how` says whether it was never true (`corrected`), was true (`changed`, the default) or was called
        off (`cancelled`).
        """
        correction.require_owner(provenance)
        fact_id = await self.ledgers.memory.read(find_fact, fact_id)
        arguments = await correction.make_correction(self.ledgers, fact_id, statement, how)
        if provenance.scope:
            # Whoever speaks there is no owner of the home.
            arguments["metadata"]["speaker"] = provenance.scope.removeprefix(SCOPED_CHANNELS)
        held = await self.ledgers.memory.read(reviews.states, [fact_id])
        answer = await self.run("fact", arguments, provenance)
        if held[fact_id].is_pinned:
            await self.decide(answer["id"], "pin", provenance)
        await correction.refresh_profile(self.ledgers, fact_id, self._now)
        return {**answer, "replaces": fact_id}

    async def keep_both(self, fact_id: str, other_id: str | None, provenance: Provenance) -> dict[str, Any]:
        """Record that a fact and the one that replaced it, or another one, are both true."""
        correction.require_owner(provenance)
        fact_id = await self.ledgers.memory.read(find_fact, fact_id)
        if other_id:
            other_id = await self.ledgers.memory.read(find_fact, other_id)
        other = other_id or (await correction.load_fact(self.ledgers, fact_id)).replaced_by
        if other is None:
            raise UsageError(f"Nothing replaced {fact_id}", hint="Name the other fact as well.")
        await self.run("causal-link", {"cause": fact_id, "effect": other, "relation": "distinct"}, provenance)
        await correction.refresh_profile(self.ledgers, fact_id, self._now)
        return {"id": fact_id, "distinct_from": other}

    async def decide(
        self, fact_id: str, decision: Decision, provenance: Provenance, *, reason: str | None = None
    ) -> State:
        """Accept, reject or pin a fact as the owner, or take that back."""
        fact_id = await self.ledgers.memory.read(find_fact, fact_id)
        return await correction.decide(
            self.ledgers, fact_id, decision, provenance, reason=reason, now=self._now
        )

    async def check(self, operation: str, arguments: object, provenance: Provenance) -> None:
        """Raise a `UsageError` if something may not be written, without writing it."""
        gate = Gate(provenance=provenance, keeps_codes=self._keeps_codes)
        admitted = await _admit(gate, operation, arguments)
        for number, each in enumerate(admitted, start=1):
            _parse_at(*each, number, len(admitted))

    async def note_written(self, kind: str, ids: list[str]) -> None:
        """See to it that what was written has its vector soon."""
        if self._enqueue_embedding is not None and ids:
            await self._enqueue_embedding(kind, ids)

    async def _write(self, steps: Sequence[Step], provenance: Provenance) -> Scope:
        scope = Scope(
            provenance=provenance,
            now=clock.timestamp(self._now()),
            phone_region=self._phone_region,
            alike=await self._compare_new(steps),
        )
        await write(self.ledgers, steps, scope)
        for kind, ids in _collect_new(steps, scope).items():
            await self.note_written(kind, ids)
        return scope

    async def _compare_new(self, steps: Iterable[Step]) -> dict[str, dict[str, float]]:
        """Compare new entities in meaning with those that some other sign speaks for already."""
        if self._cosines is None:
            return {}
        found: dict[str, dict[str, float]] = {}
        for step in steps:
            if isinstance(step, AddEntity):
                signs = await self.ledgers.identity.read(step.signs, self._phone_region)
                found[step.id] = await self._cosines(step.name, list(signs)) if signs else {}
        return found


def parse(operation: str, arguments: object) -> Step:
    """Parse one operation's arguments, checked as far as that goes without the ledgers."""
    known = OPERATIONS.get(operation)
    if known is None:
        raise UsageError(
            f"Unknown operation {operation!r}", hint=f"There are {', '.join(OPERATIONS)} and {BATCH}."
        )
    given = Arguments(operation, arguments, known.example)
    step = known.parse(given)
    given.finish()
    return step


def _parse_labeled(operation: str, given: dict[str, Any], id_: object) -> Step:
    """Parse an operation; an entity that a batch makes gets the id that replaces its label there."""
    if operation != "entity" or not isinstance(id_, str) or OWN_ID.fullmatch(id_):
        return parse(operation, given)
    step = parse(operation, {name: value for name, value in given.items() if name != "id"})
    if isinstance(step, AddEntity):
        step.id = id_
    return step


def _format_refusal(error: UsageError) -> dict[str, Any]:
    return {"error": error.message, "hint": error.hint}


async def _judge(
    gate: Gate, rules: Rules, asked: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[dict[int, dict[str, Any]], dict[int, Step], dict[int, UsageError]]:
    """Let the gate judge a batch: what it admits, what that becomes, and what it refuses, by place."""
    given: dict[int, dict[str, Any]] = {}
    steps: dict[int, Step] = {}
    refusals: dict[int, UsageError] = {}
    # What makes entities comes first: the rules tell by it who is meant.
    for place in sorted(range(len(asked)), key=lambda place: asked[place][0] != "entity"):
        name, arguments = asked[place]
        try:
            given[place] = await gate.admit(name, arguments)
            steps[place] = _parse_labeled(name, given[place], arguments.get("id"))
        except UsageError as error:
            if place in given:
                rules.note_refusal(name, error.message)
            refusals[place] = error
    return given, steps, refusals


async def _admit(gate: Gate, operation: str, arguments: object) -> list[tuple[str, dict[str, Any]]]:
    """Let the gate check the operations of a call; returns them by name."""
    asked = (
        _list_operations(arguments)
        if operation == BATCH
        else [(operation, _require_object(operation, arguments))]
    )
    admitted: list[tuple[str, dict[str, Any]]] = []
    for number, (name, given) in enumerate(asked, start=1):
        try:
            admitted.append((name, await gate.admit(name, given)))
        except UsageError as error:
            raise place_error(error, number, len(asked)) from error
    return admitted


def _parse_at(operation: str, given: dict[str, Any], number: int, count: int) -> Step:
    try:
        return parse(operation, given)
    except UsageError as error:
        raise place_error(error, number, count) from error


def _require_object(operation: str, arguments: object) -> Mapping[str, Any]:
    if isinstance(arguments, Mapping):
        return cast("Mapping[str, Any]", arguments)
    parse(operation, arguments)
    raise AssertionError("what is no object is refused")


def _list_operations(arguments: object) -> list[tuple[str, Mapping[str, Any]]]:
    listed = (
        cast("Mapping[str, Any]", arguments).get("operations")
        if isinstance(arguments, Mapping)
        else arguments
    )
    if not isinstance(listed, list) or not listed:
        raise UsageError("A batch is a list of operations", hint=f"For example: {BATCH_EXAMPLE}")
    items = cast("list[object]", listed)
    return [_parse_item(item, number, len(items)) for number, item in enumerate(items, start=1)]


def _parse_item(item: object, number: int, count: int) -> tuple[str, Mapping[str, Any]]:
    rest = dict(cast("Mapping[str, Any]", item)) if isinstance(item, Mapping) else {}
    operation = rest.pop("operation", None)
    if not isinstance(operation, str):
        error = UsageError(
            "Each operation of a batch is an object with `operation`", hint=f"For example: {BATCH_EXAMPLE}"
        )
        raise place_error(error, number, count)
    return operation, rest


def _collect_new(steps: Iterable[Step], scope: Scope) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {"entity": [*scope.placeholders]} if scope.placeholders else {}
    for step in steps:
        for kind, id_ in step.makes:
            made.setdefault(kind, []).append(id_)
    return made
