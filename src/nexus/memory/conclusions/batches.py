"""Which facts wait to be consolidated, which go together, and whose word they are."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, cast

import apsw

from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import requests
from nexus.ledgers.sql import load_statements, rows
from nexus.memory import merging

SQL: Final = load_statements(Path(__file__).with_name("queries.sql"))
ShownKind = Literal["fact", "observation", "mental_model"]
_NAMED: Final = 3
# So many of the oldest are looked at, to find those that go together.
_WINDOW: Final = 2_000
_BYTES_PER_TOKEN: Final = 4
# What a date, a number and the source add to a line.
_LINE_TOKENS: Final = 16
_SHOWN_OBSERVATIONS: Final = 20
_EVIDENCE_EACH: Final = 5
_LABEL_CHARACTERS: Final = 4


def most(values: Iterable[str]) -> str | None:
    """The one that occurs most often, the first of several; None where there are none."""
    common = Counter(values).most_common(1)
    return common[0][0] if common else None


async def note_shown(ledgers: Ledgers, execution_id: str, things: Iterable[tuple[ShownKind, str]]) -> None:
    """Note it, before the run is told."""
    rows = [(execution_id, kind, id_) for kind, id_ in things]
    if rows:
        await ledgers.memory.write(sql.run_each, SQL["note_shown"], rows)


async def speakers_behind(ledgers: Ledgers, ids: Iterable[str]) -> dict[str, str]:
    """By the id of a fact, an observation or a mental model: the names of those who said it."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    found = await ledgers.memory.read(rows, SQL["said"], (json.dumps(wanted),))
    senders = await _senders(ledgers, {event for _, speaker, event in found if event and not speaker})
    names = defaultdict[str, list[str]](list)
    for id_, speaker, event in found:
        name = _plain(speaker or senders.get(event, ""))
        if name and name not in names[id_]:
            names[id_].append(name)
    return {id_: _listed(each) for id_, each in names.items() if each}


async def _senders(ledgers: Ledgers, event_ids: set[str]) -> dict[str, str]:
    def work(connection: apsw.Connection) -> dict[str, str]:
        given = (json.dumps(sorted(event_ids)),)
        found = connection.execute(sql.queries("events")["senders"], given)
        return {str(id_): str(sender) for id_, sender in found}

    return await ledgers.events.read(work) if event_ids else {}


def _plain(name: object) -> str:
    """A name is somebody's own choice, and must not end the brackets that it stands in."""
    return re.sub(r"[(),\s<>]+", " ", str(name)).strip()


def _listed(names: list[str]) -> str:
    shown = names[:_NAMED] + ["others"] * (len(names) > _NAMED)
    return " and ".join(shown)


