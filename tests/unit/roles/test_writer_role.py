"""The examples of the writer's instructions do what they say, and none of them can leak into the memory."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import apsw
import pytest

from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.operations import BATCH, Memory
from nexus.memory.writing import Provenance
from nexus.roles.memory_writer import extraction
from nexus.roles.memory_writer.drafting import Drafting
from nexus.roles.memory_writer.evidence import Evidence, Heard
from nexus.roles.memory_writer.extraction import Extraction, Source
from nexus.roles.memory_writer.gate import Gate
from unit.roles.test_writer_gate import message

WRITER = Provenance(actor="memory-writer", kind="writer")


@dataclass(kw_only=True)
class Example:
    """A message of ROLE.md with what the assistant said before it, and facts that are right or wrong."""

    number: int
    said: str
    answers: str = ""
    good: list[str] = field(default_factory=list[str])
    bad: list[str] = field(default_factory=list[str])


def text_of(name: str) -> str:
    return resources.files("nexus.roles.memory_writer").joinpath(name).read_text(encoding="utf-8")


def examples() -> list[Example]:
    found: list[Example] = []
    answers = ""
    for line in text_of("ROLE.md").partition("## Examples")[2].splitlines():
        if spoken := re.fullmatch(r"\[(\d+)\] owner: (.*)", line):
            found.append(Example(number=int(spoken[1]), said=spoken[2], answers=answers))
            answers = ""
        elif line.startswith("assistant: "):
            answers = line.removeprefix("assistant: ")
        elif match := re.fullmatch(r"(good|bad) +(\{.*\})", line):
            (found[-1].good if match[1] == "good" else found[-1].bad).append(match[2])
    return found


async def written(opened: Ledgers, example: Example, facts: list[str], said: str) -> list[str]:
    """What the memory holds when a model answers with these facts to that message."""
    asked = await message(opened, "@boss", said)
    heard = Heard(text=said, message=asked, answers=example.answers)
    evidence = Evidence(heard=[heard], due=[heard])
    gate = Gate(
        ledgers=opened,
        messages=[asked],
        conversation=[asked],
        evidence=evidence,
        is_owners=True,
    )
    found = extraction.read_answer(json.dumps({"people": [], "facts": [json.loads(fact) for fact in facts]}))
    sources = [Source(number=example.number, heard=heard, text=said)]
    operations = await opened.identity.read(_operations, sources=sources, found=found)
    with suppress(UsageError):
        await Memory(opened).run(BATCH, {"operations": operations}, WRITER, rules=gate)
    query = "SELECT fact FROM facts WHERE source_event_id = ? ORDER BY seq"
    rows = await opened.memory.read(lambda c: c.execute(query, (asked.event.id,)).fetchall())
    return [str(row[0]) for row in rows]


def _operations(
    connection: apsw.Connection, sources: Sequence[Source], found: Extraction
) -> list[dict[str, Any]]:
    return Drafting(connection=connection, sources=sources, meant={}).draft_operations(found)


@pytest.mark.parametrize("example", examples(), ids=lambda example: str(example.number))
async def test_good_examples_are_written_and_bad_ones_refused(opened: Ledgers, example: Example) -> None:
    good = await written(opened, example, example.good, example.said) if example.good else []
    bad = [await written(opened, example, [fact], example.said) for fact in example.bad]

    assert good == [json.loads(fact)["fact"] for fact in example.good]
    assert bad == [[] for _ in example.bad]


@pytest.mark.parametrize("example", examples(), ids=lambda example: str(example.number))
async def test_no_example_leaks_into_another_conversation(opened: Ledgers, example: Example) -> None:
    recited = [*example.good, *example.bad]

    assert await written(opened, example, recited, "My sister moved to Oslo, she quit her job.") == []


def test_there_are_six_to_ten_examples_and_their_words_stand_for_anything() -> None:
    found = examples()

    assert 6 <= len(found) <= 10
    assert sum(bool(example.bad) for example in found) >= 6
    assert not re.findall(r"\b(?:Sarah|Chen|Tyler|Project X)\b", text_of("ROLE.md") + text_of("CODE.md"))


async def test_the_batch_of_code_mode_is_written_when_it_was_said(opened: Ledgers) -> None:
    said = "NAME_A, also called NAME_B, leads PROJECT_A. PROJECT_A is due on DAY_A, her birthday is DAY_B."
    asked = await message(opened, "@boss", said)
    heard = Heard(text=said, message=asked)
    gate = Gate(
        ledgers=opened,
        messages=[asked],
        conversation=[asked],
        evidence=Evidence(heard=[heard], due=[heard]),
        is_owners=True,
    )
    lines = re.findall(r"^\{.*\}$", text_of("CODE.md"), re.MULTILINE)
    operations = [json.loads(line.replace("EVENT_ID", asked.event.id)) for line in lines]

    answer = await Memory(opened).run(BATCH, {"operations": operations}, WRITER, rules=gate)

    assert (answer["ok"], answer.get("refused")) == (True, None), answer
    names = await opened.identity.read(
        lambda c: [row[0] for row in c.execute("SELECT canonical_name FROM entities WHERE type <> 'Person'")]
    )
    assert names == ["PROJECT_A"]
