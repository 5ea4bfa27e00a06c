"""The gateway's socket: uvicorn, with limits on how long the head of a request may take to arrive."""

import asyncio
import logging
import resource
import socket
import time
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self, cast

import h11
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from nexus import asgi
from nexus.errors import GatewayError

PORT: Final = 7807
"""Taken unless another one is asked for; where it is in use, a free one."""
HEAD_S: Final = 10.0
_KEEP_ALIVE_S: Final = 30
_MOST_CONNECTIONS: Final = 1_000
_WANTED_DESCRIPTORS: Final = 16_384
# asyncio accepts as many in one go, before any of them can be turned away.
_BACKLOG: Final = 128
_WARN_EVERY_S: Final = 60.0
_GRACE_S: Final = 2.0
_CUT_S: Final = 3.0
_TIMEOUT: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

_log = logging.getLogger("nexus.gateway")


class Crowd:
    """The open connections of a listener, the longest silent first, and how many there may be.

    Descriptors are the whole program's: without a limit, anybody on this machine could use them up.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: dict[Impatient, None] = {}
        self._warned_at = -_WARN_EVERY_S

    def note(self, connection: "Impatient") -> None:
        """Note a connection that opened or sent something; where there are too many, close a silent one."""
        self._open.pop(connection, None)
        self._open[connection] = None
        if len(self._open) > self.most:
            self._drop(next((each for each in self._open if each.is_idle), connection))

    def remove(self, connection: "Impatient") -> None:
        self._open.pop(connection, None)

    def _drop(self, connection: "Impatient") -> None:
        self.remove(connection)
        connection.transport.abort()
        now = time.monotonic()
        if now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            _log.warning("too many connections: closing idle ones", extra={"most": self.most})


class Impatient(H11Protocol):
    """uvicorn waits for the head of a request for ever; this closes a connection that dawdles."""

    crowd = Crowd(_MOST_CONNECTIONS)
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        super().connection_made(transport)
        self._watch()
        self.crowd.note(self)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered on it."""
        # uvicorn's annotation leaves out that there is none before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()
        if not self.transport.is_closing():
            self.crowd.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forgo()
        self.crowd.remove(self)
        super().connection_lost(exc)

    def _watch(self) -> None:
        """The time begins with the first byte (or the connection) and ends with the head."""
        if self.conn.their_state is not h11.IDLE:
            self._forgo()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_S, self._expire)

    def _forgo(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TIMEOUT)
            self.transport.close()


class Listener:
    """Serves an application while the context lasts."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self._server = asgi.server(
            app,
            keep_alive_s=_KEEP_ALIVE_S,
            headers=False,
            protocol=type("Connection", (Impatient,), {"crowd": Crowd(most_connections())}),
            most_requests=2 * _MOST_CONNECTIONS,
            backlog=_BACKLOG,
        )
        self._socket = listening

    async def __aenter__(self) -> Self:
        await self._server.startup(sockets=[self._socket])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Accept no more, let what was accepted be answered, and cut off streams: they can be resumed."""
        left = await asgi.stop(self._server, grace_s=_GRACE_S, cut_s=_CUT_S)
        if left:
            _log.warning("some requests did not end when they were cancelled", extra={"requests": left})


def most_connections() -> int:
    """How many connections may be open: half of the descriptors, so that ledgers and tools have theirs."""
    return min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows it, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a socket; port 0 is the usual one, or a free one if that is taken."""
    try:
        return asgi.listening(host, port or PORT, backlog=_BACKLOG)
    except OSError as error:
        if port == 0:
            return asgi.listening(host, 0, backlog=_BACKLOG)
        raise GatewayError(
            f"Can't listen on {host}:{port}: {error.strerror}",
            hint="Choose another port with `nexus up --port NUMBER`, or `port` in [gateway] in config.toml.",
        ) from None


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def local_url(listening: socket.socket) -> str:
    """The URL by which clients of this machine reach a socket."""
    host, port = str(listening.getsockname()[0]), listening.getsockname()[1]
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - it is compared, not bound
    return f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"
