"""Writing the files that an exported file brings, and nothing outside of their place."""

import base64
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from nexus.ledgers import files


class Tree:
    """config.toml and state/ of a home under construction.

    It makes folders and new plain files only, so no path can lead through a link to somewhere else.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modes: dict[str, str] = {}
        self._current = ExitStack()
        self._stream: BinaryIO | None = None

    def take(self, record: dict[str, Any]) -> bool:
        """Write what a line brings; tells whether a file began with it."""
        if "more" in record:
            self._append(_bytes(record["more"]))
            return False
        self._finish_file()
        if "directory" in record:
            path = self._path(record["directory"], record["mode"])
            files.folder(self._root / path)
            return False
        path = self._path(record["file"], record["mode"])
        content = record["text"].encode() if "text" in record else _bytes(record["base64"])
        self._stream = self._current.enter_context(files.new(self._root / path))
        self._append(content)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish_file()
        if error is None:
            files.permit(self._root, self._modes)

    def _path(self, path: object, mode: str) -> str:
        checked = files.checked(path)
        if checked in self._modes:
            raise ValueError(f"{checked!r} comes twice")
        int(mode, 8)
        self._modes[checked] = mode
        return checked

    def _append(self, content: bytes) -> None:
        if self._stream is None:
            raise ValueError("it continues a file that did not begin")
        self._stream.write(content)

    def _finish_file(self) -> None:
        if self._stream is not None:
            files.sync(self._stream)
        self._current.close()
        self._stream = None


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