def labels_of(fact_ids: Sequence[str]) -> dict[str, str]:
    """Short names of some facts, from the end of their ids."""
    length = _LABEL_CHARACTERS
    while len({id_[-length:] for id_ in fact_ids}) < len(set(fact_ids)):
        length += 1
    return {id_: f"F{id_[-length:]}" for id_ in fact_ids}


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How large a batch may be."""

    facts: int
    tokens: int
    """Of the new facts; what is shown beside them may take as much again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Facts that are consolidated together, and what is shown beside them. It holds ids alone."""

    root_request_id: str | None
    fact_ids: tuple[str, ...]
    observation_ids: tuple[str, ...] = ()
    known_ids: tuple[str, ...] = ()
    """Facts that support the observations, and are consolidated already."""

    @property
    def key(self) -> str:
        """What names this batch and no other."""
        return hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()[:20]

    @property
    def shown_ids(self) -> tuple[str, ...]:
        """Every fact that is shown; the first one is number 1."""
        return (*self.fact_ids, *self.known_ids)

    @property
    def labels(self) -> dict[str, str]:
        """Short names of the facts that are shown, which stay the same in whatever batch: `F7Q2K`."""
        return labels_of(self.shown_ids)

    @property
    def shown(self) -> list[tuple[ShownKind, str]]:
        """Everything that is shown, by kind."""
        facts: list[tuple[ShownKind, str]] = [("fact", id_) for id_ in self.shown_ids]
        return [*facts, *(("observation", id_) for id_ in self.observation_ids)]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        lists = {name: tuple(value[name]) for name in ("fact_ids", "observation_ids", "known_ids")}
        return cls(root_request_id=value["root_request_id"], **lists)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Waiting:
    seq: int
    id: str
    entity_id: str | None
    tokens: int
    root_request_id: str | None


async def choose(
    ledgers: Ledgers, limits: Limits, *, until: str, after_seq: int = 0, leave: frozenset[str] = frozenset()
) -> tuple[Batch | None, int]:
    """The next batch of facts that were recorded by a moment, and from where the one after it may look.

    The oldest fact decides which message's facts are next; those in `leave` are not taken.
    """
    found = await _waiting(ledgers, after_seq, until)
    waiting = [fact for fact in found if fact.id not in leave]
    if not waiting:
        return None, after_seq
    root = waiting[0].root_request_id
    together = [fact for fact in waiting if fact.root_request_id == root]
    chosen = [fact.id for fact in _cut(_by_entity(together), limits)]
    return await complete(ledgers, root, chosen, limits), found[0].seq - 1


async def complete(
    ledgers: Ledgers, root_request_id: str | None, fact_ids: Sequence[str], limits: Limits
) -> Batch:
    """The batch of some facts: with what stands about their entities by now."""
    observations, known = await _beside(ledgers, fact_ids, limits)
    return Batch(
        root_request_id=root_request_id,
        fact_ids=tuple(fact_ids),
        observation_ids=tuple(observations),
        known_ids=tuple(id_ for id_ in known if id_ not in fact_ids),
    )


async def families(ledgers: Ledgers, entity_ids: Iterable[str]) -> set[str]:
    """The entities and all that are one with them."""
    wanted = set(entity_ids)
    return await ledgers.identity.read(
        lambda c: {one for each in wanted for one in merging.family(c, each)} | wanted
    )


async def roots_of_entities(ledgers: Ledgers, entity_ids: Iterable[str]) -> dict[str, tuple[str, str]]:
    """For each entity the id and the name of the one that it stands for now."""
    wanted = (json.dumps(sorted(set(entity_ids))),)
    found = await ledgers.identity.read(rows, sql.queries("identity")["names_of"], wanted)
    return {start: (root_id, name) for start, root_id, name in found}


async def _waiting(ledgers: Ledgers, after_seq: int, until: str) -> list[_Waiting]:
    given = {"after": after_seq, "until": until, "limit": _WINDOW}
    found = await ledgers.memory.read(rows, SQL["waiting_facts"], given)
    entities = await roots_of_entities(ledgers, [row[2] for row in found if row[2]])
    asked = sorted({row[4] for row in found if row[4]})
    roots = await ledgers.runtime.read(requests.roots_of, request_ids=asked)
    return [
        _Waiting(
            seq=seq,
            id=id_,
            entity_id=entities.get(entity, (entity, ""))[0] if entity else None,
            tokens=_tokens(length),
            root_request_id=roots.get(request_id),
        )
        for seq, id_, entity, length, request_id in found
    ]


def _by_entity(facts: list[_Waiting]) -> list[_Waiting]:
    """Those of one entity together, the entity of the oldest fact first."""
    place: dict[str | None, int] = {}
    for fact in facts:
        place.setdefault(fact.entity_id, len(place))
    return sorted(facts, key=lambda fact: (place[fact.entity_id], fact.seq))


def _cut(facts: list[_Waiting], limits: Limits) -> list[_Waiting]:
    chosen: list[_Waiting] = []
    tokens = 0
    for fact in facts:
        tokens += fact.tokens
        if chosen and (len(chosen) == limits.facts or tokens > limits.tokens):
            break
        chosen.append(fact)
    return chosen


async def _beside(ledgers: Ledgers, fact_ids: Sequence[str], limits: Limits) -> tuple[list[str], list[str]]:
    """What was concluded about the entities of some facts, with its newest evidence, while there is room."""
    given = {"facts": json.dumps(list(fact_ids))}
    touched = await ledgers.memory.read(rows, SQL["touched_entities"], given)
    families_ = await families(ledgers, [id_ for (id_,) in touched])
    about = {"entities": json.dumps(sorted(families_)), "limit": _SHOWN_OBSERVATIONS}

    def work(connection: apsw.Connection) -> tuple[list[str], list[str]]:
        observations: list[str] = []
        known: dict[str, None] = {}
        left = limits.tokens
        for id_, length in rows(connection, SQL["observations_about"], about):
            left -= _tokens(length)
            if left < 0:
                break
            observations.append(id_)
            for fact_id, fact_length in rows(connection, SQL["evidence"], (id_, _EVIDENCE_EACH)):
                if fact_id not in known and left >= _tokens(fact_length):
                    left -= _tokens(fact_length)
                    known[fact_id] = None
        return observations, list(known)

    return await ledgers.memory.read(work)


def _tokens(length_bytes: int) -> int:
    return _LINE_TOKENS + -(-length_bytes // _BYTES_PER_TOKEN)


def subjects(connection: apsw.Connection, ids: Iterable[str]) -> dict[str, str]:
    """Whom or what each of some facts, observations and mental models is about."""
    found = rows(connection, SQL["subjects_of"], (json.dumps(list(ids)),))
    return {id_: cast("str", entity) for id_, entity in found if entity}
