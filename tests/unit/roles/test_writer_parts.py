"""Small parts of the memory writer: names, secrets, how often it works."""

import time

import pytest

from nexus.errors import AutomationError
from nexus.memory.gate import is_confidential
from nexus.roles.memory_writer import names
from nexus.roles.memory_writer.turns import Frequency


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("My colleague Sarah Chen leads Project X now.", ["Sarah Chen", "Project X"]),
        ("The weather is nice. It rained on Monday.", []),
        ("Sarah Chen called. Write to bob@example.com!", ["bob@example.com", "Sarah Chen"]),
        ("what about tyler's dinner", []),
        ("I'd ask Élodie, or Tyler's sister", ["Élodie", "Tyler"]),
        ("we read The Guardian", ["Guardian"]),
        ("see here:\n - Write it down\n  ask Bob", ["Bob"]),
    ],
)
def test_names_are_told_from_sentence_starts(text: str, found: list[str]) -> None:
    assert names.find_names(text) == found


@pytest.mark.parametrize("word", ["Sarah Chen and ", "x", "a.", "A", " \n"])
def test_names_in_a_very_long_text_are_found_soon(word: str) -> None:
    begun = time.process_time()
    names.find_names(word * 100_000)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "text",
    [
        "The API key is sk-ant-REDACTED",
        "Sarah's password is hunter22",
        "The wifi password at Bob's house is hunter22",
        "The PIN for the alarm is 4711",
        "The password is swordfish",
        "AWS: AKIAIOSFODNN7EXAMPLE",
        "Card 4111 1111 1111 1111",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_secrets_are_recognised(text: str) -> None:
    assert is_confidential(text)


@pytest.mark.parametrize(
    "text",
    [
        "Sarah forgot her password",
        "Call +41 44 668 18 00",
        "Due on 2026-03-15",
        "Bob's secret is chocolate cake",
        "The password is required for every login",
    ],
)
def test_plain_facts_are_no_secrets(text: str) -> None:
    assert not is_confidential(text)


def test_every_turn_is_the_default_and_waits_for_nothing() -> None:
    assert Frequency.of({}).explain_wait(1, used_tokens=0, budget_tokens=1_000) is None


def test_every_n_turns_waits_for_the_nth() -> None:
    frequency = Frequency.of({"frequency": "every_n_turns", "n": 3})

    assert frequency.explain_wait(2, used_tokens=0, budget_tokens=1_000) == "2 of 3 turns"
    assert frequency.explain_wait(3, used_tokens=0, budget_tokens=1_000) is None


def test_before_compaction_waits_until_the_conversation_is_nearly_too_long() -> None:
    frequency = Frequency.of({"frequency": "before_compaction"})

    assert frequency.explain_wait(9, used_tokens=700, budget_tokens=1_000) is not None
    assert frequency.explain_wait(9, used_tokens=760, budget_tokens=1_000) is None


@pytest.mark.parametrize("config", [{"frequency": "hourly"}, {"n": 0}, {"roles": "manager"}])
def test_a_setting_that_cannot_be_meant_is_told(config: dict[str, object]) -> None:
    with pytest.raises(AutomationError):
        Frequency.of(config)
