"""Words for what one person is to another, in five languages: "husband", "Chefin", "mi hermana".

The words are the people of `lexicons/<code>.py`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from nexus.memory.languages.lexicon import People, lexicons, names

LONGEST_ROLE_WORDS: Final = 3

# Every relation, with what the other person is to this one where that has a word.
_RELATIONS: Final[dict[str, str]] = {
    relation: inverse
    for relation, _, inverse in (
        pair.partition("/")
        for pair in names("""
spouse/spouse partner/partner ex/ex child/parent parent/child sibling/sibling grandparent/grandchild
grandchild/grandparent uncle_aunt/niece_nephew niece_nephew/uncle_aunt cousin/cousin
parent_in_law/child_in_law child_in_law/parent_in_law sibling_in_law/sibling_in_law godchild/godparent
godparent/godchild friend/friend boss/report report/boss colleague/colleague mentor/mentee mentee/mentor
pupil/teacher neighbor/neighbor roommate/roommate landlord/tenant tenant/landlord doctor/patient
patient/doctor dentist vet therapist midwife teacher/pupil coach lawyer accountant tradesperson
hairdresser sitter cleaner client supplier dog cat pet
""")
    )
}
# What else people call it.
_WIDER: Final = {
    "spouse": ("partner",),
    "partner": ("spouse",),
    "teacher": ("mentor",),
    "coach": ("teacher",),
    "dog": ("pet",),
    "cat": ("pet",),
    "pet": ("dog", "cat"),
}
# Roles that a company can have.
_ANYBODY: Final = frozenset({"client", "supplier", "landlord"})


@dataclass(frozen=True, slots=True)
class Role:
    """What one person is to another: the relation, and the gender as far as the word tells it."""

    relation: str
    gender: str | None = None

    def fits(self, other: "Role") -> bool:
        """Whether somebody who is the one can be the other."""
        return self.relation == other.relation and (
            self.gender is None or other.gender is None or self.gender == other.gender
        )

    @property
    def inverse(self) -> "Role | None":
        """What the other person is to this one."""
        relation = _RELATIONS[self.relation]
        return Role(relation) if relation else None

    @property
    def wider(self) -> "list[Role]":
        """What else people call it."""
        return [Role(relation, self.gender) for relation in _WIDER.get(self.relation, ())]


@cache
def grammar() -> dict[str, People]:
    """Each language's words for people."""
    return {code: known.people for code, known in lexicons().items() if known.people}


def languages(words: Iterable[str]) -> frozenset[str]:
    """The languages that a text may be in, by its small words; all of them if it has none."""
    said = list(words)
    counts = {name: sum(map(language.common.__contains__, said)) for name, language in grammar().items()}
    most = max(counts.values())
    return frozenset(name for name, count in counts.items() if count == most)


def roles_called(phrase: str, spoken: Collection[str]) -> tuple[Role, ...]:
    """The roles that a word or phrase stands for in a text of these languages."""
    found = _lexicon().get(phrase, {})
    if phrase in _collect("needs_language") and found.keys().isdisjoint(spoken):
        return ()
    said = [role for language, roles in found.items() if language in spoken for role in roles]
    return tuple(dict.fromkeys(said or [role for roles in found.values() for role in roles]))


def needs_holder(phrase: str) -> bool:
    """Whether the word is a role only next to whose it is."""
    return phrase in _collect("needs_holder")


def is_name(phrase: str) -> bool:
    """Whether people use the word like a name: Mum, Oma."""
    return phrase in _collect("called")


def for_people(roles: Iterable[Role]) -> bool:
    """Whether only a person or an animal can have one of the roles."""
    return all(role.relation not in _ANYBODY for role in roles)


def is_role(phrase: str) -> bool:
    """Whether the phrase is a word for a role in any of the languages."""
    return phrase in _lexicon()


@cache
def every_possessive() -> frozenset[str]:
    """My, our, mein, mi, … and articles, in every language."""
    return frozenset[str]().union(*(each.possessive | each.neutral for each in grammar().values()))


def words_for(roles: Iterable[Role]) -> list[str]:
    """Every word for the roles, in every language."""
    relations = {role.relation for role in roles}
    nouns = {
        phrase
        for phrase, found in _lexicon().items()
        if any(role.relation in relations for called in found.values() for role in called)
    }
    unions = [union for language in grammar().values() for union in language.unions]
    return sorted(nouns | {" ".join(said) for relation, said in unions if relation in relations})


