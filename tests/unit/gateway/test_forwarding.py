"""Passing requests on to another host: real sockets on both sides, streaming both ways."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nexus import asgi
from nexus.gateway.forwarding import (
    Body,
    Forwarder,
    NotSentError,
    UnknownOutcomeError,
    refuse_misdirected,
)
from nexus.gateway.guard import BodyLimits
from nexus.gateway.listener import Listener

_LIMITS = BodyLimits(most_bytes=1_000_000, timeout_ms=60_000)
_PATIENCE_S = 60


async def never() -> None:
    await asyncio.Event().wait()


class Scene:
    """A host that forwards everything to one that a test writes."""

    def __init__(self) -> None:
        self.owner: ASGIApp = Response("nothing")
        self.url = ""
        self.lost: Callable[[], Awaitable[None]] = never
        self._forwarder = Forwarder("host-1")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[httpx.AsyncClient]:
        async def forwarding(scope: Scope, receive: Receive, send: Send) -> None:
            body = Body(receive, _LIMITS)
            try:
                await self._forwarder(self.url, "key of host-2", scope, body, send, self.lost)
            except (NotSentError, UnknownOutcomeError) as error:
                await Response(type(error).__name__, 503)(scope, receive, send)

        async def owning(scope: Scope, receive: Receive, send: Send) -> None:
            await self.owner(scope, receive, send)

        front, back = (asgi.listening("127.0.0.1", 0, backlog=16) for _ in range(2))
        with front, back:
            self.url = f"http://127.0.0.1:{back.getsockname()[1]}"
            async with Listener(owning, back), Listener(forwarding, front):
                address = f"http://127.0.0.1:{front.getsockname()[1]}"
                async with httpx.AsyncClient(base_url=address, timeout=_PATIENCE_S) as client:
                    yield client
                await self._forwarder.close()


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    async with scene.running() as client:
        yield client


async def test_the_other_host_sees_the_request_as_it_was_sent(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    async def owner(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        seen = {
            "path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "body": (await request.body()).decode(),
            **request.headers,
        }
        await Response(json.dumps(seen), 201, {"x-own": "yes", "connection": "x-own-hop", "x-own-hop": "1"})(
            scope, receive, send
        )

    scene.owner = owner
    answer = await client.put(
        "/a%2Fb/c?d=%20e",
        content=b"words",
        headers={"host": "ada.agents.example", "x-hop": "1", "connection": "x-hop", "te": "gzip"},
    )
    seen = answer.json()
    assert (answer.status_code, answer.headers["x-own"], "x-own-hop" in answer.headers) == (201, "yes", False)
    assert (seen["path"], seen["query"], seen["body"]) == ("/a%2Fb/c", "d=%20e", "words")
    assert seen["host"] == seen["x-forwarded-host"] == "ada.agents.example"
    assert (seen["nexus-forwarded-by"], seen["x-forwarded-for"]) == ("host-1", "127.0.0.1")
    assert seen["nexus-forwarded-to"] == "key of host-2"
    assert not {"x-hop", "te"} & seen.keys()


@pytest.mark.parametrize("status", [200, 204, 304])
async def test_answers_without_a_body_stay_so(scene: Scene, client: httpx.AsyncClient, status: int) -> None:
    scene.owner = Response(b"", status, {"etag": "1"})
    assert (await client.get("/")).status_code == status
    answer = await client.head("/")
    assert (answer.status_code, answer.headers["etag"]) == (status, "1")


async def test_events_arrive_while_the_stream_lasts(scene: Scene, client: httpx.AsyncClient) -> None:
    go_on = asyncio.Event()

    async def owner(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"data: 2\n\n", "more_body": False})

    scene.owner = owner
    async with client.stream("GET", "/stream") as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == "data: 1"
        go_on.set()
        assert [line async for line in lines if line] == ["data: 2"]


async def test_an_upload_passes_through_piece_by_piece(scene: Scene, client: httpx.AsyncClient) -> None:
    arrived = asyncio.Event()
    piece, count = b"x" * 65_536, 320

    async def owner(scope: Scope, receive: Receive, send: Send) -> None:
        digest = hashlib.sha256()
        async for part in Request(scope, receive).stream():
            digest.update(part)
            arrived.set()
        await Response(digest.hexdigest())(scope, receive, send)

    async def pieces() -> AsyncGenerator[bytes]:
        yield piece
        # The rest is sent only once the other host has the beginning.
        await arrived.wait()
        for _ in range(count - 1):
            yield piece

    scene.owner = owner
    answer = await client.post("/api/uploads", content=pieces())
    assert answer.text == hashlib.sha256(piece * count).hexdigest()


async def test_a_client_that_leaves_ends_the_request_at_the_other_host(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def owner(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    scene.owner = owner
    asking = asyncio.create_task(client.post("/api/messages", content=b"Hello"))
    await begun.wait()
    asking.cancel()
    async with asyncio.timeout(_PATIENCE_S):
        await left.wait()


async def test_a_client_that_leaves_in_the_middle_of_its_upload_ends_it_there(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def owner(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async for _ in Request(scope, receive).stream():
                begun.set()
        except ClientDisconnect:
            left.set()

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"x" * 1_000
        await asyncio.Event().wait()

    scene.owner = owner
    asking = asyncio.create_task(client.post("/api/uploads", content=pieces()))
    await begun.wait()
    asking.cancel()
    async with asyncio.timeout(_PATIENCE_S):
        await left.wait()


async def test_what_no_host_took_was_not_sent(scene: Scene, client: httpx.AsyncClient) -> None:
    # Also by another program that is at the host's address by now, such as a home of its own.
    for elsewhere in (refuse_misdirected("Elsewhere", "Ask there."), Response("Unknown host name", 421)):
        scene.owner = elsewhere
        assert (await client.post("/", content=b"Hello")).text == "NotSentError"
    scene.url = "http://127.0.0.1:1"
    assert (await client.post("/", content=b"Hello")).text == "NotSentError"


async def test_nobody_knows_what_became_of_a_request_whose_host_went_away(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    lost = asyncio.Event()

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        lost.set()
        await asyncio.Event().wait()

    async def loses() -> None:
        await lost.wait()

    scene.owner, scene.lost = silent, loses
    assert (await client.post("/", content=b"Hello")).text == "UnknownOutcomeError"


async def test_a_stream_whose_host_went_away_ends_and_other_answers_are_cut_off(
    scene: Scene, client: httpx.AsyncClient
) -> None:
    lost = asyncio.Event()

    def owner(kind: bytes) -> ASGIApp:
        async def answers(scope: Scope, receive: Receive, send: Send) -> None:
            headers = [(b"content-type", kind)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await asyncio.Event().wait()

        return answers

    async def loses() -> None:
        await lost.wait()

    scene.owner, scene.lost = owner(b"text/event-stream"), loses
    async with client.stream("GET", "/") as answer:
        pieces = answer.aiter_bytes()
        assert await anext(pieces) == b"begun"
        lost.set()
        assert [piece async for piece in pieces] == []
    scene.owner = owner(b"application/json")
    lost.clear()
    async with client.stream("GET", "/") as answer:
        pieces = answer.aiter_bytes()
        assert await anext(pieces) == b"begun"
        lost.set()
        with pytest.raises(httpx.RemoteProtocolError):
            assert [piece async for piece in pieces]


async def test_a_small_body_can_be_sent_again_from_its_beginning_and_a_large_one_not() -> None:
    sizes = iter([600_000, 300_000, 200_000])

    async def receive() -> dict[str, object]:
        size = next(sizes)
        return {"type": "http.request", "body": b"x" * size, "more_body": size != 200_000}

    body = Body(receive, _LIMITS)
    first = body.pieces()
    assert [len(await anext(first)), len(await anext(first))] == [600_000, 300_000]
    assert body.is_repeatable
    again = body.pieces()
    assert [len(piece) async for piece in again] == [600_000, 300_000, 200_000]
    assert not body.is_repeatable
