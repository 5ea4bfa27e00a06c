"""Telegram Desktop's export in JSON: `result.json`, of one chat or of everything."""

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

_LARGEST_BYTES: Final = 16 * 1024 * 1024
_OWNER: Final = ("personal_information",)
_MEDIA: Final = {
    "photo": "image/jpeg", "voice_message": "audio/ogg", "video_message": "video/mp4",
    "sticker": "image/webp",
}  # fmt: skip


class Telegram(Source):
    """`result.json`, or the folder that it was exported to."""

    name: ClassVar[str] = "telegram"
    title: ClassVar[str] = "Telegram export"
    channel: ClassVar[str] = "telegram"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        starts = (read_beginning(files, name, 65_536) for name in _names(files))
        return any(
            b'"messages"' in start
            and (b'"from_id"' in start or b'"chats"' in start or b'"text_entities"' in start)
            for start in starts
        )

    def read(self, cursor: str | None) -> Iterator[Item]:
        for name, start in remaining_files(_names(self.files), cursor):
            yield from self._file(name, start)

    def _file(self, name: str, skip: int) -> Iterator[Item]:
        chat: dict[str, Any] = {}
        owner, number = "", 0
        announced, folder = None, name[: name.rfind("/") + 1]
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, _is_wanted, _LARGEST_BYTES):
                    if raw.path == _OWNER:
                        owner = f"user{as_object(_parse(raw.data)).get('user_id', '')}"
                    elif raw.path[-1] != "*":
                        # A chat says its name, type and id before its messages.
                        if raw.path[-1] == "name":
                            chat = {}
                        chat[raw.path[-1]] = _parse(raw.data)
                    else:
                        number += 1
                        if number <= skip:
                            continue
                        id_ = as_text(chat.get("id")) or name
                        if announced != id_:
                            announced = id_
                            yield Thread(external_id=id_, title=as_text(chat.get("name")))
                        place = f"{name}, message {number}"
                        yield from set_failures_aside(
                            self._message(raw.data, id_, owner, place, folder), place
                        )
                        yield Mark(make_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=f"{name}, after {number}")

    def _message(self, data: bytes | None, chat: str, owner: str, place: str, folder: str) -> Iterator[Item]:
        message = as_object(_parse(data))
        if not message:
            yield SetAside(reason="the message is not valid JSON", place=place)
            return
        id_, sender_id = as_text(message.get("id")), as_text(message.get("from_id"))
        if id_ is None or message.get("type") != "message":
            return
        shown = as_text(message.get("from"))
        is_owner = sender_id == owner or self.options.is_owner(shown, sender_id)
        content, files = _words(message.get("text")), tuple(self._files(message, folder))
        answered = as_text(message.get("reply_to_message_id"))
        metadata: dict[str, Any] = {"edited": as_text(message.get("edited"))} if message.get("edited") else {}
        if forwarded := as_text(message.get("forwarded_from")):
            metadata["forwarded_from"] = forwarded
        if not (content or files):
            return
        yield Message(
            external_id=f"{chat}/{id_}",
            thread=chat,
            author="owner" if is_owner else "person",
            sender=Person(
                identifier=f"telegram/{sender_id or shown or 'unknown'}",
                name=shown or "Deleted account",
                is_automated=not shown or str(sender_id).startswith("channel"),
            ),
            content=content,
            at=parse_moment(message.get("date_unixtime"))
            or parse_moment(message.get("date"), self.options.timezone),
            reply_to=f"{chat}/{answered}" if answered else None,
            metadata=metadata,
            attachments=files,
        )

    def _files(self, message: dict[str, Any], folder: str) -> Iterator[Attachment]:
        for field, size in (("photo", "photo_file_size"), ("file", "file_size")):
            path, size_bytes = as_text(message.get(field)), message.get(size)
            if path:
                name = as_text(message.get("file_name")) or path.rpartition("/")[2]
                kind = as_text(message.get("media_type")) or field
                # A file that was left out has a note in its place.
                member = f"{folder}{path}"
                yield Attachment(
                    name=name,
                    media_type=as_text(message.get("mime_type")) or _MEDIA.get(kind) or guess_type(name),
                    size_bytes=size_bytes if isinstance(size_bytes, int) else None,
                    member=member if member in self.members else None,
                )


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if name.endswith(".json") and "result" in name.rpartition("/")[2]]


def _is_wanted(path: json_stream.Path) -> bool:
    if path == _OWNER:
        return True
    inner = path[3:] if path[:1] == ("chats",) and path[1:3] == ("list", "*") else path
    return inner in (("name",), ("id",), ("type",), ("messages", "*"))


def _parse(data: bytes | None) -> Any:
    try:
        return json_stream.parse(data or b"null")
    except ValueError:
        return None


def _words(content: object) -> str:
    """Return a text, or a list of texts and of objects with a text."""
    if isinstance(content, str):
        return content.strip()
    parts = (
        part if isinstance(part, str) else as_text(as_object(part).get("text")) or ""
        for part in as_list(content)
    )
    return "".join(parts).strip()