@cache
def _lexicon() -> dict[str, dict[str, tuple[Role, ...]]]:
    found: dict[str, dict[str, tuple[Role, ...]]] = {}
    for relation in _RELATIONS:
        for place, gender in enumerate(("m", "f", None)):
            for language, people in grammar().items():
                for phrase in people.roles.get(relation, ((), (), ()))[place]:
                    for form in {phrase, phrase.casefold()}:  # Switzerland has no ß
                        called = found.setdefault(form, {})
                        called[language] = (*called.get(language, ()), Role(relation, gender))
    return found


@cache
def _collect(field: str) -> frozenset[str]:
    """The words of one kind in every language."""
    return frozenset[str]().union(*(getattr(people, field) for people in grammar().values()))


LONGEST_NAME_WORDS = 4
_TOKEN = re.compile(r"\w+(?:-\w+)*(?:'\w+)*'?|[.,;:!?()]")
_ELIDED = re.compile(r"(qu|[cdjlmnst])'(.+)")
_PUNCTUATION = frozenset(".,;:!?()")
_ENDS = frozenset(".;!?")
# How far from a role its holder is looked for: "Nora's much loved younger brother".
_BEFORE, _AFTER = 4, 5


@dataclass(frozen=True, slots=True)
class Phrase:
    """A role as a text says it: "my daughter's teacher" has the teacher's phrase and the daughter's."""

    said: str
    roles: tuple[Role, ...]
    holders: frozenset[str] = frozenset()  # entities whose role it is; empty if the text doesn't say
    holder_phrase: int | None = None  # or the phrase, by its place in the list, that stands for them
    bearers: frozenset[str] = frozenset()  # the entities that have it
    implied: bool = False  # the holder was only mentioned nearby
    definite: bool = True  # "my boss", "the boss", "Mum", but not "a boss"


@dataclass(slots=True)
class _Unit:
    text: str
    start: int
    end: int
    genitive: bool = False
    ids: frozenset[str] = frozenset()
    roles: tuple[Role, ...] = ()
    phrase: int = -1

    @property
    def plain(self) -> bool:
        return not self.ids and not self.roles


