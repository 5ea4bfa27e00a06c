"""The audit log of a host: who managed what and when, as lines of JSON in `logs/audit.jsonl`.

It holds names and results, never what a home holds, and of a token only the first digits of its digest. The
host and commands beside it write the same file: each line under a lock, at the end of whatever is there.
"""

import fcntl
import getpass
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from nexus import clock
from nexus.errors import NexusError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

_FILE: Final = "audit.jsonl"
_MOST_BYTES: Final = 10 * 1024 * 1024
_FILES_KEPT: Final = 9
# Whoever tries many tokens must not push out what was recorded before: so many of these are written at once,
# and then one in so many seconds, with the number of those between.
_REFUSALS_AT_ONCE: Final = 100
_REFUSAL_EVERY_S: Final = 10.0
_log = logging.getLogger("nexus.host")


def path(root: Path) -> Path:
    """The file that is being written; older ones have a number behind their name."""
    return root / "logs" / _FILE


def by_token(token: str) -> str:
    """Who a token is in the log: enough to tell two of them apart, too little to use one."""
    return f"token:{hashlib.sha256(token.encode(errors='surrogateescape')).hexdigest()[:12]}"


def by_user() -> str:
    """Who runs a command on the host."""
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"user:{os.getuid()}"


class Audit:
    """Writes the audit log of a host. Every method waits for the disk: call it on a thread."""

    def __init__(
        self, root: Path, *, most_bytes: int = _MOST_BYTES, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path(root)
        self._most_bytes = most_bytes
        self._counting = threading.Lock()
        self._refusals_left = float(_REFUSALS_AT_ONCE)
        self._now = now
        self._refused_at = now()
        self._unwritten = 0

    @contextmanager
    def act(self, what: str, *, who: str, **about: Any) -> Generator[None]:
        """Record what is done within the context, and whether it failed."""
        try:
            yield
        except BaseException as error:
            # Only words of our own, which name no content.
            reason = error.message if isinstance(error, NexusError) else type(error).__name__
            self.record(what, who=who, result="failed", reason=reason, **about)
            raise
        self.record(what, who=who, **about)

    def record_refusal(self, what: str, *, who: str, **about: Any) -> None:
        """Record that somebody was not let in. Of very many, some stand for the others."""
        with self._counting:
            now = self._now()
            gained = (now - self._refused_at) / _REFUSAL_EVERY_S
            self._refusals_left = min(_REFUSALS_AT_ONCE, self._refusals_left + gained)
            self._refused_at = now
            if self._refusals_left < 1:
                self._unwritten += 1
                return
            self._refusals_left -= 1
            unwritten, self._unwritten = self._unwritten, 0
        more = {"unwritten_before": unwritten} if unwritten else {}
        self.record(what, who=who, result="refused", **about, **more)

    def record(self, what: str, *, who: str, result: str = "ok", **about: Any) -> None:
        """Add a line. A log that can't be written is told in the other one, and stops nothing."""
        given = {name: value for name, value in about.items() if value is not None}
        line = {"at": clock.timestamp(clock.now()), "who": who, "act": what, "result": result, **given}
        try:
            self._write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        except OSError:
            _log.exception("an act was not recorded in the audit log", extra={"act": what})

    def _write(self, line: bytes) -> None:
        self._path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._path.exists() and self._path.stat().st_size + len(line) > self._most_bytes:
                self._rotate()
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            file = os.open(self._path, flags, PRIVATE_FILE)
            try:
                os.write(file, line)
                os.fsync(file)
            finally:
                os.close(file)
        finally:
            os.close(lock)

    def _rotate(self) -> None:
        for number in range(_FILES_KEPT, 0, -1):
            older = self._path if number == 1 else self._numbered_path(number - 1)
            if older.exists():
                older.replace(self._numbered_path(number))

    def _numbered_path(self, number: int) -> Path:
        return self._path.with_name(f"{_FILE}.{number}")
