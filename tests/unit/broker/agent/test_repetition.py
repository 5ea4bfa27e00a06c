import pytest

from nexus.broker.agent.answering import Repetition, count_repeated


@pytest.mark.parametrize("span", ["the same again. ", "a", "x" * 90 + "\n", "One line.\nAnother line.\n"])
def test_a_span_that_comes_over_and_over_is_noticed_while_it_comes(span: str) -> None:
    watch, text, found = Repetition(), "At first it makes sense: 1, 2, 3. ", 0
    watch.add(text)
    while not found and len(text) < 10_000:
        text += span
        found = watch.add(span)
    assert found
    kept = text[: len(text) - found]
    assert kept.startswith("At first it makes sense")
    assert kept.count(span) <= 2 or len(span) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "word " * 30,
        "".join(f"{number}. Item number {number} of the list is different.\n" for number in range(200)),
        "| a | b |\n|---|---|\n" + "".join(f"| {number} | {number * 7} |\n" for number in range(150)),
    ],
)
def test_lists_and_tables_are_no_repetition(text: str) -> None:
    assert count_repeated(text) == 0
