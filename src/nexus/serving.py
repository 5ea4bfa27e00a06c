"""Which process serves a home, and at which address. Only one does at a time.

It holds an advisory lock of the operating system on a file with its address, so the file of a killed process
is ignored.
"""

import fcntl
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from nexus import clock
from nexus.errors import GatewayError, HomeBusyError
from nexus.home import PRIVATE_FILE, Home

SILENCE_S: Final = 1.5
"""After this time without a response, a person is told."""
_PATIENCE_S: Final = 30.0
_PROMPT_S: Final = 1.0
_ANSWER_S: Final = 60.0
_STARTING: Final = timedelta(seconds=60)
_RECEIVE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A process that serves a home."""

    pid: int
    url: str
    """Empty while it is starting."""
    since: str

    @property
    def silence(self) -> str:
        """What to tell a person when it doesn't respond."""
        return f"{self._silence}. Waiting; press Ctrl-C to stop."

    @property
    def _silence(self) -> str:
        where = f" at {self.url}" if self.url else ""
        if self.since and not self.is_stopped and clock.now() - clock.parse(self.since) < _STARTING:
            return f"Nexus is still starting{where} (process {self.pid})"
        resume = f" (resume it: `kill -CONT {self.pid}`)" if self.is_stopped else ""
        verb = "is stopped" if resume else "doesn't respond"
        return f"Process {self.pid}, which serves this home{where}, {verb}{resume}"

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger stopped it; False where the system doesn't tell."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        return state.rpartition(")")[2].split()[0] in {"T", "t"}

    def get(self, path: str, token: str, notify: Callable[[str], None]) -> Any:
        """Fetch JSON without an HTTP library: importing one takes longer than the response.

        `notify` is told if it doesn't respond. Return None for any response but 200, or none:
        `Client` asks again and raises the error.
        """
        where = urlsplit(self.url)
        if where.scheme != "http":
            return None
        head = f"GET {path} HTTP/1.0\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
        with suppress(OSError, ValueError):
            address = (where.hostname or "", where.port or 80)
            with socket.create_connection(address, _PROMPT_S) as connection:
                connection.sendall(head.encode("ascii"))
                answer = bytearray()
                try:
                    answer += connection.recv(_RECEIVE_BYTES)
                except TimeoutError:
                    # It may be at work on the answer; one that is held up answers nothing at all.
                    try:
                        self._ask(_PROMPT_S)
                    except TimeoutError:
                        notify(self.silence)
                connection.settimeout(_ANSWER_S)
                while part := connection.recv(_RECEIVE_BYTES):
                    answer += part
            status, _, body = answer.partition(b"\r\n\r\n")
            return json.loads(body) if status.split()[1:2] == [b"200"] else None
        return None

    def check(self) -> None:
        """Raise an error if the process is stopped: it would handle the request when it is resumed."""
        if self.is_stopped:
            raise GatewayError(
                self._silence,
                hint=f"Or end it with `kill -9 {self.pid}` and start it again: accepted messages are kept.",
            )

    def await_response(self, notify: Callable[[str], None]) -> None:
        """Wait until the process responds, whatever it says. `notify` is told if that takes a while.

        It needs only a socket, so a command can do it before its slow imports. Errors are left to the next
        request.
        """
        self.check()
        with suppress(OSError):
            try:
                self._ask(SILENCE_S)
            except TimeoutError:
                notify(self.silence)
                self._ask(_PATIENCE_S)

    def _ask(self, timeout_s: float) -> None:
        address = urlsplit(self.url)
        if address.scheme != "http" or not address.hostname:
            return  # it is starting, or behind a proxy
        with socket.create_connection((address.hostname, address.port or 80), timeout_s) as connection:
            connection.sendall(f"HEAD / HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
            connection.recv(1)


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
            raise _busy_error(self._home) from None
        self._descriptor = descriptor
        self.tell("")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def tell(self, url: str) -> None:
        """Publish where the home is served."""
        service = {"pid": os.getpid(), "url": url, "since": clock.timestamp(clock.now())}
        text = json.dumps(service).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))


def serving(home: Home) -> Service | None:
    """Return the process that serves a home now, if any."""
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


def _busy_error(home: Home) -> HomeBusyError:
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
