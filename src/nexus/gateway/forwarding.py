"""Find the host that has a request's home, and pass the request on to it, streaming both ways.

A home changes its host while requests arrive. So a host that gets a request for a home it doesn't have says
so (421), and whoever passed it on looks again. A client sees an error only if no host has the home for longer
than `_PATIENCE_S`.

A request is sent again only if that can't do anything twice: it never reached a host, a host refused it as
not its own, or repeating it is harmless.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import httpcore
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from nexus.errors import NexusError
from nexus.gateway.errors import refusal, try_later
from nexus.gateway.guard import BodyLimits
from nexus.hosting.fleet.fleet import Fleet
from nexus.hosting.fleet.moves import choose_host
from nexus.hosting.fleet.records import FleetHost, FleetUnreachableError, HomeElsewhereError, Owner
from nexus.hosting.pool import Pool

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
Serve = Callable[[Scope, Receive, Send], Awaitable[None]]
_REMEMBERED_S: Final = 1.0
_REMEMBERED: Final = 4_096
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 0.5
_SAFE: Final = frozenset({"GET", "HEAD"})
_MESSAGES: Final = "/api/messages"
_CONNECT_S: Final = 2.0
_WRITE_S: Final = 60.0
# Less than the listener keeps an idle connection, so that none is used while it is being closed.
_KEEP_ALIVE_S: Final = 10.0
_KEPT_CONNECTIONS: Final = 64
_EVENT_STREAM: Final = b"text/event-stream"


def refuse_misdirected(message: str, hint: str) -> Response:
    """Refuse a request that is for another host. The forwarding host keeps this answer to itself."""
    refused = refusal(421, message, hint)
    refused.headers[MISDIRECTED] = "1"
    return refused


class NotSentError(Exception):
    """The request had no effect: no host took it."""


class UnknownOutcomeError(Exception):
    """The host went away after the request was sent, before it answered."""


class CutOffError(Exception):
    """The host went away in the middle of its answer."""


class Router:
    """Finds the host of each request's home."""

    def __init__(self, fleet: Fleet, pool: Pool, limits: BodyLimits) -> None:
        self._fleet = fleet
        self._pool = pool
        self._limits = limits
        self._forward = Forwarder(fleet.name)
        self._owners: dict[str, tuple[float, Owner]] = {}
        self._hosts: tuple[float, list[FleetHost]] = (-_REMEMBERED_S, [])

    async def close(self) -> None:
        await self._forward.close()

    async def __call__(self, home_id: str, scope: Scope, receive: Receive, send: Send, serve: Serve) -> None:
        """Answer a request for a home: with `serve` if the home is ours."""
        if FORWARDED_BY in Headers(scope=scope):
            try:
                await serve(scope, receive, send)
            except HomeElsewhereError as elsewhere:
                await refuse_misdirected(elsewhere.message, elsewhere.hint)(scope, receive, send)
            return
        refused = await self._try_hosts(home_id, scope, Body(receive, self._limits), send, serve)
        if refused is not None:
            await refused(scope, receive, send)

    async def _try_hosts(
        self, home_id: str, scope: Scope, body: "Body", send: Send, serve: Serve
    ) -> Response | None:
        """Have a host answer; returns why none could, or None."""
        until, pause_s = math.inf, _PAUSE_S
        while True:
            try:
                owner = await self._owner(home_id)
                if owner is None or owner.host == self._fleet.name:
                    await serve(scope, body.receiver(), _settle_on_answer(body, send))
                else:
                    key = self._fleet.registry.host_key(owner.host)
                    await self._forward(
                        owner.url, key, scope, body, send, partial(self._wait_until_lost, owner)
                    )
            except HomeElsewhereError as elsewhere:
                self._remember(home_id, elsewhere.owner)
            except NotSentError:
                self._owners.pop(home_id, None)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except UnknownOutcomeError:
                self._owners.pop(home_id, None)
                if not _is_harmless(scope):
                    return refusal(
                        502,
                        "The home's host went away before it answered",
                        "The request may have been carried out: look before you repeat it.",
                    )
            except FleetUnreachableError as error:
                return try_later(error.message)
            else:
                return None
            until = min(until, time.monotonic() + _PATIENCE_S)
            if not body.is_repeatable or time.monotonic() > until:
                return try_later("No host has this home at the moment")

    async def _owner(self, home_id: str) -> Owner | None:
        """Who has a home, or is to have it; None: it is open here, or whoever asks may take it."""
        if home_id in self._pool:
            return None
        at, known = self._owners.get(home_id, (0.0, None))
        if known is not None and time.monotonic() - at < _REMEMBERED_S:
            return known
        try:
            found = await asyncio.to_thread(self._fleet.registry.owner_of, home_id)
        except FleetUnreachableError:
            if known is None:
                raise
            return known
        if found is None or not found.is_alive:
            found = await self._place_home(home_id)
        if found is not None:
            self._remember(home_id, found)
        return found

    async def _place_home(self, home_id: str) -> Owner | None:
        """Give a home that no living host has to one with little load."""
        home = await asyncio.to_thread(self._fleet.registry.get, home_id)
        chosen = choose_host(await self._load_living_hosts(), schema=home.schema if home else 0)
        if chosen is None or chosen.name == self._fleet.name:
            return None
        try:
            await asyncio.to_thread(self._fleet.registry.place, home_id, chosen.name)
        except FleetUnreachableError:
            raise
        except NexusError:  # the host, or the home, is gone by now
            return None
        return Owner(host=chosen.name, url=chosen.url, is_alive=True)

    async def _load_living_hosts(self) -> list[FleetHost]:
        at, hosts = self._hosts
        if time.monotonic() - at >= _REMEMBERED_S:
            hosts = await asyncio.to_thread(self._fleet.registry.hosts)
            self._hosts = time.monotonic(), hosts
        return [each for each in hosts if each.is_alive]

    async def _wait_until_lost(self, owner: Owner) -> None:
        """Wait until a host's lease has ended: it may be frozen, so its connections say nothing."""
        while True:
            await asyncio.sleep(_REMEMBERED_S)
            try:
                living = await self._load_living_hosts()
            except FleetUnreachableError:
                continue
            if not any(each.name == owner.host for each in living):
                return

    def _remember(self, home_id: str, owner: Owner) -> None:
        if len(self._owners) >= _REMEMBERED:
            self._owners.clear()
        self._owners[home_id] = time.monotonic(), owner


