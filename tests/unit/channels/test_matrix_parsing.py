"""Whatever a room's event holds, it is a message, nothing, or an error that says why."""

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nexus.channels.adapter import Message, MessageError
from nexus.channels.matrix import Room, has_file, parse_message, read_content, read_file_name, read_media_type

_ROOM = Room(id="!r:x", members=3, is_open=False, title=None, own_name="agent", sender_name=None)
_JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=3,
)
_RELATION = st.fixed_dictionaries(
    {},
    optional={
        "rel_type": st.sampled_from(["m.thread", "m.replace"]) | _JSON,
        "event_id": st.just("$root") | _JSON,
        "m.in_reply_to": _JSON,
    },
)
_CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "msgtype": st.sampled_from(["m.text", "m.notice", "m.file", "m.image"]) | _JSON,
        "body": st.text(max_size=20) | _JSON,
        "filename": st.text(max_size=20) | _JSON,
        "info": st.fixed_dictionaries({}, optional={"mimetype": _JSON}) | _JSON,
        "m.mentions": st.fixed_dictionaries({}, optional={"user_ids": _JSON}) | _JSON,
        "m.relates_to": _RELATION | _JSON,
    },
)
_EVENT = st.fixed_dictionaries(
    {},
    optional={
        "content": _CONTENT | _JSON,
        "sender": st.just("@hana:x") | _JSON,
        "event_id": st.just("$1") | _JSON,
    },
)


@given(_EVENT)
def test_any_event_is_read_or_refused(event: dict[str, Any]) -> None:
    content = read_content(event)
    assert isinstance(has_file(content), bool)
    assert isinstance(read_file_name(content), str)
    assert isinstance(read_media_type(content), str)
    with suppress(MessageError):
        found = parse_message(event, _ROOM, "@agent:x", ())
        assert found is None or isinstance(found, Message)


def test_the_quote_above_a_reply_is_left_out() -> None:
    content = {
        "msgtype": "m.text",
        "body": "> <@agent:x> Two trains\n> at ten\n\nWhich one?",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
    }
    found = parse_message({"content": content, "sender": "@hana:x", "event_id": "$1"}, _ROOM, "@agent:x", ())
    assert found is not None
    assert found.text == "Which one?"
