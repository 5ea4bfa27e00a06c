"""What was only remembered is told from what was said."""

import pytest

from nexus.roles.memory_writer.evidence import Evidence

MEMORIES = """<memory_context>
Tyler's birthday is March 12 (2025-06-01)
Tyler likes Italian food (2025-08-15)
Sarah Chen leads the engineering team on Project X (2026-02-10)
</memory_context>"""


def evidence(*said: str) -> Evidence:
    made = Evidence()
    made.hear(said)
    made.remember([MEMORIES])
    return made


@pytest.mark.parametrize(
    "statement",
    [
        "Tyler likes Italian food",
        "Tyler is fond of Italian food",
        "Tyler was born on March 12; his birthday is in March",
        "Tyler, whose birthday is March 12, likes Italian food",
        "Sarah Chen leads engineering on Project X",
        "The engineering team on Project X is led by Sarah Chen",
    ],
)
def test_a_memory_that_nobody_said_is_recognised_in_other_words_too(statement: str) -> None:
    found = evidence("Plan Tyler's birthday dinner with Sarah").memory_behind(
        statement, ["Tyler", "Sarah Chen"]
    )

    assert found is not None


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("Tyler likes Italian food, as you know", "Tyler likes Italian food"),
        ("Tyler has gone vegan", "Tyler eats a vegan diet"),
        ("Sarah left Project X for the Atlas team", "Sarah Chen moved to the Atlas team"),
        ("We booked Osteria Mozza for the 12th", "Tyler's dinner is at Osteria Mozza"),
    ],
)
def test_what_was_said_is_news_also_where_a_memory_is_near(said: str, statement: str) -> None:
    assert evidence(said).memory_behind(statement, ["Tyler", "Sarah Chen"]) is None


def test_nothing_is_refused_where_nothing_was_remembered() -> None:
    made = Evidence()
    made.hear(["Hello"])

    assert made.memory_behind("Tyler likes Italian food") is None


def test_what_a_tool_found_out_counts_as_said() -> None:
    made = evidence("What does Tyler eat?", "menu.txt: Tyler likes Italian food")

    assert made.memory_behind("Tyler likes Italian food", ["Tyler"]) is None
