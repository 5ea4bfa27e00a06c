"""Batches of a run with rules of its own: written in part, with labels of their own."""

from collections.abc import Mapping
from typing import Any

import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.operations import BATCH, Memory
from nexus.memory.writing import Provenance

WRITER = Provenance(actor="memory-writer", kind="writer")


class Rules:
    """Lets everything pass but what speaks of a forbidden word."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.writes: list[str] = []

    async def admit(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if "forbidden" in str(arguments):
            raise UsageError("This is forbidden")
        return dict(arguments)

    def note_refusal(self, operation: str, reason: str) -> None:
        self.refusals.append(f"{operation}: {reason}")

    def note_write(self, operation: str, arguments: Mapping[str, Any]) -> None:
        self.writes.append(operation)

    def note_recall(self, answer: Mapping[str, Any]) -> None:
        pass


async def run(opened: Ledgers, *operations: Mapping[str, Any]) -> tuple[dict[str, Any], Rules]:
    rules = Rules()
    answer = await Memory(opened).run(BATCH, {"operations": list(operations)}, WRITER, rules=rules)
    return answer, rules


def entity(label: str, name: str) -> dict[str, Any]:
    return {"operation": "entity", "id": label, "name": name, "type": "Person"}


async def names(opened: Ledgers) -> list[str]:
    query = "SELECT canonical_name FROM entities ORDER BY canonical_name"
    return await opened.identity.read(lambda c: [str(row[0]) for row in c.execute(query)])


async def facts(opened: Ledgers) -> list[str]:
    return await opened.memory.read(lambda c: [str(row[0]) for row in c.execute("SELECT fact FROM facts")])


async def test_one_bad_line_does_not_undo_the_rest(opened: Ledgers) -> None:
    answer, rules = await run(
        opened,
        {"operation": "fact", "fact": "Green tea is fine"},
        {"operation": "fact", "fact": "A forbidden word"},
        {"operation": "fact", "fcat": "A wrong argument"},
        {"operation": "person-fact", "entity": "Project X", "category": "a", "type": "b", "value": "c"},
    )

    assert await facts(opened) == ["Green tea is fine"]
    assert (answer["count"], answer["refused"]) == (2, 3)
    assert ["error" in each for each in answer["results"]] == [False, True, True, True]
    assert len(rules.refusals) == 3
    assert rules.writes == ["entity", "fact"]


async def test_a_batch_of_which_nothing_may_be_written_is_refused(opened: Ledgers) -> None:
    with pytest.raises(UsageError, match="This is forbidden"):
        await run(opened, {"operation": "fact", "fact": "A forbidden word"})


async def test_a_label_stands_for_its_entity_in_its_batch_alone(opened: Ledgers) -> None:
    await run(opened, entity("a", "Anna Berg"), {"operation": "fact", "about": "a", "fact": "Anna runs"})
    await run(opened, {"operation": "fact", "about": "a", "fact": "Bo swims"}, entity("a", "Bo Dahl"))

    about = await opened.memory.read(
        lambda c: [str(row[0]) for row in c.execute("SELECT source_entity_id FROM facts ORDER BY seq")]
    )
    assert await names(opened) == ["Anna Berg", "Bo Dahl"]
    assert len(set(about)) == 2


async def test_who_is_known_by_a_name_is_not_made_again(opened: Ledgers) -> None:
    await run(opened, entity("a", "Anna Berg"))
    answer, _ = await run(
        opened,
        entity("x", "Anna Berg") | {"alias": ["Annie:name"]},
        {"operation": "fact", "about": "x", "fact": "Anna runs"},
    )

    known = await opened.identity.read(
        lambda c: [str(row[0]) for row in c.execute("SELECT alias FROM entity_aliases ORDER BY alias")]
    )
    assert await names(opened) == ["Anna Berg"]
    assert known == ["Anna Berg", "Annie"]
    assert "refused" not in answer


async def test_named_targets_are_made(opened: Ledgers) -> None:
    leads = {"source": "a", "target": "Project X", "type": "LEADS", "fact": "Anna Berg leads Project X"}
    await run(opened, entity("a", "Anna Berg"), {"operation": "relationship", **leads})

    assert await names(opened) == ["Anna Berg", "Project X"]


async def test_the_batch_of_a_person_is_still_written_in_whole_or_not_at_all(opened: Ledgers) -> None:
    batch = [{"operation": "fact", "fact": "Green tea"}, {"operation": "fact", "fcat": "wrong"}]

    with pytest.raises(UsageError):
        await Memory(opened).run(BATCH, {"operations": batch})
    assert await facts(opened) == []


async def test_an_entity_is_renamed_and_keeps_its_former_name(opened: Ledgers) -> None:
    memory = Memory(opened)
    made = await memory.run("entity", {"name": "Owner", "type": "Person"})
    await memory.run("describe", {"entity": "Owner", "name": "Mara Lindqvist"})

    again = await memory.run("fact", {"about": "Owner", "fact": "Mara likes tea"})
    assert await names(opened) == ["Mara Lindqvist"]
    assert again["source_entity_id"] == made["id"]


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("The door code of the office is 4711", True),
        ("Der Türcode ist 4711", True),
        ("Hana's account is DE89 3704 0044 0532 0130 00", True),
        ("The office is on floor 4711", False),
    ],
)
async def test_codes_and_account_numbers_are_kept_by_setting(
    opened: Ledgers, text: str, is_refused: bool
) -> None:
    await Memory(opened).run("fact", {"fact": text})
    if is_refused:
        with pytest.raises(UsageError, match="not to be kept"):
            await Memory(opened, keeps_codes=False).run("fact", {"fact": text})
    else:
        await Memory(opened, keeps_codes=False).run("fact", {"fact": text})
