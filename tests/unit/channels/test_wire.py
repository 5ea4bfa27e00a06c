"""Lines between a program and the home."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.channels import wire
from nexus.channels.adapter import Delivery, File, MessageError

_GOOD: dict[str, Any] = {"type": "message", "id": "1", "thread": "t", "sender": "+41", "text": "Hello"}


def test_a_message_with_a_file() -> None:
    value = {
        **_GOOD,
        "is_group": True,
        "files": [{"name": "a.txt", "media_type": "text/plain", "data": "aGk="}],
    }
    message = wire.read_message(wire.parse_line(wire.encode_line(value)))
    assert (message.id, message.thread, message.sender, message.text) == ("1", "t", "+41", "Hello")
    assert message.is_group
    assert message.files == (File(name="a.txt", media_type="text/plain", data=b"hi"),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": None},
        {"text": 3},
        {"is_verified": "yes"},
        {"files": "a"},
        {"files": ["a"]},
        {"files": [{"name": "a", "media_type": "b", "data": "%%"}]},
    ],
)
def test_what_is_no_message_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        wire.read_message({**_GOOD, **wrong})


def test_an_empty_message_and_one_that_is_too_long() -> None:
    with pytest.raises(MessageError, match="empty"):
        wire.read_message({**_GOOD, "text": "  "}).validate()
    with pytest.raises(MessageError, match="longer"):
        wire.read_message({**_GOOD, "text": "x" * 1_000_001}).validate()
    with pytest.raises(MessageError, match="longer"):
        wire.read_message({**_GOOD, "sender": "x" * 1_001}).validate()


def test_a_delivery() -> None:
    line = wire.encode_line(
        wire.describe_delivery(Delivery(key="k", thread="t", text="Grüße\n", reply_to="1", to="hana"))
    )
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "type": "deliver",
        "key": "k",
        "thread": "t",
        "text": "Grüße\n",
        "reply_to": "1",
        "to": "hana",
    }


@given(st.binary(max_size=200))
def test_any_line_is_a_message_or_refused(line: bytes) -> None:
    with suppress(MessageError):
        wire.read_message(wire.parse_line(line)).validate()


_VALUE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.lists(st.text(max_size=3), max_size=2)
)
_NAMES = st.sampled_from([*_GOOD, "files", "is_group", "sent_at"])


@given(st.dictionaries(_NAMES, _VALUE))
def test_any_object_is_a_message_or_refused(value: dict[str, Any]) -> None:
    with suppress(MessageError):
        wire.read_message(value).validate()
