"""Replacing one exact passage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.broker.tools.files import replace_passage
from nexus.errors import ToolError


def test_the_only_occurrence_is_replaced() -> None:
    assert replace_passage("one\ntwo\nthree\n", "two", "2") == ("one\n2\nthree\n", 2)


def test_a_passage_that_is_there_twice_is_refused_with_its_lines() -> None:
    with pytest.raises(ToolError, match=r"2 times, at lines 1, 3"):
        replace_passage("same\nother\nsame\n", "same", "new")


def test_overlapping_places_count_as_several() -> None:
    with pytest.raises(ToolError, match="2 times"):
        replace_passage("aaa", "aa", "b")


def test_a_near_passage_is_shown_as_it_really_is() -> None:
    text = "def first():\n    return 1\n\n\ndef second(value):\n    return value\n"

    with pytest.raises(ToolError) as caught:
        replace_passage(text, "def second(values):\n  return values", "")

    assert "line 5" in caught.value.hint
    assert "def second(value):\n    return value" in caught.value.hint


def test_line_ends_are_named_when_they_are_all_that_differs() -> None:
    with pytest.raises(ToolError) as caught:
        replace_passage("a\r\nb\r\n", "a\nb", "c")

    assert "CR LF" in caught.value.hint


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a")])
def test_an_edit_that_means_nothing_is_refused(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        replace_passage("a", old, new)


@given(before=st.text(), old=st.text(min_size=1), after=st.text(), new=st.text())
def test_an_edit_is_exact_or_refused(before: str, old: str, after: str, new: str) -> None:
    text = before + old + after
    try:
        edited, line = replace_passage(text, old, new)
    except ToolError:
        assert old == new or text.find(old) != text.rfind(old)
    else:
        assert edited == before + new + after
        assert line == before.count("\n") + 1
