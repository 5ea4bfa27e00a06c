"""Who serves a home, and where: one process at a time, which tells its address to the others.

It is an advisory lock of the operating system on a file that holds the address, so a killed process leaves
a file that says nothing.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from nexus import clock
from nexus.errors import HomeBusyError
from nexus.home import PRIVATE_FILE, Home


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A process that serves a home."""

    pid: int
    url: str
    """Empty while it is starting."""
    since: str


class Serving:
    """The right to serve a home, held while the context lasts."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._descriptor = -1

    def __enter__(self) -> Self:
        descriptor = os.open(_file(self._home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise _refusal(self._home) from None
        self._descriptor = descriptor
        self.tell("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def tell(self, url: str) -> None:
        """Let others know where the home is served."""
        service = {"pid": os.getpid(), "url": url, "since": clock.timestamp(clock.now())}
        text = json.dumps(service).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))


def serving(home: Home) -> Service | None:
    """Who serves a home at this moment."""
    try:
        descriptor = os.open(_file(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> Service | None:
    try:
        return Service(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return None  # it is being written


def _refusal(home: Home) -> HomeBusyError:
    service = serving(home)
    if service is None:
        by = "another process"
    else:
        by = f"process {service.pid}" + (f" at {service.url}" if service.url else "")
    return HomeBusyError(
        f"The home at {home.root} is already served by {by}",
        hint="Run `nexus login` for its dashboard, or stop that process first.",
    )


def _file(home: Home) -> Path:
    return home.run / "serving"
