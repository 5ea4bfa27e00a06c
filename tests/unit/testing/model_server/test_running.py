"""Starting, stopping, many at once, and leaving nothing behind."""

import asyncio
import gc
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI

from nexus.errors import UsageError
from nexus.testing import ModelServer, Pace, Stall, Turn

TEXT = "One of fifty answers that stream at the same time. " * 8


def _sockets() -> int:
    """How many sockets this process has open."""
    files = Path("/proc/self/fd")
    links: list[str] = []
    for file in files.iterdir():
        try:
            links.append(str(file.readlink()))
        except OSError:  # The directory's own descriptor is gone by now.
            continue
    return sum(link.startswith("socket:") for link in links)


def test_it_serves_a_blocking_client_from_its_own_thread() -> None:
    with ModelServer() as server, Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        server.script("Hello")
        message = client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        )
        assert message.stop_reason == "end_turn"
        server.wait_until(lambda: server.exchanges[0].answer.outcome == "complete")


async def _stream_claude(client: AsyncAnthropic, number: int) -> str:
    async with client.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": f"{number}"}]
    ) as stream:
        return "".join([text async for text in stream.text_stream])


async def _stream_gpt(client: AsyncOpenAI, number: int) -> str:
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": f"{number}"}], stream=True
    )
    return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


async def test_fifty_streams_at_once_get_each_their_own_answer(
    server: ModelServer, claude: AsyncAnthropic, gpt: AsyncOpenAI
) -> None:
    server.always(lambda request: Turn(f"{request.last_user}: {TEXT}", pace=Pace(between_ms=20)))
    asks = [_stream_claude(claude, n) if n % 2 else _stream_gpt(gpt, n) for n in range(50)]
    answers = await asyncio.gather(*asks)
    assert answers == [f"{n}: {TEXT}" for n in range(50)]
    assert all(exchange.answer.outcome == "complete" for exchange in server.exchanges)
    assert len(server.requests) == 50


async def test_all_fifty_are_open_at_the_same_time(server: ModelServer, gpt: AsyncOpenAI) -> None:
    server.always(lambda request: Turn(TEXT, faults=[Stall(ms=60_000, after_deltas=1)]))
    asks = [asyncio.create_task(_stream_gpt(gpt, n)) for n in range(50)]
    await server.until(
        lambda: sum(exchange.answer.status == 200 for exchange in server.exchanges) == 50, timeout_ms=30_000
    )
    for ask in asks:
        ask.cancel()
    await asyncio.gather(*asks, return_exceptions=True)
    await server.until(lambda: all(e.answer.outcome == "hung_up" for e in server.exchanges))


async def test_nothing_is_left_behind() -> None:
    gc.collect()
    threads, sockets, tasks = threading.enumerate(), _sockets(), asyncio.all_tasks()
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    async with ModelServer() as server:
        server.script("Hello", Turn(TEXT, faults=[Stall(ms=60_000)]))
        # The official clients start helper threads of their own, which would hide a thread of ours.
        async with httpx.AsyncClient(base_url=server.openai_url) as client:
            assert (await client.post("/chat/completions", json=body)).status_code == 200
            stalled = asyncio.create_task(client.post("/chat/completions", json=body))
            await server.until(lambda: len(server.exchanges) == 2 and server.exchanges[1].answer.status)
    await asyncio.gather(stalled, return_exceptions=True)
    # What an earlier test left may end meanwhile.
    assert set(threading.enumerate()) <= set(threads)
    assert asyncio.all_tasks() <= tasks
    gc.collect()
    assert _sockets() <= sockets


async def test_stopping_does_not_wait_for_a_stalled_answer() -> None:
    server = ModelServer()
    async with AsyncOpenAI(base_url="http://127.0.0.1:1", api_key="k", max_retries=0) as client:
        async with server:
            server.script(Turn(TEXT, faults=[Stall(ms=60_000)]))
            pointed = client.with_options(base_url=server.openai_url)
            stalled = asyncio.create_task(_stream_gpt(pointed, 1))
            await server.until(lambda: server.exchanges and server.exchanges[0].answer.status)
        with pytest.raises(openai.APIConnectionError):
            await stalled
    assert server.exchanges[0].answer.outcome == "hung_up"


async def test_stopped_and_started_again_it_has_its_port_script_and_records() -> None:
    server = ModelServer()
    async with server:
        server.script("one", "two")
        url = server.openai_url
        async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
            assert await _stream_gpt(client, 1) == "one"
    async with AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client:
        with pytest.raises(openai.APIConnectionError):
            await _stream_gpt(client, 1)
        async with server:
            assert server.openai_url == url
            assert await _stream_gpt(client, 2) == "two"
    assert len(server.requests) == 2


async def test_an_error_in_the_test_still_stops_the_server() -> None:
    with pytest.raises(ZeroDivisionError):
        async with ModelServer():
            raise ZeroDivisionError
    assert all(thread.name != "nexus-model-server" for thread in threading.enumerate())


def test_it_says_what_to_do_when_it_is_used_out_of_order() -> None:
    server = ModelServer()
    with pytest.raises(UsageError, match="no address yet"):
        _ = server.url
    with server, pytest.raises(UsageError, match="runs already"):
        server.start()
    server.stop()


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing() -> None:
    with ModelServer() as server:
        taken = ModelServer(port=int(server.url.rpartition(":")[2]))
        with pytest.raises(OSError, match="in use"):
            taken.start()
        taken.stop()


async def test_waiting_for_what_never_happens_ends_with_an_error(server: ModelServer) -> None:
    with pytest.raises(TimeoutError, match="20 ms"):
        server.wait_until(lambda: False, timeout_ms=20)
    with pytest.raises(TimeoutError, match="20 ms"):
        await server.until(lambda: False, timeout_ms=20)


async def test_an_answer_does_not_wait_for_acknowledgements(server: ModelServer) -> None:
    server.always("Hello")
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    async with httpx.AsyncClient(base_url=server.openai_url, timeout=60) as client:
        await client.post("/chat/completions", json=body)
        listener: Any = server._listener  # pyright: ignore[reportPrivateUsage]
        [connection] = listener._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        # Without it the kernel holds back each answer, for 40 ms or more.
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
