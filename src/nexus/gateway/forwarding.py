"""Pass a request on to the host that has its home, streaming both ways.

A request is sent again only if that can't do anything twice: it never reached a host, a host refused it as
not its own, or repeating it is harmless.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Final
from urllib.parse import urlsplit

import httpcore
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nexus.gateway.guard import BodyLimits
from nexus.gateway.refusals import refusal

FORWARDED_BY: Final = "nexus-forwarded-by"
"""The host that passed a request on. Whoever receives one with it never passes it on again."""
FORWARDED_TO: Final = "nexus-forwarded-to"
"""The host that a request is for, as only its fleet can name it: another one may listen there by now."""
MISDIRECTED: Final = "nexus-misdirected"
"""Marks the 421 of a host that was not meant, for hosts of an earlier version, which pass others on."""
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "expect"),
    }
)
_CONNECT_S: Final = 2.0
_WRITE_S: Final = 60.0
# Less than the listener keeps an idle connection, so that none is used while it is being closed.
_KEEP_ALIVE_S: Final = 10.0
_KEPT_CONNECTIONS: Final = 64
_EVENT_STREAM: Final = b"text/event-stream"


def misdirected(message: str, hint: str) -> Response:
    """The answer to a request that should go to another host, which the forwarding host keeps to itself."""
    refused = refusal(421, message, hint)
    refused.headers[MISDIRECTED] = "1"
    return refused


class NotSentError(Exception):
    """The request had no effect: no host took it."""


class UnknownOutcomeError(Exception):
    """The host went away after the request was sent, before it answered."""


class CutOffError(Exception):
    """The host went away in the middle of its answer."""


class Body:
    """The body of a request as it arrives, kept while it is small so that it can be sent again."""

    def __init__(self, receive: Receive, limits: BodyLimits) -> None:
        self._receive = receive
        self._limits = limits
        self._kept: list[bytes] = []
        self._bytes = 0
        self._complete = asyncio.Event()
        self.is_repeatable = True

    async def pieces(self, timeout_ms: int | None = None) -> AsyncGenerator[bytes]:
        """From its beginning; what hasn't arrived yet is waited for."""
        at = 0
        while True:
            while at < len(self._kept):
                yield self._kept[at]
                at += 1
            if self._complete.is_set():
                return
            piece = await self._next(timeout_ms)
            if self.is_repeatable:
                self._kept.append(piece)
            else:
                yield piece

    def receiver(self) -> Receive:
        """The body from its beginning, for an application in this process."""
        pieces = self.pieces()
        ended = False

        async def receive() -> Message:
            nonlocal ended
            if ended:
                return await self._receive()
            try:
                piece = await anext(pieces, None)
            except ClientDisconnect:
                ended = True
                return {"type": "http.disconnect"}
            ended = piece is None
            return {"type": "http.request", "body": piece or b"", "more_body": not ended}

        return receive

    def settle(self) -> None:
        """It won't be sent again."""
        self.is_repeatable = False

    async def client_left(self) -> None:
        """Until the client is gone, once it has sent everything."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _next(self, timeout_ms: int | None) -> bytes:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                message = await self._receive()
        except TimeoutError:
            raise ClientDisconnect from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if not message.get("more_body", False):
            self._complete.set()
        piece: bytes = message.get("body", b"")
        self._bytes += len(piece)
        if self._bytes > self._limits.most_bytes:
            self.is_repeatable = False
        return piece

    @property
    def timeout_ms(self) -> int:
        return self._limits.timeout_ms


class Forwarder:
    """The connections of a host to the others of its fleet."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=None,
            max_keepalive_connections=_KEPT_CONNECTIONS,
            keepalive_expiry=_KEEP_ALIVE_S,
        )

    async def close(self) -> None:
        await self._pool.aclose()

    async def __call__(
        self, url: str, key: str, scope: Scope, body: Body, send: Send, lost: Callable[[], Awaitable[None]]
    ) -> None:
        """Pass a request on and its answer back, until the client leaves or the host is `lost`.

        `key` is how the fleet names that host. Raises `NotSentError`, `UnknownOutcomeError` or, once the
        answer has begun, `CutOffError`.
        """
        answer = _Answer(send)
        sending = asyncio.create_task(self._exchange(url, key, scope, body, answer))
        leaving = asyncio.create_task(body.client_left())
        losing = asyncio.ensure_future(lost())
        tasks = (sending, leaving, losing)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done() and not leaving.done():
                raise UnknownOutcomeError
            if sending.done():
                sending.result()
        except ClientDisconnect:
            return
        except UnknownOutcomeError:
            if answer.has_begun:
                await answer.cut_off()
                return
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _exchange(self, url: str, key: str, scope: Scope, body: Body, answer: "_Answer") -> None:
        headers = Headers(scope=scope)
        has_body = "content-length" in headers or "transfer-encoding" in headers
        async with aclosing(body.pieces(body.timeout_ms)) as pieces:
            try:
                async with self._pool.stream(
                    scope["method"],
                    _target(url, scope),
                    headers=_passed_on(scope, self._name, key),
                    content=pieces if has_body else None,
                    extensions={"timeout": {"connect": _CONNECT_S, "pool": _CONNECT_S, "write": _WRITE_S}},
                ) as response:
                    if response.status == 421:
                        raise NotSentError
                    body.settle()
                    await answer.begin(response.status, list(_end_to_end(response.headers)))
                    async for piece in response.aiter_stream():
                        await answer.more(piece)
                    await answer.end()
            except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout):
                raise NotSentError from None
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException):
                raise UnknownOutcomeError from None


class _Answer:
    """What the client has been sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self._is_stream = False

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.has_begun = True
        kind = _named(headers, "content-type")
        self._is_stream = kind is not None and kind.startswith(_EVENT_STREAM)
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def cut_off(self) -> None:
        """Its host is gone. Clients resume a stream of events; anything else must not look complete."""
        if not self._is_stream:
            raise CutOffError
        await self.end()


def _target(url: str, scope: Scope) -> httpcore.URL:
    parts = urlsplit(url)
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return httpcore.URL(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port,
        target=path + (b"?" + query if query else b""),
    )


def _passed_on(scope: Scope, by: str, to: str) -> list[tuple[bytes, bytes]]:
    given = Headers(scope=scope)
    client = scope.get("client")
    came_from = [given["x-forwarded-for"]] if "x-forwarded-for" in given else []
    added = {
        FORWARDED_BY: by,
        FORWARDED_TO: to,
        "x-forwarded-for": ", ".join([*came_from, *([client[0]] if client else [])]),
        "x-forwarded-host": given.get("x-forwarded-host", given.get("host", "")),
        "x-forwarded-proto": given.get("x-forwarded-proto", scope.get("scheme", "http")),
    }
    kept = [(name, value) for name, value in _end_to_end(given.raw) if name.lower().decode() not in added]
    return [*kept, *((name.encode(), value.encode("latin-1")) for name, value in added.items() if value)]


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    """Without the headers that are for one connection only, including those that `Connection` names."""
    given = list(headers)
    dropped = set(_HOP_BY_HOP)
    for name, value in given:
        if name.lower() == b"connection":
            dropped |= {each.strip().lower() for each in value.decode("latin-1").split(",")} - {"host"}
    return [(name, value) for name, value in given if name.lower().decode("latin-1") not in dropped]


def _named(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> bytes | None:
    return next((value for name, value in headers if name.lower() == wanted.encode()), None)
