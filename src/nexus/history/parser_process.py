"""The process that reads what others sent, with limits on its time, its memory and what it hands back.

It is started when the first mail is to be read, shared by everybody in this process, and ends by itself when
there is nothing to do. If a mail uses up a limit, that mail is unread and the next one meets a new process.
"""

import atexit
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from nexus.errors import UsageError
from nexus.history import mime

_CPU_MS: Final = 1_500
"""For a small mail; a large one gets more."""
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_ANSWER_BYTES: Final = 128 * 1024 * 1024
_LINE_BYTES: Final = 10_000
_WAIT_S: Final = 20.0
"""However little of the processor it gets."""
_IDLE_S: Final = 60
_UNREADABLE: Final = "The mail can't be read: {}"
_FAILED: Final = "its parser failed"


class UnreadableError(UsageError):
    """What somebody sent can't be read. It is set aside, and what comes after it is read."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class _Answer:
    mail: mime.Mail | None = None
    error: str = ""


_ANSWER: Final = TypeAdapter(_Answer)


class ParserProcess:
    """A process that reads mail. Blocking: it belongs on a thread, and any may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read_mail(self, data: bytes) -> mime.Mail:
        """Read a mail; UnreadableError if that fails or takes too much."""
        with self._lock:
            answer = self._ask(data)
            if answer is None and self._stop() == 0:
                answer = self._ask(data)  # it had just ended, for want of work
            if answer is None:
                is_costly = self._stop() != 1
                raise UnreadableError(_UNREADABLE.format("it takes too much" if is_costly else _FAILED))
        told, *parts = answer
        try:
            found = _ANSWER.validate_json(told)
            if found.mail is not None:
                whole = zip(found.mail.parts, parts, strict=True)
                return replace(found.mail, parts=tuple(replace(part, data=data) for part, data in whole))
        except ValueError as error:
            raise UnreadableError(_UNREADABLE.format(_FAILED)) from error
        raise UnreadableError(_UNREADABLE.format(found.error))

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._stop()

    def _ask(self, data: bytes) -> list[bytes] | None:
        """What the process answers; None if it ended over it, or doesn't answer as it should."""
        if self._process is None:
            self._process = _start()
        process = self._process
        asked, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        watch = threading.Timer(_WAIT_S, process.kill)
        watch.start()
        try:
            asked.write(b"%d\n%b" % (len(data), data))
            asked.flush()
            sizes = [int(size) for size in answers.readline(_LINE_BYTES).split()]
            if not sizes or min(sizes) < 0 or sum(sizes) > _ANSWER_BYTES:
                return None
            answer = [answers.read(size) for size in sizes]
            return answer if [len(each) for each in answer] == sizes else None
        except (OSError, ValueError):
            return None
        finally:
            watch.cancel()

    def _stop(self) -> int | None:
        """End the process; its exit status, also if it had ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what it never read
                cast("IO[bytes]", stream).close()
        return process.wait()


def _start() -> subprocess.Popen[bytes]:
    limits = map(str, (_CPU_MS, _MEMORY_BYTES, _IDLE_S))
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-B", str(Path(mime.__file__).resolve()), *limits],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"LANG": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )


_SHARED: Final = ParserProcess()
close = _SHARED.close
atexit.register(close)


def read_mail(data: bytes) -> mime.Mail:
    """Read a mail in the shared process. Blocking; UnreadableError if that fails or takes too much."""
    return _SHARED.read_mail(data)
