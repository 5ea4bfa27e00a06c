"""A profile made of facts by rule, without a model: who the owner is, what restricts them, who is close.

Each line is a fact as it was stored. The order says what matters when there is no room for everything: the
name, what restricts the owner (allergies, diets, "must not"), who is close to them, what restricts those,
where they live and work, what they prefer, and what they are working on.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import apsw

from nexus.ledgers import Ledgers, sql
from nexus.memory.gate import is_confidential
from nexus.memory.languages import cues
from nexus.memory.profile.versions import SQL, Line, choose_fitting
from nexus.memory.recall.item import Named
from nexus.memory.recall.question import with_families
from nexus.memory.recall.reading import SQL as RECALL
from nexus.memory.recall.roles import Role, Sentence
from nexus.text import join_lines

# Whom a person would mention first when telling about themselves.
_CLOSE: Final = (
    "spouse",
    "partner",
    "child",
    "parent",
    "sibling",
    "dog",
    "cat",
    "pet",
    "grandparent",
    "grandchild",
)
# What the home calls its owner until somebody says a name.
_NO_NAME: Final = frozenset({"", "owner", "me", "nexus"})
_READ: Final = 600
# What the owner pinned comes right after the name.
_MOST_PINNED: Final = 6
_MOST_RESTRICTIONS, _MOST_PEOPLE, _MOST_OF_EACH, _MOST_PREFERENCES, _MOST_PROJECTS = 8, 8, 2, 6, 3
_LONGEST: Final = 200
_MOST_MATERIAL: Final = 60
# How sure a fact must be to stand in every prompt.
_SURE: Final = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fact:
    id: str
    text: str
    created_at: str
    source: str | None
    tied: frozenset[str]
    relation: str
    is_pinned: bool = False


async def make_lines(
    ledgers: Ledgers, *, now: str, after: str | None = None, written: str = ""
) -> tuple[Line, ...]:
    """Make the lines of a profile, as far as they fit beside the owner's own words.

    With `after`, only what was learned since: the owner has said how the rest should read.
    """
    return choose_fitting((await load_material(ledgers, now=now, after=after)).lines, written)


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """What a profile can be made of."""

    lines: tuple[Line, ...] = ()
    """By rule, the most important first, whether they fit or not."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What is known of the owner and those close to them: first what the lines say, then the newest."""
    restrictions: frozenset[str] = frozenset()
    """Facts that no profile leaves out: what the owner and those close to them can't eat, take or do."""


async def load_material(ledgers: Ledgers, *, now: str, after: str | None = None) -> Material:
    """Load what is known for a profile; with `after`, what was learned since."""
    owner = await ledgers.identity.read(_load_owner)
    if not owner:
        return Material()
    mine = await _load_facts(ledgers, owner, now)
    close = await _load_close(ledgers, mine, frozenset(owner))
    theirs = await _load_facts(ledgers, [entity for entity, _ in close], now) if close else []
    projects = await _load_projects(ledgers, mine, frozenset(owner), now)
    lines = list(_choose_lines(owner, mine, close, theirs, projects))
    known = {fact.id: fact for fact in (*mine, *theirs, *projects)}
    if after is not None:
        known = {id_: fact for id_, fact in known.items() if fact.created_at >= after or fact.is_pinned}
        lines = [line for line in lines if any(id_ in known for id_ in line.fact_ids)]
    chosen = [id_ for line in lines for id_ in line.fact_ids if id_ in known]
    facts = {id_: join_lines(known[id_].text) for id_ in dict.fromkeys((*chosen, *known))}
    return Material(
        lines=tuple(lines),
        facts=dict(list(facts.items())[:_MOST_MATERIAL]),
        restrictions=frozenset(id_ for id_ in chosen if cues.restricts(known[id_].text)),
    )


def _choose_lines(
    owner: Mapping[str, Named],
    mine: Sequence[_Fact],
    close: Sequence[tuple[str, _Fact]],
    theirs: Sequence[_Fact],
    projects: Sequence[_Fact],
) -> Iterable[Line]:
    seen: set[str] = set()

    def lines(facts: Iterable[_Fact], most: int) -> Iterable[Line]:
        for fact in facts:
            if most and fact.id not in seen:
                seen.add(fact.id)
                most -= 1
                yield Line(text=f"- {join_lines(fact.text)}", fact_ids=(fact.id,))

    name = next((each.name for each in owner.values() if each.name.lower() not in _NO_NAME), "")
    if name:
        yield Line(text=f"Name: {name}")
    own = [fact for fact in mine if fact.source in owner]
    yield from lines((fact for fact in own if fact.is_pinned), _MOST_PINNED)
    yield from lines((fact for fact in own if cues.restricts(fact.text)), _MOST_RESTRICTIONS)
    yield from lines((fact for _, fact in close), _MOST_PEOPLE)
    for entity, _ in close[:_MOST_PEOPLE]:
        about = (fact for fact in theirs if fact.source == entity and cues.restricts(fact.text))
        yield from lines(about, _MOST_OF_EACH)
    yield from lines((fact for fact in own if cues.settles(fact.text)), 3)
    yield from lines((fact for fact in own if cues.constrains(fact.text)), _MOST_PREFERENCES)
    yield from lines(projects, _MOST_PROJECTS)


