"""From sentences to operations: whom they are about, when it was, and what kind of fact it is."""

from dataclasses import replace
from typing import Any

import apsw
import pytest

from nexus.ledgers import Ledgers
from nexus.roles.memory_writer.drafting import Drafting
from nexus.roles.memory_writer.extraction import Draft, Extraction, Person, Source
from unit.roles.test_evidence import Case


async def drafted(
    opened: Ledgers, said: str, *facts: tuple[str, str], people: str = ""
) -> list[dict[str, Any]]:
    heard = replace(Case(said=said, statement="").heard(), name="Owner")
    found = Extraction(
        facts=tuple(Draft(fact=fact, about=about, message=1) for about, fact in facts),
        people=tuple(Person(name=name) for name in people.split()),
    )
    sources = [Source(number=1, heard=heard, text=said)]
    return await opened.identity.read(_operations, sources=sources, found=found)


def _operations(
    connection: apsw.Connection, sources: list[Source], found: Extraction
) -> list[dict[str, Any]]:
    return Drafting(connection=connection, sources=sources, meant={}).draft_operations(found)


def of(operations: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in operations if each["operation"] == kind]


async def test_an_owner_who_says_their_name_gets_it(opened: Ledgers) -> None:
    fact = ("owner", "The owner is Mara Lindqvist and she lives in Gothenburg.")
    made = await drafted(opened, "I'm Mara Lindqvist and I live in Gothenburg.", fact)

    assert [each["name"] for each in of(made, "describe")] == ["Mara Lindqvist"]
    (lives,) = of(made, "relationship")
    assert (lives["fact"], lives["type"]) == ("Mara Lindqvist lives in Gothenburg.", "LIVES_IN")


@pytest.mark.parametrize(
    ("said", "fact", "kind", "value"),
    [
        (
            "My sister Elin's birthday is 14 March.",
            "The owner's sister Elin's birthday is 14 March",
            "birthday",
            "--03-14",
        ),
        ("Elin is vegetarian.", "Elin is vegetarian", "diet", "Elin is vegetarian"),
    ],
)
async def test_what_is_somebody_elses_is_not_laid_to_the_owner(
    opened: Ledgers, said: str, fact: str, kind: str, value: str
) -> None:
    made = await drafted(opened, said, ("owner", fact), people="Elin")

    (hard,) = of(made, "person-fact")
    assert (hard["entity"], hard["type"], hard["value"]) == ("Elin", kind, value)


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("I live by the sea", "The owner lives by the sea"),
        ("I'm a nurse", "The owner is a nurse"),
        ("My bike is red", "The owner's bike is red"),
        ("likes green tea", "The owner likes green tea"),
        ("The user wants short answers", "The owner wants short answers"),
        ("I have my exam tomorrow", "The owner has their exam tomorrow (2026-11-16)"),
    ],
)
async def test_a_fact_is_a_sentence_that_is_whole_by_itself(
    opened: Ledgers, fact: str, expected: str
) -> None:
    (made,) = of(await drafted(opened, fact, ("owner", fact)), "fact")

    assert made["fact"] == expected


async def test_a_relative_in_the_middle_of_a_sentence_does_not_make_it_theirs(opened: Ledgers) -> None:
    fact = ("owner", "The owner lives in Graz with his wife Petra")
    made = await drafted(opened, "I live in Graz with my wife Petra.", fact, people="Petra")

    assert [each.get("source") or each.get("about") for each in made if "fact" in each] == ["ent_owner"]


async def test_a_claim_about_the_owner_is_laid_to_whom_the_message_makes_it_of(opened: Ledgers) -> None:
    facts = [("owner", "The owner works as a nurse"), ("owner", "The owner can't stand coriander")]
    made = await drafted(opened, "Petra works as a nurse, and she can't stand coriander.", *facts)

    assert [(each["about"], each["fact"]) for each in of(made, "fact")] == [
        ("Petra", "Petra works as a nurse"),
        ("Petra", "Petra can't stand coriander"),
    ]


async def test_a_common_noun_makes_no_entity(opened: Ledgers) -> None:
    made = await drafted(opened, "My flight is on 17 December.", ("flight", "The flight is on 17 December"))

    assert of(made, "entity") == []
    assert of(made, "fact")[0]["about"] == "ent_owner"


@pytest.mark.parametrize(
    ("said", "fact", "expected"),
    [
        ("My boss is called Ingrid.", "The boss is called Ingrid", "The owner's boss is called Ingrid"),
        ("My new car is red.", "The new car is red", "The owner's new car is red"),
        ("The boss is called Ingrid.", "The boss is called Ingrid", "The boss is called Ingrid"),
    ],
)
async def test_what_is_the_speakers_is_said_to_be(
    opened: Ledgers, said: str, fact: str, expected: str
) -> None:
    made = await drafted(opened, said, ("owner", fact))

    assert [each["fact"] for each in made if "fact" in each] == [expected]


async def test_a_title_is_no_part_of_a_name(opened: Ledgers) -> None:
    made = await drafted(
        opened,
        "My daughter Lena plays the cello. Her teacher is Mr. Novak.",
        ("owner", "Mr. Novak is Lena's teacher"),
        people="Lena",
    )

    assert {each["name"] for each in of(made, "entity")} == {"Novak", "Lena"}
    (taught,) = [each for each in made if "fact" in each]
    assert taught.get("about", taught.get("source")) == "Novak"
