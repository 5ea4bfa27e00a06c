"""Words for what one person is to another, in five languages: "husband", "Chefin", "mi hermana".

`roles.json` lists the words by relation, gender and language; `grammar.json` the small words around them.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

LONGEST_ROLE_WORDS: Final = 3

# Words that mean something else as well: only "my", "Nora's" or "of Nora" makes them a role.
_NEED_HOLDER = """
mann frau freund freundin mädchen jungs boy boys girl girls mujer mulher femme fille filles chico chica
compañero compañera segundo segunda mate pop pal partner partnerin patient patients patientin patiente
student students studentin étudiant étudiante animal animaux liebste liebster schatz pate meister
meisterin ama twin eldest youngest älteste ältester jüngste jüngster aîné aînée cadet cadette asesor
responsable maître maîtresse propriétaire gestor gestora monitor specialist ex vet miúdo miúda
"""
# Words that are ordinary words or names in another of the languages.
_NEED_LANGUAGE = """
son kind chat prima primo primas primos neto neta nora ama mate pop pal gran mari pais pai chef mama tia
tias bru hase pote patron pate segundo base nan mam ami amis papi tata nana patient patients animal
client clients monitor boy boys girl girls tutor coach parents cousin cousins kids baby partner trainer
student builder responsable mayor contador matrona frau mann
"""
# What children call their own, which needs no article: "Ask Grandma."
_CALLED = """
mum mom mummy mommy mam mama dad daddy papa grandma grandpa granny gran nan nana granddad grandad auntie
mami papi mutti paps oma opa omi opi mamá papá yaya yayo maman papy mamie mémé pépé tata tatie tonton
mamã papai mamãe vovó vovô
"""
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
        relation = _data()[self.relation]["inverse"]
        return Role(relation) if relation else None

    @property
    def wider(self) -> "list[Role]":
        """What else people call it."""
        return [Role(relation, self.gender) for relation in _data()[self.relation]["wider"]]


@dataclass(frozen=True, slots=True)
class Language:
    """The small words of a language that say who belongs to whom."""

    common: frozenset[str]
    first: frozenset[str]  # I, me, my, we
    possessive: frozenset[str]  # my, our
    third: frozenset[str]  # his, her
    of: frozenset[str]
    copula: frozenset[str]  # is, was, called, as
    conjunction: frozenset[str]
    unions: tuple[tuple[str, tuple[str, ...]], ...]  # relations with the verbs that make them: married to
    definite: frozenset[str]  # the
    neutral: frozenset[str]  # articles and titles


@cache
def grammar() -> dict[str, Language]:
    """Each language's small words."""
    return {
        name: Language(
            common=frozenset(words["common"].split()),
            first=frozenset(words["first"].split()),
            possessive=frozenset(words["possessive"].split()),
            third=frozenset(words["third"].split()),
            of=frozenset(words["of"].split()),
            copula=frozenset(words["is"].split()),
            conjunction=frozenset(words["and"].split()),
            unions=tuple(
                (relation, tuple(phrase.split()))
                for relation, phrases in words["unions"].items()
                for phrase in phrases.split("|")
            ),
            definite=frozenset(words["definite"].split()),
            neutral=frozenset(words["neutral"].split()),
        )
        for name, words in _read("grammar.json").items()
    }


def languages(words: Iterable[str]) -> frozenset[str]:
    """The languages that a text may be in, by its small words; all of them if it has none."""
    said = list(words)
    counts = {name: sum(map(language.common.__contains__, said)) for name, language in grammar().items()}
    most = max(counts.values())
    return frozenset(name for name, count in counts.items() if count == most)


def roles_called(phrase: str, spoken: Collection[str]) -> tuple[Role, ...]:
    """The roles that a word or phrase stands for in a text of these languages."""
    found = _lexicon().get(phrase, {})
    if phrase in _set(_NEED_LANGUAGE) and found.keys().isdisjoint(spoken):
        return ()
    said = [role for language, roles in found.items() if language in spoken for role in roles]
    return tuple(dict.fromkeys(said or [role for roles in found.values() for role in roles]))


def needs_holder(phrase: str) -> bool:
    """Whether the word is a role only next to whose it is."""
    return phrase in _set(_NEED_HOLDER)


def is_name(phrase: str) -> bool:
    """Whether people use the word like a name: Mum, Oma."""
    return phrase in _set(_CALLED)


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
    lexicon: dict[str, dict[str, tuple[Role, ...]]] = {}
    for relation, entry in _data().items():
        for key, gender in (("m", "m"), ("f", "f"), ("any", None)):
            for language, phrases in entry[key].items():
                for phrase in phrases.split("|"):
                    called = lexicon.setdefault(phrase, {})
                    called[language] = (*called.get(language, ()), Role(relation, gender))
    return lexicon


@cache
def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


@cache
def _data() -> dict[str, dict[str, Any]]:
    return _read("roles.json")


def _read(name: str) -> dict[str, Any]:
    return json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