async def _load_facts(ledgers: Ledgers, entities: Iterable[str], now: str) -> list[_Fact]:
    values = {"entities": json.dumps(list(entities)), "now": now, "limit": _READ}
    found = await ledgers.memory.read(sql.rows, SQL["current_facts"], values)
    facts = [_read_fact(row) for row in cast("list[Any]", found) if row[5] >= _SURE or row[8]]
    return [fact for fact in facts if len(fact.text) <= _LONGEST and not is_confidential(fact.text)]


async def _load_close(
    ledgers: Ledgers, mine: Sequence[_Fact], owner: frozenset[str]
) -> list[tuple[str, _Fact]]:
    """Load who is close to the owner, each with the fact that says so, the closest first."""
    tied = frozenset[str]().union(*(fact.tied for fact in mine)) | owner
    rows = await ledgers.identity.read(sql.rows, RECALL["called_like"], (json.dumps(sorted(tied)),))
    names: dict[str, frozenset[str]] = {}
    for name, entity in cast("list[tuple[str, str]]", rows):
        # People are called by their first names.
        for called in {name, name.split()[0] if name.split() else name}:
            names[called] = names.get(called, frozenset()) | {entity}
    found: dict[str, tuple[int, _Fact]] = {}
    for fact in reversed(mine):
        for entity, rank in _find_close(fact, names, owner):
            if entity not in found or rank < found[entity][0]:
                found[entity] = (rank, fact)
    ranked = sorted(found.items(), key=lambda pair: pair[1][0])
    return [(entity, fact) for entity, (_, fact) in ranked]


def _find_close(
    fact: _Fact, names: Mapping[str, frozenset[str]], owner: frozenset[str]
) -> Iterable[tuple[str, int]]:
    """Find entities that a fact says to be close to the owner, and how close."""
    for phrase in Sentence(fact.text, names).phrases(fact.tied):
        if not phrase.holders.isdisjoint(owner):
            others, roles = phrase.bearers - owner, phrase.roles
        elif not phrase.bearers.isdisjoint(owner):
            others = phrase.holders - owner
            roles = tuple(inverse for role in phrase.roles if (inverse := role.inverse))
        else:
            continue
        rank = min(map(_rank, roles), default=len(_CLOSE))
        if rank < len(_CLOSE):
            yield from ((entity, rank) for entity in others)


def _rank(role: Role) -> int:
    return _CLOSE.index(role.relation) if role.relation in _CLOSE else len(_CLOSE)


async def _load_projects(
    ledgers: Ledgers, mine: Sequence[_Fact], owner: frozenset[str], now: str
) -> list[_Fact]:
    """Load the newest fact of each project of the owner, the newest project first."""
    tied = frozenset[str]().union(*(fact.tied for fact in mine)) - owner
    types = await ledgers.identity.read(sql.rows, RECALL["types"], (json.dumps(sorted(tied)),))
    projects = [str(id_) for id_, type_ in types if str(type_).lower() == "project"]
    found = await _load_facts(ledgers, projects, now) if projects else []
    newest: dict[str, _Fact] = {}
    for fact in found:
        for entity in fact.tied & set(projects):
            newest.setdefault(entity, fact)
    return list(dict.fromkeys(newest.values()))


def _load_owner(connection: apsw.Connection) -> dict[str, Named]:
    rows = connection.execute(RECALL["owner"])
    return with_families(connection, {str(id_): Named(str(name)) for id_, name in rows})


def _read_fact(row: Any) -> _Fact:
    id_, text, created_at, source, target, _, relation, more, pinned = row
    tied = frozenset(entity for entity in (source, target, *(more or "").split(",")) if entity)
    return _Fact(
        id=id_,
        text=text,
        created_at=created_at,
        source=source,
        tied=tied,
        relation=relation or "",
        is_pinned=bool(pinned),
    )
