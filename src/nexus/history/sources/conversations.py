"""`conversations.json`, as ChatGPT and Claude export it: an array of conversations, each read as a whole."""

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from nexus.history import json_stream
from nexus.history.files import Files
from nexus.history.items import Item, Mark, SetAside
from nexus.history.source import Source, beginning, careful, cursor_place, place_cursor, record

_FILE: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
# Larger conversations than this have not been seen; one is held while it is read.
_LARGEST_BYTES: Final = 64 * 1024 * 1024
_LOOKED_AT_BYTES: Final = 65_536


class Conversations(Source):
    """The zip archive of an export, or its `conversations.json` alone."""

    sign: ClassVar[bytes]
    """What is near the beginning of such a file and of no other's."""

    @classmethod
    def recognizes(cls, files: Files) -> bool:
        return any(cls.sign in beginning(files, name, _LOOKED_AT_BYTES) for name in _names(files))

    def read(self, cursor: str | None) -> Iterator[Item]:
        after, done = cursor_place(cursor)
        for name in _names(self.files):
            if name >= after:
                yield from self._file(name, done if name == after else 0)

    @abstractmethod
    def conversation(self, whole: dict[str, Any], place: str) -> Iterator[Item]:
        """The thread and the messages of one conversation."""

    def _file(self, name: str, skip: int) -> Iterator[Item]:
        number = 0
        try:
            with self.files.open(name) as stream:
                for raw in json_stream.scan(stream, lambda path: path == ("*",), _LARGEST_BYTES):
                    number += 1
                    if number <= skip:
                        continue
                    place = f"{name}, conversation {number}"
                    whole = _parsed(raw.data)
                    # The bytes aren't needed while the messages are written.
                    del raw
                    if isinstance(whole, str):
                        yield SetAside(reason=whole, place=place)
                    else:
                        yield from careful(self.conversation(whole, place), place)
                    yield Mark(place_cursor(name, number))
        except (json_stream.BrokenJsonError, OSError, EOFError) as error:
            yield SetAside(reason=f"the file is damaged: {error}", place=f"{name}, after {number}")


def _names(files: Files) -> list[str]:
    return [name for name in files.names() if _FILE.fullmatch(name)]


def _parsed(data: bytes | None) -> dict[str, Any] | str:
    """A conversation, or why it can't be read."""
    if data is None:
        return "the conversation is larger than 64 MiB"
    try:
        return record(json_stream.parsed(data))
    except ValueError:
        return "the conversation is not valid JSON"
