"""Who asks a server next: a server on this machine works on one request, or a few, at a time.

People come before their workers, and both before what works in the background. Whoever is being answered is
answered to the end.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count


@dataclass
class _Server:
    taken: int = 0
    waiting: list[tuple[int, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[int, int, asyncio.Future[None]]]
    )


class Slots:
    """The places of all providers of a home."""

    def __init__(self) -> None:
        self._servers: dict[str, _Server] = {}
        self._order = count()

    @asynccontextmanager
    async def taken(self, provider: str, most: int | None, priority: int) -> AsyncGenerator[None]:
        """A place, for as long as the context lasts. The lower the priority's number, the sooner."""
        server = self._servers.setdefault(provider, _Server())
        if most is not None and (server.taken >= most or server.waiting):
            await self._wait(server, priority, most)
        else:
            server.taken += 1
        try:
            yield
        finally:
            self._release(server)

    async def _wait(self, server: _Server, priority: int, most: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(server.waiting, (priority, next(self._order), turn))
        if server.taken < most:
            self._next(server)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(server)
            raise

    def _release(self, server: _Server) -> None:
        server.taken -= 1
        self._next(server)

    def _next(self, server: _Server) -> None:
        """Hand a place to whoever is first among those who still wait."""
        while server.waiting:
            _, _, turn = heapq.heappop(server.waiting)
            if not turn.done():
                server.taken += 1
                turn.set_result(None)
                return
