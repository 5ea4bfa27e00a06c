"""What is stored comes back as it was."""

import base64
import json
import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.engine import serializer
from nexus.errors import UsageError

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


class PickyError(Exception):
    """Like many errors of libraries: what it is made from is not what it says."""

    def __init__(self, code: int, *, body: str) -> None:
        super().__init__(f"{code}: {body}")


def test_an_error_that_cannot_be_made_again_is_stored_with_its_words() -> None:
    back = serializer.loads(serializer.dumps(PickyError(429, body="too many")))
    assert isinstance(back, serializer.StepError)
    assert str(back) == "PickyError: 429: too many"


def test_an_error_that_can_be_made_again_is_itself() -> None:
    back = serializer.loads(serializer.dumps(UsageError("no", hint="do it otherwise")))
    assert isinstance(back, UsageError)
    assert (back.message, back.hint) == ("no", "do it otherwise")


class Payload:
    """What a planted pickle looks like: reading it calls a function of the planter's choice."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.putenv, ("NEXUS_PLANTED", "1"))


def test_a_pickle_that_calls_something_is_refused() -> None:
    planted = "pickle:" + base64.b64encode(pickle.dumps(Payload())).decode()
    with pytest.raises(pickle.UnpicklingError, match="neither a value nor an error"):
        serializer.loads(planted)


def test_a_value_that_could_not_be_read_back_is_not_stored() -> None:
    with pytest.raises(pickle.UnpicklingError):
        serializer.dumps(Payload())


def test_text_that_utf_8_cannot_carry_is_stored_all_the_same() -> None:
    stored = serializer.dumps({"output": "\udcff"})
    stored.encode("utf-8")
    assert serializer.loads(stored) == {"output": "\udcff"}
