"""The lines that a program and the home exchange: one JSON object each, in UTF-8.

The program writes `ready` once it reached its service, `message` for what came in, and `delivered` or
`failed` for each delivery. The home writes `accepted` when a message is on record (only then should the
program confirm it to its service), `deliver` for each message to send, `working` while it works on one if the
program can show that, and `stop` before it ends the program.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from nexus.channels.adapter import Capability, Delivery, File, Message, MessageError

MAX_LINE_BYTES: Final = 40_000_000
"""Room for a message with files of 25 MB."""
_TEXTS: Final = ("id", "thread", "sender", "text")
_FLAGS: Final = ("is_group", "is_addressed", "is_verified", "is_automatic")


def parse_line(line: bytes) -> dict[str, Any]:
    """A line as an object with a `type`."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise MessageError("A line is no JSON") from None
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("type"), str):
        raise MessageError("A line is no JSON object with a `type`")
    return cast("dict[str, Any]", value)


def read_message(value: Mapping[str, Any]) -> Message:
    """The message that an object describes."""
    given: dict[str, Any] = {name: _read_text(value, name) for name in _TEXTS}
    given |= {name: _read_flag(value, name) for name in _FLAGS if name in value}
    for name in ("sender_name", "title", "sent_at", "edits"):
        if value.get(name) is not None:
            given[name] = _read_text(value, name)
    files = value.get("files")
    if files is not None and not isinstance(files, list):
        raise MessageError("`files` must be a list")
    return Message(**given, files=tuple(_read_file(each) for each in cast("list[Any]", files or [])))


def describe_delivery(delivery: Delivery) -> dict[str, Any]:
    """A delivery as an object."""
    told: dict[str, Any] = {"type": "deliver", "key": delivery.key, "thread": delivery.thread}
    told |= {"text": delivery.text, "reply_to": delivery.reply_to, "to": delivery.to}
    if delivery.title is not None:
        told["title"] = delivery.title
    if delivery.edits is not None:
        told["edits"] = delivery.edits
    if delivery.files:
        told["files"] = [
            {"name": each.name, "media_type": each.media_type, "data": b64encode(each.data).decode()}
            for each in delivery.files
        ]
    return told


def encode_line(value: Mapping[str, Any]) -> bytes:
    """An object as a line."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace") + b"\n"


def read_capabilities(value: Mapping[str, Any]) -> frozenset[Capability]:
    """What an adapter says it can do. What this version doesn't know is left out."""
    known = get_args(Capability)
    named = cast("list[Any]", value.get("capabilities") or [])
    return frozenset(each for each in named if each in known)


def _read_text(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise MessageError(f"A message needs `{name}`, a text")
    return found


def _read_flag(value: Mapping[str, Any], name: str) -> bool:
    found = value[name]
    if not isinstance(found, bool):
        raise MessageError(f"`{name}` must be true or false")
    return found


def _read_file(value: Any) -> File:
    if not isinstance(value, dict):
        raise MessageError("A file must be an object")
    given = cast("dict[str, Any]", value)
    try:
        data = b64decode(_read_text(given, "data"), validate=True)
    except (Base64Error, ValueError):
        raise MessageError("`data` of a file must be base64") from None
    return File(name=_read_text(given, "name"), media_type=_read_text(given, "media_type"), data=data)
