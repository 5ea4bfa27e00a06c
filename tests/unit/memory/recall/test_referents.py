"""A question means people whom it doesn't name: its asker, and those who are something to somebody."""

import pytest

from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Named, Query
from nexus.memory.recall.question import find_referents
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.roles import is_role
from nexus.request import Visibility
from unit.memory.recall.homes import LONG_MS, NOW, own

_FAMILY = {
    "Jens Falk": "Jens Falk is Mira's husband; they married in 2011.",
    "Ida": "Ida is Mira and Jens's daughter, born in 2015.",
    "Nils": "Nils is Mira and Jens's son.",
    "Gunnel Ekberg": "Gunnel Ekberg is Mira's mother and lives in Luleå.",
    "Bertil Ekberg": "Bertil Ekberg, Mira's father, died in 2018.",
    "Cemal Kaya": "Cemal Kaya is Mira's boss at Havnwerk.",
    "Petra Holm": "Ida's teacher is Petra Holm.",
    "Mops": "Mops is the family's cat.",
}


async def _family(opened: Ledgers) -> None:
    await own(opened, "Mira Ekberg", "Mira")
    memory = Memory(opened)
    for name, fact in _FAMILY.items():
        await memory.run("entity", {"name": name, "type": "Person", "alias": [name.split()[0]]})
        await memory.run("fact", {"about": name, "fact": fact})


async def _named(
    opened: Ledgers, text: str, *, entity: str | None = None, visible: Visibility | None = None
) -> list[Named]:
    recall = Recall(opened, None, now=lambda: NOW, visible=visible or Visibility())
    answer = await recall.find(Query(text=text, budget="low", deadline_ms=LONG_MS, entity_id=entity))
    return list(answer.named.values())


async def _meant(opened: Ledgers, text: str) -> set[str]:
    return {named.name for named in await _named(opened, text) if named.by_role}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What can't my husband drink?", {"Jens Falk"}),
        ("How did my dad die?", {"Bertil Ekberg"}),
        ("Who fetches the kids on Monday?", {"Ida", "Nils"}),
        ("Is my son protected against ticks?", {"Nils"}),
        ("When is grandma's big birthday?", {"Gunnel Ekberg"}),
        ("What is the name of my daughter's teacher?", {"Ida", "Petra Holm"}),
        ("What drug does the cat get?", {"Mops"}),
        ("Wann hat mein Chef Urlaub?", {"Cemal Kaya"}),
        ("¿Dónde vive mi madre?", {"Gunnel Ekberg"}),
        ("Quelle est la profession de mon mari ?", {"Jens Falk"}),
        ("Quando é que a minha filha faz anos?", {"Ida"}),
    ],
)
async def test_a_role_means_whoever_has_it(opened: Ledgers, question: str, names: set[str]) -> None:
    await _family(opened)
    assert await _meant(opened, question) == names


@pytest.mark.parametrize(
    "question",
    [
        "What is Cemal's wife called?",  # nobody said
        "How much child support is normal?",  # no child in particular
        "How does one become a boss?",
        "What kind of bread do I bake?",  # a German child, but English
    ],
)
async def test_nobody_is_meant_where_no_fact_says_so(opened: Ledgers, question: str) -> None:
    await _family(opened)
    assert await _meant(opened, question) == set()


@pytest.mark.parametrize(
    ("fact", "question", "name"),
    [
        ("Tobias ist Johannas Bruder.", "Wie heißt mein Bruder?", "Tobias"),
        ("Tobias ist seit 2015 der Lebensgefährte von Johanna.", "Was mag mein Freund?", "Tobias"),
        ("El casero de Johanna es Tobias.", "¿Cuánto cobra mi casero?", "Tobias"),
        ("Tobias, le frère de Johanna, paie un tiers.", "Que paie mon frère ?", "Tobias"),
        ("O senhorio da Johanna é o Tobias, que mora no prédio.", "Onde mora o senhorio?", "Tobias"),
        ("Johanna is Tobias's daughter.", "Where does my father live?", "Tobias"),
        ("Johanna is married to Tobias.", "What does my husband eat?", "Tobias"),
        ("Johanna sees the physiotherapist Tobias on Tuesdays.", "When is my physio?", "Tobias"),
    ],
)
async def test_facts_say_it_in_the_languages_of_people(
    opened: Ledgers, fact: str, question: str, name: str
) -> None:
    await own(opened, "Johanna")
    memory = Memory(opened)
    await memory.run("entity", {"name": "Tobias", "type": "Person"})
    await memory.run("fact", {"about": "Tobias", "fact": fact})
    assert await _meant(opened, question) == {name}


async def test_an_unnamed_person_is_the_one_whom_the_fact_is_about(opened: Ledgers) -> None:
    await own(opened, "Marcus")
    memory = Memory(opened)
    await memory.run("entity", {"name": "Colleen", "type": "Person"})
    await memory.run(
        "fact", {"about": "Marcus", "target": "Colleen", "fact": "Marcus calls his mother on Sundays."}
    )
    assert await _meant(opened, "When do I call my mother?") == {"Colleen"}


async def test_an_alias_is_a_role_in_every_language(opened: Ledgers) -> None:
    await own(opened, "Ruth")
    await Memory(opened).run("entity", {"name": "Derek", "type": "Person", "alias": ["my husband"]})
    assert await _meant(opened, "Was mochte mein Mann?") == {"Derek"}


async def test_the_first_person_is_the_owner(opened: Ledgers) -> None:
    await _family(opened)
    for question in ("Which antibiotics must I not be given?", "Wo wohne ich?", "¿Qué no puedo comer?"):
        (named,) = await _named(opened, question)
        assert (named.name, named.via) == ("Mira Ekberg", "owner")


async def test_how_somebody_was_resolved_is_told(opened: Ledgers) -> None:
    await _family(opened)
    found = {named.name: named for named in await _named(opened, "Does my husband know Cemal?")}
    assert (found["Jens Falk"].via, found["Jens Falk"].said) == ("role: husband", "my husband")
    assert found["Cemal Kaya"].via == "name"


async def test_the_words_of_a_guest_do_not_mean_the_owner(opened: Ledgers) -> None:
    await _family(opened)
    seen = Visibility(thread_ids=frozenset({"thr_guest"}))
    assert await _named(opened, "What can't my husband drink?", visible=seen) == []


@pytest.mark.parametrize(("entity", "name"), [("me", "Mira Ekberg"), ("my husband", "Jens Falk")])
async def test_a_query_can_be_narrowed_to_a_role(opened: Ledgers, entity: str, name: str) -> None:
    await _family(opened)
    found = await _named(opened, "birthday", entity=entity)
    assert {(named.name, named.via) for named in found} == {(name, "filter")}


@pytest.mark.parametrize(
    "text", ["my son's husband's boss", "my " + "son's " * 5_000, "the " + "son of " * 5_000]
)
async def test_relatives_of_relatives_are_looked_for_as_far_as_anybody_says(
    opened: Ledgers, text: str
) -> None:
    await _family(opened)

    found = await opened.read(find_referents, text, Deadline(LONG_MS))

    assert {each.name for each in found.values() if each.by_role} <= {"Nils"}


@pytest.mark.parametrize("word", ["großvater", "grossvater", "großeltern", "grosseltern"])
def test_a_role_is_one_with_and_without_sharp_s(word: str) -> None:
    assert is_role(word)
