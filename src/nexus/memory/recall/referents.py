"""Who is meant by "I", "my husband" or "the landlord": the owner, and whom facts say to have that role."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import apsw

from nexus.ledgers.text import match_any
from nexus.memory.languages import DEFAULT
from nexus.memory.recall.item import Named
from nexus.memory.recall.naming import aliases_of, spans, with_families
from nexus.memory.recall.phrases import Phrase, Sentence
from nexus.memory.recall.reading import SQL, Deadline
from nexus.memory.recall.roles import Role, every_possessive, for_people, is_role, words_for
from nexus.memory.recall.words import tokens

# The oldest and the newest facts that are read to learn who has a role, so many of each.
_READ = 75
_MOST_BEARERS = 8
# Stray readings of a sentence are few beside those that name the right person.
_STRAY = 0.2
# How well something says who has a role: in so many words, from the other side, or of nobody in particular.
_STATED, _INVERSE, _ALIAS, _LOOSE = 4, 3, 2, 1

_LIFELESS = frozenset(
    {
        "company",
        "organisation",
        "organization",
        "team",
        "place",
        "city",
        "country",
        "project",
        "thing",
        "event",
    }
)

Names = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Fact:
    seq: int
    text: str
    tied: frozenset[str]


@dataclass(slots=True)
class _Evidence:
    """What speaks for an entity's having a role."""

    tier: int = 0
    facts: int = 0
    newest: int = 0
    genders: set[str] = field(default_factory=set[str])

    def add(self, tier: int, seq: int) -> None:
        if tier > self.tier:
            self.tier, self.facts = tier, 0
        self.facts += tier == self.tier
        self.newest = max(self.newest, seq)


def find_referents(connection: apsw.Connection, text: str, deadline: Deadline) -> dict[str, Named]:
    """Find whom a text means without naming them; LateError where there is no time for it."""
    with deadline.guard(connection):
        return Referents(connection).find(text)


@dataclass(slots=True)
class Referents:
    """The people whom a question means without naming them, looked up for the owner of the home."""

    connection: apsw.Connection
    _owner: dict[str, Named] = field(default_factory=dict[str, Named])

    def find(self, text: str, language: str = DEFAULT) -> dict[str, Named]:
        """Find the owner, if the text speaks in the first person, and everybody whose role it names."""
        owner, names = _owner(self.connection), aliases_of(self.connection, spans(text))
        self._owner = owner
        sentence = Sentence(text, _without_roles_of(names, owner), frozenset(owner))
        phrases = sentence.phrases()
        found: dict[str, Named] = {}
        if sentence.first_person is not None:
            found = {
                id_: Named(named.name, via="owner", said=sentence.first_person)
                for id_, named in owner.items()
            }
        resolved: dict[int, frozenset[str]] = {}
        for at in range(len(phrases)):
            bearers = self._resolved(phrases, at, resolved)
            if bearers:
                found |= _named(self.connection, phrases[at], bearers, language)
        return found

    def _resolved(self, phrases: list[Phrase], at: int, done: dict[int, frozenset[str]]) -> frozenset[str]:
        """The entities that a phrase means; none if it names them itself."""
        if at not in done:
            done[at] = frozenset()
            phrase = phrases[at]
            if phrase.roles and phrase.definite:
                holders = phrase.holders
                if phrase.holder_phrase is not None:
                    holders = self._resolved(phrases, phrase.holder_phrase, done)
                elif phrase.implied or not holders:
                    holders = frozenset(self._owner)
                if phrase.bearers:
                    done[at] = phrase.bearers
                    return frozenset()
                done[at] = self._bearers(holders, phrase.roles)
        return done[at] if not phrases[at].bearers else frozenset()

    def _bearers(self, holders: frozenset[str], roles: tuple[Role, ...]) -> frozenset[str]:
        if not holders:
            return frozenset()
        holders = frozenset(with_families(self.connection, dict.fromkeys(holders, Named(""))))
        for asked in (roles, tuple(wider for role in roles for wider in role.wider)):
            if asked and (found := self._known(holders, asked)):
                return found
        # A family calls the mother of a parent what the children call her.
        up = tuple(Role("parent", role.gender) for role in roles if role.relation == "grandparent")
        return self._known(holders, up) if up else frozenset()

    def _known(self, holders: frozenset[str], roles: tuple[Role, ...]) -> frozenset[str]:
        evidence: dict[str, _Evidence] = {}
        if not holders.isdisjoint(self._owner):
            for id_ in _called(self.connection, roles):
                evidence.setdefault(id_, _Evidence()).add(_ALIAS, 0)
        names = sorted({name for name, _ in _names(self.connection, holders)})
        inverses = tuple(inverse for role in roles if (inverse := role.inverse))
        words = match_any(words_for((*roles, *inverses)))
        for match in (f"({words}) AND ({match_any(names)})", words):
            facts = _facts(self.connection, match)
            for fact, phrase in self._read(facts, holders):
                _weigh(evidence, fact, phrase, holders, roles)
            if any(entry.tier > _LOOSE for entry in evidence.values()):
                break
        genders = {role.gender for role in roles}
        right = {
            id_: entry
            for id_, entry in evidence.items()
            if entry.tier
            and id_ not in holders
            and (None in genders or not entry.genders or entry.genders & genders)
        }
        if for_people(roles) and right:
            kept = _alive(self.connection, right)
            right = {id_: entry for id_, entry in right.items() if id_ in kept}
        return _best(right)

    def _read(self, facts: list[_Fact], holders: frozenset[str]) -> list[tuple[_Fact, Phrase]]:
        """The roles in each fact that is about somebody else as well, with the names that it holds."""
        told = {fact.seq: spans(fact.text, capitalized=True) for fact in facts}
        every = frozenset[str]().union(*told.values())
        tied = frozenset[str]().union(*(fact.tied for fact in facts))
        names = _merged(aliases_of(self.connection, every), _names(self.connection, tied))
        found: list[tuple[_Fact, Phrase]] = []
        for fact in facts:
            here = {name: names[name] & fact.tied or names[name] for name in told[fact.seq] & names.keys()}
            if not fact.tied.union(*here.values()) <= holders:
                # Of several with one name, those that the fact is tied to.
                near = {name: ids & fact.tied or ids for name, ids in names.items()}
                found += [(fact, phrase) for phrase in Sentence(fact.text, near).phrases(fact.tied)]
        return found


