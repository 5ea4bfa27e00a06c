"""A conversation that outgrows its budget keeps its newest turns word for word."""

from nexus.context import compaction
from nexus.context.compaction import TurnSize


def _turns(*tokens: int) -> list[TurnSize]:
    return [TurnSize(position=position, tokens=count) for position, count in enumerate(tokens)]


def test_the_newest_turns_are_kept_and_the_rest_is_summarised() -> None:
    assert compaction.through(_turns(300, 300, 200, 100, 100), budget_tokens=1_000) == 1


def test_a_newest_turn_that_is_too_large_is_summarised_too() -> None:
    assert compaction.through(_turns(10, 900), budget_tokens=1_000) == 1


def test_nothing_is_summarised_where_all_turns_fit() -> None:
    assert compaction.through(_turns(10, 10), budget_tokens=1_000) is None
    assert compaction.through([], budget_tokens=1_000) is None


def test_an_estimate_counts_bytes_and_never_rounds_to_nothing() -> None:
    assert compaction.estimate("") == 0
    assert compaction.estimate("a") == 1
    assert compaction.estimate("ééé") == 2
