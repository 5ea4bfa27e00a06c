"""The language that a home's texts are mostly in."""

from nexus.ledgers import Ledgers, memory
from nexus.memory.recall.item import Query
from nexus.memory.recall.question import find_home_language
from nexus.memory.recall.recall import Recall
from unit.memory.recall.homes import LONG_MS, NOW, learn, say

GERMAN = ("Johanna hält fünf Bienenvölker.", "Die Werkstatt ist in Haslach.", "Levin mag keinen Fisch.")


async def test_an_empty_home_is_english(opened: Ledgers) -> None:
    assert await opened.read(find_home_language, opened) == "en"


async def test_the_newest_facts_and_messages_decide(opened: Ledgers) -> None:
    await say(opened, "one", ("Ann", "Is the table ready for the customer?"))
    await learn(opened, *(memory.NewFact(fact=fact) for fact in GERMAN))
    assert await opened.read(find_home_language, opened) == "de"


async def test_a_settled_home_is_not_read_again_for_each_question(opened: Ledgers) -> None:
    await learn(opened, *(memory.NewFact(fact=fact) for fact in GERMAN * 10))
    assert await opened.read(find_home_language, opened) == "de"
    await say(opened, "two", *[("Ann", "This is what I have said to you before")] * 90)
    assert await opened.read(find_home_language, opened) == "de"


async def test_a_word_alone_is_read_in_the_homes_language(opened: Ledgers) -> None:
    await learn(opened, *(memory.NewFact(fact=fact) for fact in GERMAN))
    found = await Recall(opened, None, now=lambda: NOW).gather(Query(text="Bienenvolk?", deadline_ms=LONG_MS))
    assert found.question.language == "de"
