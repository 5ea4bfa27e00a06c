"""The log of a served home: lines of JSON with names, ids and numbers, never message content.

It lies in the home's `logs` folder, in a few files of bounded size. Of an error that nobody foresaw the kind
and the place are kept, not its words: they may be a secret's or a person's.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO, cast

from nexus import clock
from nexus.home import PRIVATE_FILE, Home

LEVELS: Final = ("info", "warning", "error")
_ROOT: Final = "nexus"
_FILE: Final = "nexus.jsonl"
_MOST_BYTES: Final = 5 * 1024 * 1024
_FILES_KEPT: Final = 4
# What every record of the standard library has; the rest was given by whoever logged.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

Redact = Callable[[str], str]


class Logging:
    """While the context lasts, what is logged goes to the home's file, and warnings to the terminal."""

    def __init__(self, home: Home, redact: Redact, terminal: TextIO | None = None) -> None:
        self._file = _PrivateFile(
            path(home), maxBytes=_MOST_BYTES, backupCount=_FILES_KEPT, encoding="utf-8", delay=True
        )
        self._file.setFormatter(_Json(redact))
        self._terminal = logging.StreamHandler(terminal or sys.stderr)
        self._terminal.setLevel(logging.WARNING)
        self._terminal.setFormatter(_Json(redact, plain=True))
        self._loggers = [logging.getLogger(_ROOT), logging.getLogger("uvicorn"), logging.getLogger("asyncio")]
        self._before: list[int] = []

    def __enter__(self) -> Self:
        self._before = [logger.level for logger in self._loggers]
        for logger in self._loggers:
            logger.setLevel(logging.INFO if logger.name == _ROOT else logging.WARNING)
            logger.addHandler(self._file)
            logger.addHandler(self._terminal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for logger, level in zip(self._loggers, self._before, strict=True):
            logger.removeHandler(self._file)
            logger.removeHandler(self._terminal)
            logger.setLevel(level)
        self._file.close()


def path(home: Home) -> Path:
    """Return the current file; older ones have a number after their name."""
    return home.logs / _FILE


def read(home: Home) -> Iterator[str]:
    """Yield every line that is kept, oldest first."""
    for number in range(_FILES_KEPT, 0, -1):
        yield from _read_lines(path(home).with_name(f"{_FILE}.{number}"))
    yield from _read_lines(path(home))


class Tail:
    """The lines added from now on, across rotations of the file."""

    def __init__(self, home: Home) -> None:
        self._path = path(home)
        self._stream = self._open()
        if self._stream is not None:
            self._stream.seek(0, os.SEEK_END)

    def next(self) -> list[str]:
        """Return the lines added since the last call."""
        found = self._read_rest()
        if self._is_rotated():
            self.close()
            self._stream = self._open()
            found += self._read_rest()
        return found

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _read_rest(self) -> list[str]:
        return [] if self._stream is None else [line.rstrip("\n") for line in self._stream.readlines()]

    def _is_rotated(self) -> bool:
        if self._stream is None:
            return self._path.exists()
        with suppress(FileNotFoundError):
            return self._path.stat().st_ino != os.fstat(self._stream.fileno()).st_ino
        return False

    def _open(self) -> TextIO | None:
        with suppress(FileNotFoundError):
            return self._path.open(encoding="utf-8", errors="replace")
        return None


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, PRIVATE_FILE)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class _Json(logging.Formatter):
    def __init__(self, redact: Redact, *, plain: bool = False) -> None:
        super().__init__()
        self._redact = redact
        self._plain = plain

    def format(self, record: logging.LogRecord) -> str:
        if self._plain:
            return self._redact(f"nexus: {record.getMessage()}")
        line: dict[str, Any] = {
            "at": clock.timestamp(clock.now()),
            "level": record.levelname.lower(),
            "from": record.name.removeprefix("nexus."),
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= _describe_error(record.exc_info[1])
        return self._redact(json.dumps(line, ensure_ascii=False, default=str))


def _describe_error(error: BaseException) -> dict[str, Any]:
    """Describe an error by its type and places, innermost last."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__qualname__,
        "trace": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-8:]],
    }


def _read_lines(file: Path) -> Iterator[str]:
    with suppress(FileNotFoundError), file.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            yield line.rstrip("\n")
