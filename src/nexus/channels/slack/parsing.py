"""From events of Slack to messages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from nexus.channels.adapter import File, Message, MessageError

_SAID: Final = frozenset({None, "file_share", "me_message", "thread_broadcast", "bot_message"})
"""Subtypes of what somebody said. Others tell that somebody joined, that a message was deleted, and so on."""
_CHANGED: Final = "message_changed"
_ESCAPED: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_TS: Final = re.compile(r"\d{1,12}\.\d{1,6}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bot:
    """The agent in its workspace."""

    user_id: str
    bot_id: str
    name: str


def is_said(event: dict[str, Any], bot: Bot) -> bool:
    """Whether an event is something that somebody else said."""
    subtype = event.get("subtype")
    if (subtype is not None and not isinstance(subtype, str)) or subtype not in _SAID:
        return False
    return event.get("user") != bot.user_id and (not bot.bot_id or event.get("bot_id") != bot.bot_id)


def as_edited(event: dict[str, Any]) -> dict[str, Any]:
    """Of an event that says that a message was edited, the message as it is now; of others, themselves.

    Slack tells it the same way when it added a preview. Then nobody edited the message.
    """
    found: Any = event.get("message")
    changed = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if event.get("subtype") != _CHANGED or not _read_edit_time(changed):
        return event
    place = {name: event[name] for name in ("channel", "channel_type") if name in event}
    return {**changed, **place, "is_edit": True}


def is_own_join(event: dict[str, Any], bot: Bot) -> bool:
    """Whether an event says that the agent was let into a channel."""
    return event.get("subtype") in ("channel_join", "group_join") and event.get("user") == bot.user_id


def read_ts(event: dict[str, Any]) -> str:
    """When something was said, which is also its name in its conversation."""
    found = event.get("ts")
    if not isinstance(found, str) or not _TS.fullmatch(found):
        raise MessageError("The event has no ts")
    return found


def read_channel(event: dict[str, Any]) -> str:
    """Where something was said."""
    return _read_field(event, "channel")


def is_group(event: dict[str, Any]) -> bool:
    """Whether others read along. What isn't known to be a direct message is read by others."""
    kind = event.get("channel_type")
    return kind != "im" if kind is not None else not read_channel(event).startswith("D")


def read_thread(event: dict[str, Any]) -> str:
    """The conversation of an event: a channel, or a thread in it."""
    root = event.get("thread_ts")
    channel = read_channel(event)
    return f"{channel} {root}" if isinstance(root, str) and _TS.fullmatch(root) else channel


def read_sender(event: dict[str, Any]) -> str:
    """Who said something: a member of the workspace, or another app's bot."""
    return _read_field(event, "user" if event.get("user") else "bot_id")


def parse_message(
    event: dict[str, Any], bot: Bot, files: tuple[File, ...], *, name: str | None, title: str | None
) -> Message | None:
    """A message; None if there is nothing in it."""
    said = event.get("text", "")
    if not isinstance(said, str):
        raise MessageError("The text of the event is no text")
    text = unescape(said, bot)
    if not text.strip() and not files:
        return None
    group = is_group(event)
    id_ = f"{read_channel(event)}/{read_ts(event)}"
    is_edit = event.get("is_edit") is True
    return Message(
        id=f"{id_}/{_read_edit_time(event)}" if is_edit else id_,
        edits=id_ if is_edit else None,
        thread=read_thread(event),
        sender=read_sender(event),
        sender_name=name,
        text=text,
        title=title if group else None,
        is_group=group,
        is_addressed=not group or _is_addressed(event, said, bot),
        is_automatic=bool(event.get("bot_id")),
        files=files,
    )


def read_files(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The files of an event, as Slack describes them."""
    files: Any = event.get("files") or []
    if not isinstance(files, list):
        raise MessageError("The files of the event are no list")
    for file in cast("list[Any]", files):
        if not isinstance(file, dict):
            raise MessageError("A file of the event is no object")
        yield cast("dict[str, Any]", file)


def unescape(text: str, bot: Bot) -> str:
    """A text as it was typed: Slack escapes three characters, and writes names and links in brackets."""

    def unescape_one(found: re.Match[str]) -> str:
        sign, target, label = found.groups()
        if sign == "@" and target == bot.user_id:
            return f"@{bot.name}"
        if sign:
            return f"{'@' if sign == '!' else sign}{label or target}"
        address = target.removeprefix("mailto:").removeprefix("tel:")
        return address if not label or label in target else f"{label} ({target})"

    text = _ESCAPED.sub(unescape_one, text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def disarm_mentions(text: str) -> str:
    """A text that calls nobody, whatever is in it: `<!channel>` would call everybody."""
    return re.sub(r"<(?=[!@#])", "<\N{ZERO WIDTH SPACE}", text)


def _is_addressed(event: dict[str, Any], said: str, bot: Bot) -> bool:
    """Whether a message in a group names the agent, or continues a thread that the agent began."""
    named = f"<@{bot.user_id}>" in said or f"<@{bot.user_id}|" in said
    return named or event.get("parent_user_id") == bot.user_id


def _read_edit_time(event: dict[str, Any]) -> str:
    """When a message was edited; empty where it wasn't."""
    edited: Any = event.get("edited")
    found = cast("dict[str, Any]", edited).get("ts") if isinstance(edited, dict) else None
    return found if isinstance(found, str) and _TS.fullmatch(found) else ""


def _read_field(event: dict[str, Any], name: str) -> str:
    found = event.get(name)
    if not isinstance(found, str) or not found:
        raise MessageError(f"The event has no {name}")
    return found
