"""What is stored comes back as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.engine import serializer

_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(_plain)
def test_a_value_comes_back_the_same_and_of_the_same_kind(value: Any) -> None:
    back = serializer.loads(serializer.dumps(value))
    assert back == value
    assert type(back) is type(value)


def test_plain_values_are_readable_json() -> None:
    assert json.loads(serializer.dumps({"a": [1, "ä", None]})) == {"a": [1, "ä", None]}


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, {"a": (1,)}, ValueError("x"), float("inf")])
def test_what_json_would_change_is_kept_exactly(value: Any) -> None:
    back = serializer.loads(serializer.dumps(value))
    assert type(back) is type(value)
    assert repr(back) == repr(value)


def test_the_end_of_an_execution_comes_back() -> None:
    end = serializer.End(kind="failed", type="ValueError", message="no", trace="…", started_ms=1, ended_ms=2)
    back = serializer.loads(serializer.dumps(serializer.Ended(end)))
    assert isinstance(back, serializer.Ended)
    assert back.end == end


def test_a_payload_that_looks_like_an_end_stays_a_payload() -> None:
    value = {"nexus.ended": {"kind": "failed"}}
    assert serializer.loads(serializer.dumps(value)) == value
