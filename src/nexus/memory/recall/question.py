"""A question understood: its words, the kind of answer it wants, the time it means."""

import itertools
import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast
from weakref import WeakKeyDictionary

import apsw
from rapidfuzz.distance import OSA

from nexus.ledgers import Ledgers
from nexus.ledgers.text import match_any
from nexus.memory.candidates import blocking_keys
from nexus.memory.languages import DEFAULT, cues, detect, mixture
from nexus.memory.languages.dates import find_window
from nexus.memory.recall.item import Named
from nexus.memory.recall.reading import SQL, Deadline
from nexus.memory.recall.roles import Phrase, Role, Sentence, every_possessive, for_people, is_role, words_for
from nexus.memory.recall.words import forms, function_words, tokens

_READ_TEXTS = 100
# A home that holds less has yet to settle on a language: look again each time.
_SETTLED_TEXTS = 20
_KEPT_S = 600.0
_UNKNOWN = ""

_known: WeakKeyDictionary[Ledgers, tuple[float, str]] = WeakKeyDictionary()
_LONGEST_QUESTION = 2_000
_MOST_TERMS = 48


def find_home_language(connection: apsw.Connection, ledgers: Ledgers) -> str:
    """Find the home's language, looked up every ten minutes; English while there is nothing to tell by."""
    until, language = _known.get(ledgers, (0.0, DEFAULT))
    if time.monotonic() < until:
        return language
    found = Counter[str]()
    for statement in ("newest_fact_texts", "newest_event_texts"):
        found += votes(str(row[0]) for row in connection.execute(SQL[statement], (_READ_TEXTS,)))
    language = found.most_common(1)[0][0] if found else DEFAULT
    if found.total() >= _SETTLED_TEXTS:
        _known[ledgers] = time.monotonic() + _KEPT_S, language
    return language


def votes(texts: Iterable[str]) -> Counter[str]:
    """How many of the texts are in each language; those that don't tell aren't counted."""
    found = Counter(detect(text, _UNKNOWN) for text in texts)
    del found[_UNKNOWN]
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What was asked, as the arms and the features use it."""

    text: str
    language: str  # what it is asked in: all texts are stemmed by its rules
    terms: tuple[str, ...]  # the distinct stemmed words that carry content
    forms: dict[str, str]  # each of them as it was written
    pairs: tuple[tuple[str, str], ...]  # adjacent words, not both of them function words
    asks_when: bool
    asks_count: bool
    asks_why: bool
    asks_past: bool  # how things were before they changed
    asks_first: bool  # and how they were in the very beginning
    followed_by: frozenset[str]  # the stemmed words of what came after it: "… before the ferry"
    asks_survey: bool
    first_person: bool
    window: tuple[datetime, datetime] | None


def gist(question: Question, names: frozenset[str]) -> str:
    """The question's content words without whom it is about: nearer to an answer than the question is."""
    kept = [form for term, form in question.forms.items() if term not in names]
    return " ".join(kept) or question.text


def understand(text: str, now: datetime, prior: str = DEFAULT) -> Question:
    """Read a question. Any text is one; one without content words keeps those that it has.

    `prior` is the language that is assumed if the text doesn't tell: the home's.
    """
    text = text[:_LONGEST_QUESTION]
    language, *others = mixture(text, prior)
    words = tokens(text, language)
    empty = function_words(language, *others)
    content = [word for word in dict.fromkeys(words) if word not in empty]
    pairs = [
        pair
        for pair in dict.fromkeys(itertools.pairwise(words))
        if not (pair[0] in empty and pair[1] in empty)
    ]
    terms = tuple((content or list(dict.fromkeys(words)))[:_MOST_TERMS])
    written = forms(text, language)
    return Question(
        text=text,
        language=language,
        terms=terms,
        forms={term: written[term] for term in terms},
        pairs=tuple(pairs[:_MOST_TERMS]),
        asks_when=cues.asks_when(text, language),
        asks_count=cues.asks_count(text, language),
        asks_why=cues.asks_why(text, language),
        asks_past=cues.asks_past(text, language),
        asks_first=cues.asks_first(text, language),
        followed_by=frozenset(tokens(cues.what_followed(text, language), language)) - empty,
        asks_survey=cues.asks_survey(text, language),
        first_person=cues.first_person(text, language),
        window=find_window(text, now, language),
    )


_LONGEST_ALIAS_WORDS = 4
_NO_NAMES = frozenset({"", "i", "me", "my", "you", "the", "a"})
_AROUND = ".,;:!?\"'()[]¿¡«»„“”"
# A slip is one letter too many, too few, wrong or swapped, and not at the beginning. In a shorter word it
# makes another word.
_SHORTEST_SLIP = 4
_SURE_LETTERS = 2
_COMPARED = 500


Aliases = Sequence[tuple[str, str, str]]
"""Names, each with the id of an entity that it stands for and what that is called."""


def load_aliases(connection: apsw.Connection, names: Iterable[str]) -> Aliases:
    """Load whom each of the names stands for; names that stand for nobody are left out."""
    rows = connection.execute(SQL["aliases"], (json.dumps(sorted(names)),))
    return cast("Aliases", rows.fetchall())


