"""Birthdays, addresses and numbers are found with the person that they belong to, by the owner alone."""

from nexus.ledgers import Ledgers
from nexus.memory.embedding.vectors import KINDS, sources
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from nexus.memory.views import entities as entity_views
from nexus.request import Visibility
from unit.memory.recall.homes import LONG_MS, NOW


async def _hana(opened: Ledgers) -> None:
    memory = Memory(opened)
    await memory.run("entity", {"name": "Hana", "type": "Person", "alias": ["hana@port.example:email"]})
    await memory.run(
        "person-fact", {"entity": "Hana", "category": "personal", "type": "birthday", "value": "1986-04-02"}
    )


async def _texts(opened: Ledgers, text: str, visible: Visibility | None = None) -> list[str]:
    recall = Recall(opened, None, now=lambda: NOW, visible=visible or Visibility())
    answer = await recall.find(Query(text=text, deadline_ms=LONG_MS))
    return [result.item.text for result in answer.results]


async def test_a_birthday_and_an_address_are_found_with_their_person(opened: Ledgers) -> None:
    await _hana(opened)
    for question in ("When is Hana's birthday?", "What is Hana's email?"):
        (text,) = await _texts(opened, question)
        assert "birthday 1986-04-02" in text
        assert "email hana@port.example" in text


async def test_a_guest_finds_neither(opened: Ledgers) -> None:
    await _hana(opened)
    seen = Visibility(channels=frozenset({"chat"}))
    assert await _texts(opened, "When is Hana's birthday?", seen) == []


async def test_a_vector_holds_what_is_known_and_not_its_value(opened: Ledgers) -> None:
    await _hana(opened)
    (kind,) = [kind for kind in KINDS if kind.name == "entity"]
    given = {"after": "", "since": "", "limit": 10}
    rows = await opened.identity.read(lambda c: c.execute(kind.sql("sources"), given).fetchall())
    (source,) = await sources(opened, kind, rows)
    assert source.text == "Hana. birthday, email"


async def test_what_was_said_last_comes_first_in_whatever_order_it_was_read(opened: Ledgers) -> None:
    memory = Memory(opened)
    await memory.run("entity", {"name": "Hana", "type": "Person"})
    moved = {"entity": "Hana", "category": "personal", "type": "address"}
    for value, year in (("Third Street", 2024), ("First Street", 2020), ("Second Street", 2022)):
        await memory.run("person-fact", {**moved, "value": value, "as_of": f"{year}-01-01T00:00:00Z"})
    (text,) = await _texts(opened, "What is Hana's address?")
    assert "address Third Street; address Second Street; address First Street" in text
    shown = await entity_views.get(opened, "Hana")
    assert [(fact.value, (fact.as_of or "")[:4]) for fact in shown.person_facts] == [
        ("First Street", "2020"), ("Second Street", "2022"), ("Third Street", "2024"),
    ]  # fmt: skip
