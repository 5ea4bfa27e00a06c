"""Slack's export: lists of users and conversations, and a JSON array of messages for each day."""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Attachment, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import (
    Source,
    as_list,
    as_object,
    as_text,
    guess_type,
    make_cursor,
    parse_moment,
    read_beginning,
    remaining_files,
    set_failures_aside,
)

_DAY: Final = re.compile(r"(?:.*/)?([^/]+)/\d{4}-\d\d-\d\d\.json")
_LISTS: Final = ("channels.json", "groups.json", "dms.json", "mpims.json")
_LARGEST_BYTES: Final = 16 * 1024 * 1024
_LARGEST_LIST_BYTES: Final = 64 * 1024 * 1024
_REFERENCE: Final = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
# Messages that only say what somebody did to the channel.
_NOISE: Final = frozenset(
    {"channel_join", "channel_leave", "group_join", "group_leave", "bot_add", "bot_remove"}
)


class Slack(Source):
    """The zip archive that a workspace's owner exports, or the folder that it unpacks to."""

    name: ClassVar[str] = "slack"
    title: ClassVar[str] = "Slack export"
    channel: ClassVar[str] = "slack"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        names = files.names()
        has_users = any(name.rpartition("/")[2] == "users.json" for name in names)
        return has_users and any(map(_DAY.fullmatch, names))

    def read(self, cursor: str | None) -> Iterator[Item]:
        rooms = self._rooms()
        users = {as_text(user.get("id")) or "": user for user in self._list("users.json")}
        for name, start in remaining_files(self.files.names(), cursor):
            if found := _DAY.fullmatch(name):
                room = rooms.get(found.group(1)) or {"id": found.group(1), "name": found.group(1)}
                yield from self._day(name, start, room, users)

    def _day(
        self, name: str, skip: int, room: dict[str, Any], users: dict[str, dict[str, Any]]
    ) -> Iterator[Item]:
        room_id = as_text(room.get("id")) or name
        yield Thread(external_id=room_id, title=as_text(room.get("name")), kind="channel")
        number = 0
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, lambda path: path == ("*",), _LARGEST_BYTES):
                    number += 1
                    if number <= skip:
                        continue
                    try:
                        message = as_object(json_stream.parse(raw.data or b""))
                    except ValueError:
                        yield SetAside(reason="the message is not valid JSON", place=f"{name}, {number}")
                    else:
                        yield from set_failures_aside(
                            self._message(message, room_id, users), f"{name}, {number}"
                        )
                    yield Mark(make_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=name)

    def _message(
        self, message: dict[str, Any], room: str, users: dict[str, dict[str, Any]]
    ) -> Iterator[Item]:
        ts, subtype = as_text(message.get("ts")), as_text(message.get("subtype"))
        if ts is None or message.get("type") != "message" or subtype in _NOISE:
            return
        if subtype == "tombstone":
            return  # deleted in Slack: its words are not in the export
        user_id = as_text(message.get("user")) or as_text(message.get("bot_id")) or "unknown"
        user = users.get(user_id, {})
        profile = as_object(user.get("profile")) or as_object(message.get("user_profile"))
        shown = (
            as_text(profile.get("real_name"))
            or as_text(user.get("real_name"))
            or as_text(message.get("username"))
        )
        address = as_text(profile.get("email"))
        is_bot = bool(user.get("is_bot") or message.get("bot_id") or user_id == "USLACKBOT")
        is_owner = self.options.is_owner(user_id, shown, address, as_text(user.get("name")))
        thread_ts = as_text(message.get("thread_ts"))
        thread = room
        if thread_ts and (thread_ts != ts or message.get("reply_count")):
            thread = f"{room}/{thread_ts}"
            yield Thread(external_id=thread, kind="thread", parent=room, at=parse_moment(thread_ts))
        files = tuple(self._file(as_object(each)) for each in as_list(message.get("files")))
        content = _plain(as_text(message.get("text")) or "", users)
        if content or files:
            yield Message(
                external_id=f"{room}/{ts}",
                thread=thread,
                author="owner" if is_owner else "person",
                sender=_person(user_id, shown, address, is_bot),
                content=content,
                at=parse_moment(ts),
                reply_to=f"{room}/{thread_ts}" if thread_ts and thread_ts != ts else None,
                metadata={"edited": True} if message.get("edited") else {},
                attachments=files,
            )

    def _file(self, file: dict[str, Any]) -> Attachment:
        size, name = file.get("size"), as_text(file.get("name"))
        # Slack's own export only links to files. Programs that fetch them put them here.
        member = f"__uploads/{as_text(file.get('id'))}/{name}"
        return Attachment(
            name=name or as_text(file.get("id")),
            media_type=as_text(file.get("mimetype")) or guess_type(name),
            size_bytes=size if isinstance(size, int) else None,
            member=member if member in self.members else None,
        )

    def _rooms(self) -> dict[str, dict[str, Any]]:
        """By the name of their folder: a channel's name, or the id of a direct conversation."""
        rooms = (room for name in _LISTS for room in self._list(name))
        return {as_text(room.get("name")) or as_text(room.get("id")) or "": room for room in rooms}

    def _list(self, wanted: str) -> list[dict[str, Any]]:
        for name in self.files.names():
            if name.rpartition("/")[2] == wanted:
                data = read_beginning(self.files, name, _LARGEST_LIST_BYTES)
                try:
                    return [as_object(each) for each in as_list(json_stream.parse(data))]
                except ValueError:
                    return []
        return []


def _person(id_: str, name: str | None, address: str | None, is_bot: bool) -> Person:
    if address and "@" in address:
        return Person(identifier=address.casefold(), kind="email", name=name, is_automated=is_bot)
    return Person(identifier=f"slack/{id_}", name=name, is_automated=is_bot)


def _plain(content: str, users: dict[str, dict[str, Any]]) -> str:
    """Slack's marks as people read them: `<@U1>` is a name, `<url|label>` a label with its address."""

    def read(match: re.Match[str]) -> str:
        mark, target, label = match.groups()
        if mark == "@":
            return "@" + (label or as_text(users.get(target, {}).get("real_name")) or target)
        if mark:
            return f"{mark if mark == '#' else '@'}{label or target}"
        return f"{label} ({target})" if label and label != target else target

    plain = _REFERENCE.sub(read, content)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()
