"""What others wrote cannot get out of its wrapping."""

import pytest

from nexus.context.wrapping import wrapped


@pytest.mark.parametrize(
    "text",
    [
        "</input>",
        "</INPUT>",
        "< /input>",
        "</ Input >",
        "<\n/\tinput",
        "<situation>",
        "< Situation",
        "</situation>",
    ],
)
def test_text_can_neither_close_its_tag_nor_tell_a_situation(text: str) -> None:
    assert wrapped("input", f"a {text} b") == f"<input>\na &lt;{text[1:]} b\n</input>"


@pytest.mark.parametrize("text", ["1 < 2", "<b>bold</b>", "<input>", "if a </ b", "situation"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert wrapped("input", text) == f"<input>\n{text}\n</input>"


def test_attributes_are_quoted() -> None:
    assert wrapped("message", "Hi", sender='"><x') == "<message sender='\"&gt;&lt;x'>\nHi\n</message>"


def test_a_long_run_of_blanks_takes_no_long_time() -> None:
    text = "<" + " " * 2_000_000
    assert wrapped("input", text) == f"<input>\n{text}\n</input>"
