"""Real web servers on this machine, each with the behavior that a test needs."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Serve = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Answers one request, given its path, byte by byte if it wants to."""


@dataclass
class Site:
    """A server, and what was asked of it."""

    host: str
    port: int = 0
    requests: list[str] = field(default_factory=list[str])

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}:{self.port}{path}"


def answer(
    body: bytes,
    media_type: str = "text/plain",
    *,
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
) -> Serve:
    """A whole answer."""

    async def serve(path: str, writer: asyncio.StreamWriter) -> None:
        given = {"Content-Type": media_type, "Content-Length": str(len(body)), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        writer.write(f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    return serve


def redirect(location: str) -> Serve:
    return answer(b"", status="302 Found", headers={"Location": location})


@asynccontextmanager
async def site(serve: Serve, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[Site]:
    """A server of one behavior, which keeps what it was sent."""
    made = Site(host)
    handled: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handled.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            made.requests.append(head)
            await serve(head.split(" ", 2)[1], writer)
        writer.close()

    server = await asyncio.start_server(handle, host, port)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in filter(None, handled):
            task.cancel()
        await asyncio.gather(*filter(None, handled))
