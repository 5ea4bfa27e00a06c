"""Observations: what a group of facts says together. A new version is added; none is ever overwritten."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import apsw

from nexus import ids
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.conclusions import batches
from nexus.memory.conclusions.batches import SQL, Batch, most

_OBSERVATION: Final = (
    "id", "subject_entity_id", "content", "confidence", "version", "previous_version_id", "stale_at",
    "stale_reason", "source_request_id", "created_at", "facts",
)  # fmt: skip
_FACT: Final = ("id", "fact", "at", "confidence", "source_event_id")


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An observation before it is recorded: its text, the facts it rests on, and what it is a version of."""

    text: str
    fact_ids: tuple[str, ...]
    revises: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusions:
    """What came of a batch: observations, and facts that add nothing to what is known."""

    drafts: tuple[Draft, ...]
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What was recorded."""

    added: list[str] = field(default_factory=list[str])
    revised: list[str] = field(default_factory=list[str])
    confirmed: list[str] = field(default_factory=list[str])
    """Shown, and left as they are."""


async def record(
    ledgers: Ledgers, batch: Batch, found: Conclusions, *, name: str, request_id: str, now: str
) -> Recorded | None:
    """Record what came of a batch, in one transaction; the same `name` again records nothing twice.

    None where something that was shown has been forgotten since: a text that was made from it is not kept.
    """
    cited = {id_ for draft in found.drafts for id_ in draft.fact_ids}
    named = await ledgers.memory.read(batches.subjects, cited)
    roots = await batches.roots_of_entities(ledgers, named.values())
    subjects = {fact: roots.get(entity, (entity, ""))[0] for fact, entity in named.items()}

    def work(connection: apsw.Connection) -> Recorded | None:
        if not _all_present(connection, batch):
            return None
        return _Recording(connection, name, request_id, now).whole(batch, found, subjects)

    return await ledgers.memory.write(work)


async def set_aside(
    ledgers: Ledgers, fact_ids: Iterable[str], *, reason: str, request_id: str | None, now: str
) -> None:
    """Note facts that nothing could be concluded from, and why; they are not tried again by themselves."""
    given = {"status": "failed", "detail": storable(reason), "request": request_id, "now": now}
    values = [{**given, "fact": id_} for id_ in fact_ids]
    await ledgers.memory.write(sql.run_each, SQL["note_fact"], values)


async def take_up_again(ledgers: Ledgers) -> int:
    """Let what was set aside wait again; returns how many facts those are."""

    def work(connection: apsw.Connection) -> int:
        connection.execute(SQL["take_up_again"])
        return connection.changes()

    return await ledgers.memory.write(work)


async def list_observations(
    ledgers: Ledgers, *, entities: Sequence[str] | None = None, stale: bool = False, limit: int = 50
) -> list[dict[str, Any]]:
    """List observations in their last version, newest first, each with its subject's name."""
    wanted = None if entities is None else json.dumps(list(entities))
    given = {"entities": wanted, "stale": stale, "limit": limit}
    found = await ledgers.memory.read(rows, SQL["listed_observations"], given)
    return await _add_names(ledgers, found)


async def load_observation(ledgers: Ledgers, observation_id: str) -> dict[str, Any] | None:
    """Load an observation with its evidence and its versions, newest first; None if it doesn't exist."""

    def work(connection: apsw.Connection) -> tuple[list[Any], list[Any]]:
        versions = rows(connection, SQL["observation_versions"], (observation_id,))
        return versions, rows(connection, SQL["evidence_of"], (observation_id,))

    versions, evidence = await ledgers.memory.read(work)
    if not versions:
        return None
    told = await _add_names(ledgers, versions)
    facts = [dict(zip(_FACT, row, strict=True)) for row in evidence]
    return {**told[0], "evidence": facts, "versions": told}


