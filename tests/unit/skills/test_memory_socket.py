"""A memory socket answers whoever can reach its socket, refuses what is wrong, and closes in time."""

import asyncio
import os
from pathlib import Path

import pytest

from nexus.errors import HomeError, LedgerBusyError, UsageError
from nexus.skills import memory_socket
from nexus.skills.memory_socket import SOCKET, MemorySocket


async def answer(command: str, body: bytes) -> bytes:
    match command:
        case "echo":
            return body
        case "wrong":
            raise UsageError("That is wrong", hint="For example: this")
        case "busy":
            raise LedgerBusyError("Another process writes")
        case _:
            raise AssertionError(command)


async def ask(directory: Path, command: str, body: bytes = b"") -> tuple[int, bytes]:
    reader, writer = await asyncio.open_unix_connection(directory / SOCKET)
    head = f"POST /{command} HTTP/1.0\r\nHost: nexus\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    told = await reader.read()
    writer.close()
    head, _, content = told.partition(b"\r\n\r\n")
    return int(head.split()[1]), content


async def test_what_is_sent_is_answered(tmp_path: Path) -> None:
    body = os.urandom(300_000)
    async with MemorySocket(tmp_path, answer):
        assert await ask(tmp_path, "echo", body) == (200, body)
        assert await ask(tmp_path, "wrong") == (400, b"That is wrong\nFor example: this")
        assert await ask(tmp_path, "busy") == (409, b"Another process writes")
        assert (await ask(tmp_path, "echo/more"))[0] == 404


async def test_more_than_is_allowed_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_socket, "_LARGEST_BODY_BYTES", 1_000)
    async with MemorySocket(tmp_path, answer):
        assert (await ask(tmp_path, "echo", b"x" * 1_000))[0] == 200
        assert (await ask(tmp_path, "echo", b"x" * 1_001))[0] == 413


async def test_only_its_owner_can_reach_it(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "me"
    async with MemorySocket(directory, answer) as socket:
        assert directory.stat().st_mode & 0o777 == 0o700
        assert socket.path.stat().st_mode & 0o777 == 0o600


async def test_closing_waits_for_what_was_accepted_and_takes_no_more(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(command: str, body: bytes) -> bytes:
        begun.set()
        await asyncio.sleep(0.3)
        return b"late"

    async with MemorySocket(tmp_path, slow) as socket:
        asked = asyncio.create_task(ask(tmp_path, "slow"))
        await begun.wait()

    assert await asked == (200, b"late")
    assert not socket.path.exists()
    with pytest.raises(FileNotFoundError):
        await ask(tmp_path, "echo")


async def test_closing_does_not_wait_for_a_request_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_socket, "_GRACE_S", 0.2)
    async with asyncio.timeout(60), MemorySocket(tmp_path, answer):
        reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
        writer.write(b"POST /echo HTTP/1.0\r\nHost: nexus\r\nContent-Length: 10\r\n\r\nhalf")
        await asyncio.sleep(0.1)

    assert await reader.read() == b""
    writer.close()


async def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    async with MemorySocket(tmp_path, answer) as first:
        with pytest.raises(HomeError, match="is running already"):
            async with MemorySocket(tmp_path, answer):
                pass
        left = first.path.with_name("left")
        first.path.rename(left)
    left.rename(tmp_path / SOCKET)

    async with MemorySocket(tmp_path, answer):
        assert await ask(tmp_path, "echo", b"x") == (200, b"x")


async def test_two_doors_answer_each_for_itself(tmp_path: Path) -> None:
    async def other(command: str, body: bytes) -> bytes:
        return b"other"

    async with MemorySocket(tmp_path / "one", answer), MemorySocket(tmp_path / "two", other):
        assert await ask(tmp_path / "one", "echo", b"one") == (200, b"one")
        assert await ask(tmp_path / "two", "echo", b"one") == (200, b"other")
