"""The process that reads what others sent: in a sandbox, with limits on its time, memory and answers.

It is started when there is first something to read, shared by everybody in this process, and ends by itself
when there is nothing to do. If a mail uses up a limit, that mail is unread and the next one meets a new
process. Where no sandbox can be had, the limits remain.
"""

import atexit
import json
import queue
import subprocess
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, cast

from pydantic import TypeAdapter

from nexus import bubblewrap, extras
from nexus.errors import SandboxError, UsageError
from nexus.history import mime, parser_program

_CPU_MS: Final = 1_500
"""For a small mail; a large one gets more."""
_MOST_CPU_MS: Final = 3_000
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_ANSWER_BYTES: Final = 128 * 1024 * 1024
_LINE_BYTES: Final = 10_000
_WAIT_S: Final = 20.0
"""However little of the processor it gets."""
_IDLE_S: Final = 60
_END_S: Final = 1.0
_COSTLY: Final = "it takes too much"
_FAILED: Final = "its parser failed"


class UnreadableError(UsageError):
    """What somebody sent can't be read. It is set aside, and what comes after it is read."""


class ParserProcess:
    """A process that reads what others sent. Blocking: it belongs on a thread, and any may use it.

    What can't be read, or takes too much, is an UnreadableError.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read_mail(self, data: bytes) -> mime.Mail:
        """Read a mail."""
        mail: mime.Mail
        mail, parts = self._read("mail", data)
        if len(parts) != len(mail.parts):
            raise UnreadableError(f"The mail can't be read: {_FAILED}")
        whole = zip(mail.parts, parts, strict=True)
        return replace(mail, parts=tuple(replace(part, data=data) for part, data in whole))

    def read_card(self, data: bytes) -> mime.Card | None:
        """Read an entry of an address book; None if it says nothing."""
        return self._read("contact", data)[0]

    def read_appointment(self, data: bytes) -> mime.Appointment | None:
        """Read an entry of a calendar; None if it has no beginning."""
        return self._read("appointment", data)[0]

    def read_series(self, data: bytes, begin: date, end: date) -> mime.Series | None:
        """Read an event of a calendar with its instances between two days; None without a beginning."""
        return self._read("calendar", b"%b %b\n%b" % (*(f"{day}".encode() for day in (begin, end)), data))[0]

    def edit_series(self, data: bytes, change: dict[str, Any]) -> bytes:
        """Change an event of a calendar, or make one of nothing; returns its text."""
        edited: mime.Edited = self._read("change", json.dumps(change).encode() + b"\n" + data)[0]
        return edited.text.encode()

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._stop()

    def _read(self, kind: str, data: bytes) -> tuple[Any, list[bytes]]:
        library = parser_program.READERS[kind][1].partition(".")[0]
        if library == "recurring_ical_events":
            extras.require("calendar", "Reading calendars", modules=("icalendar", library))
        else:
            extras.require("import", "Reading mail, contacts and calendars", modules=(library,))
        with self._lock:
            answer, status = self._ask(kind, data), None
            if answer is None and (status := self._stop(_END_S)) == 0:
                answer = self._ask(kind, data)  # it had just ended, for want of work
                status = self._stop(_END_S) if answer is None else None
        error = _FAILED if status == 1 else _COSTLY
        if answer is not None:
            error = answer[0].decode("utf-8", "replace") or _FAILED
            with suppress(ValueError, IndexError):
                return _adapter(kind).validate_json(answer[1]), answer[2:]
        raise UnreadableError(f"The {kind} can't be read: {error}")

    def _ask(self, kind: str, data: bytes) -> list[bytes] | None:
        """Return what the process answers; None if it ended over it, or doesn't answer as it should."""
        if self._process is None:
            self._process = _start()
        process = self._process
        asked, answers = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        watch = threading.Timer(_WAIT_S, process.kill)
        watch.start()
        try:
            asked.write(b"%b %d\n%b" % (kind.encode(), len(data), data))
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

    def _stop(self, grace_s: float = 0) -> int | None:
        """End the process; its exit status, also if it ends by itself meanwhile."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
        process.kill()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what it never read
                cast("IO[bytes]", stream).close()
        return process.wait()


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    # When it is first needed: a home starts sooner without them.
    types = {
        "mail": mime.Mail,
        "contact": mime.Card,
        "appointment": mime.Appointment,
        "calendar": mime.Series,
        "change": mime.Edited,
    }
    return TypeAdapter(types[kind] if kind == "mail" else types[kind] | None)


def _start() -> subprocess.Popen[bytes]:
    program, grants = bubblewrap.python_program(parser_program.__file__)
    limits = map(str, (_CPU_MS, _MOST_CPU_MS, _MEMORY_BYTES, _IDLE_S))
    command = [*program, *limits, *bubblewrap.package_folders()]
    with suppress(SandboxError, OSError):
        spec = bubblewrap.Spec(
            grants=grants,
            hidden=(),
            network=False,
            temporary_bytes=1024 * 1024,
            environment={"LANG": "C.UTF-8"},
            directory=Path("/"),
        )
        with bubblewrap.prepare(spec) as (held, opened):
            confined = _run([bubblewrap.find_program(), "--args", str(held), "--", *command], pass_fds=opened)
        if cast("IO[bytes]", confined.stdout).readline(_LINE_BYTES) == parser_program.READY:
            return confined
        confined.kill()
        confined.communicate()
    bare = _run(command)
    cast("IO[bytes]", bare.stdout).readline(_LINE_BYTES)
    return bare


def _run(command: list[str], pass_fds: Collection[int] = ()) -> subprocess.Popen[bytes]:
    """Start a process from a thread that lives as long: a sandbox ends with the thread that began it."""
    begun: queue.Queue[subprocess.Popen[bytes] | OSError] = queue.Queue()

    def keep() -> None:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            begun.put(error)
        else:
            begun.put(process)
            process.wait()

    threading.Thread(target=keep, name="parser process", daemon=True).start()
    found = begun.get()
    if isinstance(found, OSError):
        raise found
    return found


_SHARED: Final = ParserProcess()
close = _SHARED.close
read_mail = _SHARED.read_mail
read_card = _SHARED.read_card
read_appointment = _SHARED.read_appointment
read_series = _SHARED.read_series
edit_series = _SHARED.edit_series
atexit.register(close)
