"""Every example of ROLE.md does what it says, and none of its placeholders can leak into the memory."""

import json
import re

import pytest

from nexus.errors import UnusableAnswerError
from nexus.memory.conclusions.batches import Batch
from nexus.roles import consolidation
from nexus.roles.consolidation import Shown
from nexus.roles.services import role_text

_EXAMPLE = re.compile(r"^(Good|Bad): (.*?)\n\n((?:    .*\n?)+)", re.MULTILINE)
_NAMES = {"<PERSON_A>": "Quillon", "<PERSON_B>": "Tamsin", "<CITY_A>": "Ostrava", "<CITY_B>": "Leuven"}


def _examples() -> list[tuple[str, str, str]]:
    return _EXAMPLE.findall(role_text("nexus.roles.consolidation"))


def _read(lines: str) -> consolidation.Reading:
    facts = dict(re.findall(r"^    (F\w+)\. (.*)$", lines, re.MULTILINE))
    (said,) = re.findall(r"^    (\{.*\})$", lines, re.MULTILINE)
    json.loads(said)
    batch = Batch(root_request_id=None, fact_ids=tuple(f"fact_{label[1:]}" for label in facts))
    shown = Shown({f"fact_{label[1:]}": text for label, text in facts.items()}, {})
    return consolidation.read_answer(said, batch, shown)


def test_there_are_enough_examples_of_both_kinds() -> None:
    kinds = [kind for kind, _, _ in _examples()]
    assert 6 <= len(kinds) <= 10
    assert {"Good", "Bad"} == set(kinds)


@pytest.mark.parametrize(("kind", "title", "lines"), _examples())
def test_an_example_is_accepted_or_refused_as_it_says(kind: str, title: str, lines: str) -> None:
    for placeholder, name in _NAMES.items():
        lines = lines.replace(placeholder, name)
    if kind == "Good":
        reading = _read(lines)
        assert not reading.refused, title
        assert not reading.repaired
        return
    try:
        reading = _read(lines)
    except UnusableAnswerError:
        return
    assert reading.refused, title
    assert not reading.conclusions.drafts


@pytest.mark.parametrize(("kind", "title", "lines"), [each for each in _examples() if "<PERSON" in each[2]])
def test_an_example_that_is_recited_stores_nothing(kind: str, title: str, lines: str) -> None:
    try:
        reading = _read(lines)
    except UnusableAnswerError:
        return
    assert not reading.conclusions.drafts