def _settle_on_answer(body: "Body", send: Send) -> Send:
    """Once an answer has begun, the request isn't sent elsewhere."""

    async def sending(message: Message) -> None:
        body.settle()
        await send(message)

    return sending


def _is_harmless(scope: Scope) -> bool:
    """Whether a request may be carried out twice: it only reads, or its home recognizes it."""
    return scope["method"] in _SAFE or (
        scope["path"] == _MESSAGES and "idempotency-key" in Headers(scope=scope)
    )


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

    async def wait_for_client(self) -> None:
        """Wait until the client is gone, once it has sent everything."""
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
        leaving = asyncio.create_task(body.wait_for_client())
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
                    _make_target(url, scope),
                    headers=_make_headers(scope, self._name, key),
                    content=pieces if has_body else None,
                    extensions={"timeout": {"connect": _CONNECT_S, "pool": _CONNECT_S, "write": _WRITE_S}},
                ) as response:
                    if response.status == 421:
                        raise NotSentError
                    body.settle()
                    await answer.begin(response.status, list(_drop_hop_headers(response.headers)))
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
        kind = next((value for name, value in headers if name.lower() == b"content-type"), None)
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


def _make_target(url: str, scope: Scope) -> httpcore.URL:
    parts = urlsplit(url)
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return httpcore.URL(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port,
        target=path + (b"?" + query if query else b""),
    )


def _make_headers(scope: Scope, by: str, to: str) -> list[tuple[bytes, bytes]]:
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
    kept = [
        (name, value) for name, value in _drop_hop_headers(given.raw) if name.lower().decode() not in added
    ]
    return [*kept, *((name.encode(), value.encode("latin-1")) for name, value in added.items() if value)]


def _drop_hop_headers(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    """Without the headers that are for one connection only, including those that `Connection` names."""
    given = list(headers)
    dropped = set(_HOP_BY_HOP)
    for name, value in given:
        if name.lower() == b"connection":
            dropped |= {each.strip().lower() for each in value.decode("latin-1").split(",")} - {"host"}
    return [(name, value) for name, value in given if name.lower().decode("latin-1") not in dropped]
