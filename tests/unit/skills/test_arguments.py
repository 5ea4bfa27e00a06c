"""Arguments come as a shell hands them over, and any text is one argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.errors import UsageError
from nexus.skills.commands import parse_arguments, parse_flags

_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(_TEXTS, min_size=1))
def test_any_texts_come_back_as_they_were_sent(texts: list[str]) -> None:
    assert parse_arguments(b"".join(text.encode() + b"\0" for text in texts)) == texts


@given(_TEXTS)
def test_a_flag_s_value_may_be_any_text(text: str) -> None:
    assert parse_flags(["--fact", text], "x") == ([], {"fact": text})
    assert parse_flags([f"--fact={text}"], "x") == ([], {"fact": text})


def test_a_flag_that_comes_twice_has_a_list() -> None:
    bare, values = parse_flags(["tea", "--alias", "a", "--alias", "b", "--alias", "c", "--", "-"], "x")

    assert (bare, values) == (["tea", "--", "-"], {"alias": ["a", "b", "c"]})


def test_nothing_is_no_argument() -> None:
    assert parse_arguments(b"") == []


@pytest.mark.parametrize("body", [b"\xff\0", b"caf\xe9\0"])
def test_what_is_not_utf_8_is_refused(body: bytes) -> None:
    with pytest.raises(UsageError, match="UTF-8"):
        parse_arguments(body)