def _weigh(
    evidence: dict[str, _Evidence],
    fact: _Fact,
    phrase: Phrase,
    holders: frozenset[str],
    asked: tuple[Role, ...],
) -> None:
    if any(role.fits(want) for role in phrase.roles for want in asked):
        if not phrase.holders.isdisjoint(holders):
            tier = _STATED
        elif not phrase.holders and phrase.holder_phrase is None:
            tier = _LOOSE
        else:
            tier = 0
        for id_ in phrase.bearers if tier else ():
            evidence.setdefault(id_, _Evidence()).add(tier, fact.seq)
    for role in phrase.roles:
        for id_ in phrase.bearers if role.gender else ():
            evidence.setdefault(id_, _Evidence()).genders.add(str(role.gender))
    inverses = [inverse for role in phrase.roles if (inverse := role.inverse)]
    if not phrase.bearers.isdisjoint(holders) and any(i.fits(want) for i in inverses for want in asked):
        for id_ in phrase.holders:
            evidence.setdefault(id_, _Evidence()).add(_INVERSE, fact.seq)


def _alive(connection: apsw.Connection, ids: Iterable[str]) -> set[str]:
    rows = connection.execute(SQL["types"], (json.dumps(list(ids)),))
    return {str(id_) for id_, type_ in rows if str(type_).lower() not in _LIFELESS}


def _best(evidence: dict[str, _Evidence]) -> frozenset[str]:
    if not evidence:
        return frozenset()
    tier = max(entry.tier for entry in evidence.values())
    kept = {id_: entry for id_, entry in evidence.items() if entry.tier == tier}
    most = max(entry.facts for entry in kept.values())
    ordered = sorted(kept.items(), key=lambda pair: -pair[1].newest)
    return frozenset([id_ for id_, entry in ordered if entry.facts >= _STRAY * most][:_MOST_BEARERS])


def _owner(connection: apsw.Connection) -> dict[str, Named]:
    rows = connection.execute(SQL["owner"])
    return with_families(connection, {str(id_): Named(str(name)) for id_, name in rows})


def _named(
    connection: apsw.Connection, phrase: Phrase, bearers: Iterable[str], language: str
) -> dict[str, Named]:
    rows = connection.execute(SQL["canonical_names"], (json.dumps(list(bearers)),))
    role = phrase.said.split()[-1]
    words = frozenset(tokens(role, language))
    named = {str(id_): Named(str(name), words, via=f"role: {role}", said=phrase.said) for id_, name in rows}
    return with_families(connection, named)


def _called(connection: apsw.Connection, roles: Iterable[Role]) -> set[str]:
    """Entities that have the role for an alias: Mum, my husband."""
    words = words_for(roles)
    said = [*words, *(f"{whose} {word}" for whose in every_possessive() for word in words)]
    return {id_ for ids in aliases_of(connection, said).values() for id_ in ids}


def _facts(connection: apsw.Connection, match: str) -> list[_Fact]:
    rows = connection.execute(SQL["facts_with_roles"], {"match": match, "limit": _READ})
    return [
        _Fact(seq, text, frozenset(id_ for id_ in (source, target, *(more or "").split(",")) if id_))
        for seq, text, source, target, more in cast("list[tuple[int, str, str, str, str]]", rows.fetchall())
    ]


def _names(connection: apsw.Connection, ids: Iterable[str]) -> list[tuple[str, str]]:
    rows = connection.execute(SQL["called_like"], (json.dumps(list(ids)),))
    return [(str(name), str(id_)) for name, id_ in rows]


def _merged(names: Names, more: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    merged = dict(names)
    for name, id_ in more:
        merged[name] = merged.get(name, frozenset()) | {id_}
    return merged


def _without_roles_of(names: Names, owner: Mapping[str, Named]) -> Names:
    """Others may call the owner Mum: asked by the owner, the word means somebody else."""
    mine = frozenset(owner)
    return {name: ids for name, ids in names.items() if ids - mine or not is_role(name)}