class Sentence:
    """A text cut into names, roles and other words."""

    def __init__(
        self, text: str, names: Mapping[str, frozenset[str]], owner: frozenset[str] = frozenset()
    ) -> None:
        self._text = text.replace("\u2019", "'")
        self._owner = owner
        self._names = names
        words = list(_words(self._text))
        self.languages = languages(word.text for word in words)
        self._grammar = _together(self.languages)
        self._units = self._cut(words)
        self._begins: dict[int, int] = {}  # where the phrase of a role begins, by the role's place

    @property
    def first_person(self) -> str | None:
        """The first word that stands for the speaker: I, my, wir, nous."""
        return next((u.text for u in self._units if u.plain and u.text in self._grammar.first), None)

    def phrases(self, tied: Collection[str] = ()) -> list[Phrase]:
        """Every role in the text. `tied`: entities that it is known to be about, named or not."""
        found: list[Phrase] = []
        for at, unit in enumerate(self._units):
            if unit.phrase < 0:
                continue
            holders, holder_phrase, start, end = self._holder(at)
            self._begins[at] = start
            if not holders and holder_phrase is None and needs_holder(unit.text):
                found.append(Phrase(said=unit.text, roles=()))
                continue
            bearers = self._bearers(start, end, holders)
            implied = not holders and holder_phrase is None
            if implied:
                holders = self._nearest_before(start) - bearers
            bearers = bearers or self._unnamed(tied, holders)
            said = self._text[self._units[start].start : self._units[end - 1].end]
            found.append(
                Phrase(
                    said,
                    self._sense(at),
                    holders,
                    holder_phrase,
                    bearers,
                    implied=implied and bool(holders),
                    definite=not implied or self._definite(at),
                )
            )
        return [*found, *self._unions()]

    def _sense(self, at: int) -> tuple[Role, ...]:
        """German and French say friend for a partner too, but not "oldest friend"."""
        roles = self._units[at].roles
        friends = tuple(role for role in roles if role.relation == "friend")
        before = self._units[max(0, at - 1)]
        described = at > 0 and before.plain and before.text not in self._grammar.common | _PUNCTUATION
        return friends if friends and described else roles

    def _definite(self, at: int) -> bool:
        unit, before = self._units[at], self._units[at - 1].text if at else ""
        if is_name(unit.text):
            return not before or before in self._grammar.common or before in _PUNCTUATION
        return before in self._grammar.definite

    def _cut(self, words: "list[_Unit]") -> "list[_Unit]":
        units: list[_Unit] = []
        at = phrases = 0
        while at < len(words):
            length, unit = self._name(words, at) or self._role(words, at) or (1, words[at])
            if unit.roles:
                unit.phrase, phrases = phrases, phrases + 1
            units.append(unit)
            at += length
        return units

    def _name(self, words: "list[_Unit]", at: int) -> "tuple[int, _Unit] | None":
        for length in range(min(LONGEST_NAME_WORDS, len(words) - at), 0, -1):
            span = words[at : at + length]
            said = " ".join(word.text for word in span)
            if said in self._names:
                return length, _joined(span, said, self._names[said], genitive=span[-1].genitive)
            # German: Johannas Bruder.
            if said.endswith("s") and said[:-1] in self._names and length == 1:
                return length, _joined(span, said, self._names[said[:-1]], genitive=True)
        return None

    def _role(self, words: "list[_Unit]", at: int) -> "tuple[int, _Unit] | None":
        found = self._roles_at(words, at)
        if found is None:
            return None
        length, said, roles = found
        if self._roles_at(words, at + length) and not words[at + length - 1].genitive:
            return None  # "twin sister": the next word is the role
        span = words[at : at + length]
        unit = _joined(span, said, frozenset(), genitive=span[-1].genitive)
        unit.roles = roles
        return length, unit

    def _roles_at(self, words: "list[_Unit]", at: int) -> "tuple[int, str, tuple[Role, ...]] | None":
        for length in range(min(LONGEST_ROLE_WORDS, len(words) - at), 0, -1):
            said = " ".join(word.text for word in words[at : at + length])
            if roles := roles_called(said, self.languages):
                return length, said, roles
        return None

    def _holder(self, at: int) -> tuple[frozenset[str], int | None, int, int]:
        """Whose role it is, and where the phrase begins and ends."""
        start = at
        for place in range(at - 1, max(-1, at - 1 - _BEFORE), -1):
            unit = self._units[place]
            if unit.genitive and unit.ids:
                more, begin = self._joined_before(place, comma=False)
                return unit.ids | more, None, begin, at + 1
            if unit.genitive and unit.roles:
                return frozenset(), unit.phrase, self._begins[place], at + 1
            if unit.text in self._grammar.possessive and self._owner:
                return self._owner, None, place, at + 1
            if unit.text in self._grammar.third:
                return self._nearest_before(place), None, place, at + 1
            if not unit.plain or unit.text in _PUNCTUATION or unit.text in self._grammar.copula:
                break
            if unit.text in self._grammar.neutral:
                start = place
                break
            if unit.text in self._grammar.common:
                break
        return self._holder_after(at, start)

    def _holder_after(self, at: int, start: int) -> tuple[frozenset[str], int | None, int, int]:
        for place in range(at + 1, min(len(self._units), at + 1 + _AFTER)):
            unit = self._units[place]
            if not unit.plain or unit.text in _PUNCTUATION or unit.text in self._grammar.copula:
                break
            if unit.text not in self._grammar.of:
                continue
            other = self._skip(place + 1, self._grammar.neutral | self._grammar.possessive)
            if other >= len(self._units):
                break
            if self._units[other].ids:
                more, end = self._joined_after(other, comma=False)
                return self._units[other].ids | more, None, start, end
            if self._units[other].roles:
                return frozenset(), self._units[other].phrase, start, other + 1
        return frozenset(), None, start, at + 1

    def _bearers(self, start: int, end: int, holders: frozenset[str]) -> frozenset[str]:
        skipped = self._grammar.neutral | self._grammar.copula | {",", ":", "("}
        after = self._skip(end, skipped)
        if after < len(self._units) and after - end <= 3 and self._units[after].ids - holders:
            unit = self._units[after]
            if not unit.genitive:
                return unit.ids - holders | self._joined_after(after)[0]
        return self._bearers_before(start, holders)

    def _bearers_before(self, start: int, holders: frozenset[str]) -> frozenset[str]:
        copula = other = False
        for place in range(start - 1, -1, -1):
            unit = self._units[place]
            if unit.text in _ENDS:
                break
            if unit.ids - holders and not unit.genitive:
                near = copula or not other
                return unit.ids - holders | self._joined_before(place)[0] if near else frozenset()
            copula |= unit.text in self._grammar.copula
            other |= unit.text not in self._grammar.neutral | {",", "("}
        return frozenset()

    def _joined_before(self, place: int, *, comma: bool = True) -> tuple[frozenset[str], int]:
        """The names listed before one, and where they begin: "Nora and Erik's"."""
        ids: frozenset[str] = frozenset()
        joining = self._grammar.conjunction | ({","} if comma else frozenset[str]())
        while True:
            at = place - 1
            while at >= 0 and self._units[at].text in self._grammar.neutral:
                at -= 1
            if at < 1 or self._units[at].text not in joining:
                return ids, place
            if not self._units[at - 1].ids:
                return ids, place
            place = at - 1
            ids |= self._units[place].ids

    def _joined_after(self, place: int, *, comma: bool = True) -> tuple[frozenset[str], int]:
        ids: frozenset[str] = frozenset()
        end = place + 1
        joining = self._grammar.conjunction | ({","} if comma else frozenset[str]())
        while end < len(self._units) and self._units[end].text in joining:
            other = self._skip(end + 1, self._grammar.neutral)
            if other >= len(self._units) or not self._units[other].ids or self._units[other].genitive:
                break
            ids |= self._units[other].ids
            end = other + 1
        return ids, end

    def _nearest_before(self, place: int) -> frozenset[str]:
        for unit in reversed(self._units[:place]):
            if unit.ids:
                return unit.ids
        return frozenset()

    def _unnamed(self, tied: Collection[str], holders: frozenset[str]) -> frozenset[str]:
        """The one entity that the text is about and doesn't name: "Marcus visits his mother"."""
        named = {id_ for unit in self._units for id_ in unit.ids} | holders
        left = frozenset(tied) - named
        return left if len(left) == 1 and sum(unit.phrase >= 0 for unit in self._units) == 1 else frozenset()

    def _unions(self) -> Iterator[Phrase]:
        """Verbs that make a pair: "married to Erik", "Tiago e Duarte namoram"."""
        text = " ".join(unit.text for unit in self._units)
        words = [unit.text for unit in self._units]
        for relation, said in self._grammar.unions:
            if " ".join(said) not in text:
                continue
            for at in range(1, len(words) - len(said) + 1):
                if tuple(words[at : at + len(said)]) != said:
                    continue
                first = self._nearest_before(at)
                other = self._skip(at + len(said), self._grammar.neutral)
                second = self._units[other].ids if other < len(self._units) else frozenset[str]()
                second = second or self._pair_before(at)
                if first and second - first:
                    yield Phrase(" ".join(said), (Role(relation),), first, None, second - first)

    def _pair_before(self, at: int) -> frozenset[str]:
        while at > 0 and not self._units[at - 1].ids:
            at -= 1
        return self._joined_before(at - 1)[0] if at else frozenset()

    def _skip(self, at: int, words: frozenset[str]) -> int:
        while at < len(self._units) and self._units[at].plain and self._units[at].text in words:
            at += 1
        return at


def _words(text: str) -> Iterator[_Unit]:
    for match in _TOKEN.finditer(text):
        word, start, end = match[0].lower(), match.start(), match.end()
        if elided := _ELIDED.fullmatch(word):
            cut = start + len(elided[1]) + 1
            yield _Unit(elided[1], start, cut)
            word, start = elided[2], cut
        genitive = word.endswith(("'s", "'"))
        yield _Unit(word.removesuffix("'").removesuffix("'s"), start, end, genitive)


def _joined(span: list[_Unit], said: str, ids: frozenset[str], *, genitive: bool) -> _Unit:
    return _Unit(said, span[0].start, span[-1].end, genitive, ids)


@cache
def _together(names: frozenset[str]) -> People:
    spoken = [grammar()[name] for name in sorted(names)]

    def every(name: str) -> frozenset[str]:
        return frozenset[str]().union(*(getattr(language, name) for language in spoken))

    return People(
        common=every("common"),
        first=every("first"),
        possessive=every("possessive"),
        third=every("third"),
        of=every("of"),
        copula=every("copula"),
        conjunction=every("conjunction"),
        unions=tuple(union for language in spoken for union in language.unions),
        definite=every("definite"),
        neutral=every("neutral"),
    )