async def count_facts(ledgers: Ledgers) -> dict[str, int]:
    """Count the facts that wait and were set aside, and the observations that exist and are stale."""
    (row,) = await ledgers.memory.read(rows, SQL["counts"])
    return dict(zip(("waiting", "set_aside", "observations", "stale"), row, strict=True))


async def list_set_aside(ledgers: Ledgers, limit: int = 50) -> list[dict[str, Any]]:
    """List the facts that were set aside last, with the reason."""
    found = await ledgers.memory.read(rows, SQL["set_aside"], (limit,))
    return [dict(zip(("id", "fact", "reason", "attempts", "at"), row, strict=True)) for row in found]


class _Recording:
    """One batch being recorded."""

    def __init__(self, connection: apsw.Connection, name: str, request_id: str, now: str) -> None:
        self._connection = connection
        self._name = name
        self._noted = {"detail": None, "request": request_id, "now": now}

    def whole(self, batch: Batch, found: Conclusions, subjects: Mapping[str, str]) -> Recorded:
        done = Recorded()
        for number, draft in enumerate(found.drafts):
            id_ = ids.derived("obs", self._name, str(number))
            if self._connection.execute(SQL["has_observation"], (id_,)).get is None:
                self._add(id_, draft, subjects)
            (done.revised if draft.revises else done.added).append(id_)
        cited = {id_ for draft in found.drafts for id_ in draft.fact_ids}
        self._note("done", [id_ for id_ in batch.fact_ids if id_ in cited])
        self._note("skipped", found.skipped)
        revised = {draft.revises for draft in found.drafts}
        done.confirmed.extend(id_ for id_ in batch.observation_ids if id_ not in revised)
        self._connection.executemany(SQL["confirm_observation"], [{"id": id_} for id_ in done.confirmed])
        return done

    def _add(self, id_: str, draft: Draft, subjects: Mapping[str, str]) -> None:
        previous, version = self._previous(draft)
        subject: Any = most(subjects[fact] for fact in draft.fact_ids if fact in subjects)
        if previous is not None:
            subject = self._connection.execute(SQL["subject_of_observation"], (previous,)).get or subject
        confidence = self._connection.execute(SQL["confidence_of_facts"], (json.dumps(draft.fact_ids),)).get
        self._connection.execute(
            SQL["add_observation"],
            {
                "id": id_,
                "subject": subject,
                "content": storable(draft.text),
                "confidence": confidence,
                "version": version,
                "previous": previous,
                "request": self._noted["request"],
                "now": self._noted["now"],
            },
        )
        if previous is not None:
            # A revised text still tells what the one before it rested on.
            self._connection.execute(SQL["inherit_evidence"], {"id": id_, "previous": previous})
        self._connection.executemany(SQL["link_evidence"], [(id_, fact) for fact in draft.fact_ids])

    def _previous(self, draft: Draft) -> tuple[str | None, int]:
        if draft.revises is None:
            return None, 1
        id_, version = rows(self._connection, SQL["newest_version_of_observation"], (draft.revises,))[0]
        return id_, version + 1

    def _note(self, status: str, fact_ids: Iterable[str]) -> None:
        values = [{**self._noted, "status": status, "fact": id_} for id_ in fact_ids]
        self._connection.executemany(SQL["note_fact"], values)


async def _add_names(ledgers: Ledgers, found: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    told = [dict(zip(_OBSERVATION, row, strict=True)) for row in found]
    names = await batches.roots_of_entities(
        ledgers, [each["subject_entity_id"] for each in told if each["subject_entity_id"]]
    )
    return [each | {"subject": names.get(each["subject_entity_id"], ("", None))[1]} for each in told]


def _all_present(connection: apsw.Connection, batch: Batch) -> bool:
    given = {"facts": json.dumps(batch.shown_ids), "observations": json.dumps(batch.observation_ids)}
    return connection.execute(SQL["present"], given).get == len(batch.shown_ids) + len(batch.observation_ids)
