"""Apple's Messages: the database `chat.db`, copied from `~/Library/Messages` of a Mac."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import apsw

from nexus.history.files import Files
from nexus.history.items import Attachment, Item, Mark, Message, Person, SetAside, Thread
from nexus.history.source import Source, guess_type, make_cursor, parse_cursor, read_beginning
from nexus.ledgers import sql

_EPOCH: Final = datetime(2001, 1, 1, tzinfo=UTC)
_SQL: Final = Path(__file__).with_name("imessage.sql")
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class IMessage(Source):
    """A copy of `chat.db`. Reactions are left out."""

    name: ClassVar[str] = "imessage"
    title: ClassVar[str] = "iMessage database"
    channel: ClassVar[str] = "imessage"

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(map(partial(_is_database, files), files.names()))

    def read(self, cursor: str | None) -> Iterator[Item]:
        _, after = parse_cursor(cursor)
        for name in self.files.names():
            location = self.files.location(name)
            if not _is_database(self.files, name):
                continue
            if location is None:
                yield SetAside(reason="a database in an archive is not read; unpack the archive", place=name)
                continue
            try:
                connection = apsw.Connection(
                    f"file:{quote(str(location))}?mode=ro&immutable=1", flags=_READ_ONLY
                )
                try:
                    yield from self._messages(connection, name, after)
                finally:
                    connection.close()
            except (apsw.Error, UnicodeDecodeError) as error:
                yield SetAside(reason=f"the database cannot be read: {error}", place=name)

    def _messages(self, connection: apsw.Connection, name: str, after: int) -> Iterator[Item]:
        announced: set[str] = set()
        for row in connection.execute(sql.load_statements(_SQL)["messages"], (after,)):
            (
                rowid,
                guid,
                words,
                body,
                date,
                from_me,
                handle,
                chat,
                title,
                answered,
                edited,
                has_files,
            ) = row
            chat_id = str(chat or handle or "unknown")
            if chat_id not in announced:
                announced.add(chat_id)
                yield Thread(external_id=chat_id, title=str(title) if title else None)
            content = str(words or _read_attributed(body) or "").replace("\ufffc", "").strip()
            files = tuple(self._files(connection, int(rowid), name)) if has_files else ()
            if content or files:
                yield Message(
                    external_id=str(guid),
                    thread=chat_id,
                    author="owner" if from_me or self.options.is_owner(_text(handle)) else "person",
                    sender=_person(_text(handle)),
                    content=content,
                    at=_moment(date),
                    reply_to=_text(answered),
                    metadata={"edited": True} if edited else {},
                    attachments=files,
                )
            yield Mark(make_cursor(name, int(rowid)))

    def _files(self, connection: apsw.Connection, message: int, database: str) -> Iterator[Attachment]:
        folder = database[: database.rfind("/") + 1]
        for path, name, type_, size in connection.execute(sql.load_statements(_SQL)["files"], (message,)):
            # `~/Library/Messages/Attachments/…`, which a copy of the folder holds beside the database.
            member = f"{folder}Attachments/{str(path or '').partition('/Attachments/')[2]}"
            shown = _text(name) or member.rpartition("/")[2] or None
            yield Attachment(
                name=shown,
                media_type=_text(type_) or guess_type(shown),
                size_bytes=size if isinstance(size, int) else None,
                member=member if member in self.members else None,
            )


def _is_database(files: Files, name: str) -> bool:
    start = read_beginning(files, name, 65_536) if name.endswith(".db") else b""
    return start.startswith(b"SQLite format 3") and b"chat_message_join" in start


def _person(handle: str | None) -> Person:
    if handle and "@" in handle:
        return Person(identifier=handle.casefold(), kind="email")
    if handle and handle.startswith("+"):
        return Person(identifier=handle, kind="phone")
    return Person(identifier=f"imessage/{handle or 'unknown'}", is_automated=not handle)


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _moment(value: Any) -> datetime | None:
    """Seconds since 2001 before macOS 10.13, nanoseconds since."""
    try:
        seconds = float(value) / 1e9 if float(value) > 1e11 else float(value)
        return _EPOCH + timedelta(seconds=seconds) if seconds else None
    except (TypeError, ValueError, OverflowError):
        return None


def _read_attributed(body: Any) -> str | None:
    """Read the text of an archived NSAttributedString, which newer versions store instead of `text`."""
    if not isinstance(body, bytes):
        return None
    _, found, rest = body.partition(b"NSString")
    if not found or len(rest) < 8:
        return None
    rest = rest[5:]
    length, start = rest[0], 1
    if length in (0x81, 0x82):
        width = 2 if length == 0x81 else 4
        length, start = int.from_bytes(rest[1 : 1 + width], "little"), 1 + width
    return rest[start : start + length].decode("utf-8", "replace")