def entities_named(
    connection: apsw.Connection, question: Question, aliases: Aliases | None = None
) -> dict[str, Named]:
    """The entities that the question names by an alias, and those that are one with them, by id."""
    if aliases is None:
        aliases = load_aliases(connection, spans(question.text))
    return with_families(connection, _collected(aliases, question.language, "name"))


def spans(text: str, *, capitalized: bool = False) -> set[str]:
    """Whatever in a text may be a name: its words and short runs of them, as aliases are matched."""
    words = [word.strip(_AROUND) for word in text.replace("\u2019", "'").split()]
    words = [word.removesuffix("'s").removesuffix("'") for word in words]
    found = {
        " ".join(words[i : i + n])
        for n in range(1, _LONGEST_ALIAS_WORDS + 1)
        for i in range(len(words) - n + 1)
        if not capitalized or words[i][:1].isupper()
    }
    # German: Johannas Bruder.
    found |= {word[:-1] for word in words if word.endswith("s") and word[:1].isupper()}
    return {span.lower() for span in found} - _NO_NAMES


def aliases_of(connection: apsw.Connection, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """The entities that each of the names stands for; names that stand for none are left out."""
    return _group_aliases(load_aliases(connection, names))


def _group_aliases(aliases: Aliases) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for said, id_, _ in aliases:
        found[said] = found.get(said, frozenset()) | {id_}
    return found


def entities_misspelt(
    connection: apsw.Connection, words: Collection[str], language: str = DEFAULT
) -> dict[str, Named]:
    """The entities of which one of the words is an alias but for a slip."""
    found: list[tuple[str, str, str]] = []
    for word in (word.lower() for word in words if len(word) >= _SHORTEST_SLIP):
        given = {
            "keys": json.dumps(sorted(blocking_keys(word))),
            "shortest": len(word) - 1,
            "longest": len(word) + 1,
            "limit": _COMPARED,
        }
        rows = cast("Iterable[tuple[str, str, str]]", connection.execute(SQL["near_aliases"], given))
        found += [(word, entity_id, name) for alias, entity_id, name in rows if _is_slip(word, alias)]
    return with_families(connection, _collected(found, language, "slip"))


def narrowed_to(connection: apsw.Connection, entity: str) -> dict[str, Named]:
    """The entity of that id or name, and those that are one with it."""
    rows = connection.execute(SQL["aliases"], (json.dumps([entity.lower().strip()]),))
    named = {str(row[1]): Named(str(row[2]), via="filter", said=entity) for row in rows}
    return with_families(connection, named or {entity: Named("", via="filter", said=entity)})


def _is_slip(word: str, alias: str) -> bool:
    alike = word[:_SURE_LETTERS] == alias[:_SURE_LETTERS]
    return alike and OSA.distance(word, alias, score_cutoff=1) <= 1


def _collected(rows: Iterable[tuple[str, str, str]], language: str, via: str) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for said, entity_id, name in rows:
        before = found.get(entity_id)
        words = frozenset(tokens(said, language)) | (before.words if before else frozenset[str]())
        found[entity_id] = Named(name, words, via, before.said if before else said)
    return found


def with_families(connection: apsw.Connection, found: dict[str, Named]) -> dict[str, Named]:
    """Them, and every entity that is one with one of them."""
    if not found:
        return found
    family = connection.execute(SQL["families"], (json.dumps(list(found)),))
    return found | {str(row[1]): found[str(row[0])] for row in family}


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

# A message means people in its first part; a log that is pasted into a chat means nobody.
_LONGEST_MEANING = 10_000
# "my sister's husband's boss" has three.
_DEEPEST = 10

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
    """Find whom the beginning of a text means without a name; LateError where there is no time for it."""
    with deadline.guard(connection):
        return Referents(connection).find(text[:_LONGEST_MEANING])


@dataclass(slots=True)
class Referents:
    """The people whom a question means without naming them, looked up for the owner of the home."""

    connection: apsw.Connection
    _owner: dict[str, Named] = field(default_factory=dict[str, Named])

    def find(self, text: str, language: str = DEFAULT, aliases: Aliases | None = None) -> dict[str, Named]:
        """Find the owner, if the text speaks in the first person, and everybody whose role it names."""
        if aliases is None:
            aliases = load_aliases(self.connection, spans(text))
        owner, names = _owner(self.connection), _group_aliases(aliases)
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

    def _resolved(
        self, phrases: list[Phrase], at: int, done: dict[int, frozenset[str]], depth: int = 0
    ) -> frozenset[str]:
        """The entities that a phrase means; none if it names them itself."""
        if at not in done:
            done[at] = frozenset()
            phrase = phrases[at]
            if phrase.roles and phrase.definite and depth < _DEEPEST:
                holders = phrase.holders
                if phrase.holder_phrase is not None:
                    holders = self._resolved(phrases, phrase.holder_phrase, done, depth + 1)
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
