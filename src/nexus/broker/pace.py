"""Pace: a flood of messages is taken in a few at a time, and whoever talks to the agent directly goes first.

Two cores do the work of a hundred messages no sooner if they do it at once: then the first is answered as
late as the last. So a few are taken in side by side, in the order they came. Messages of channels also begin
to be answered only as fast as the process keeps up. While models think nothing is busy, so many answers are
under way.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

_TICK_S: Final = 0.01
_MOST_LATE_S: Final = 0.005
"""How late the event loop may be for a tick while it keeps up."""
_LONGEST_S: Final = 0.25
"""The next run begins then at the latest: the machine may be busy with something else."""
_DIRECT: Final = 4
_INDIRECT: Final = 4
"""How many messages are taken in side by side: those for the agent itself, those of channels."""
_PASSING_S: Final = 1.0
"""For how long at most a message of a channel lets direct ones pass."""
_HELD_S: Final = 0.5
"""For how long one holds its place: it may be waiting for a model or a script, which keeps nothing busy."""


class Pace:
    """Of one process."""

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._ahead = 0
        self._clear = asyncio.Event()
        self._clear.set()
        self._direct = asyncio.Semaphore(_DIRECT)
        self._indirect = asyncio.Semaphore(_INDIRECT)

    @asynccontextmanager
    async def reception(self, *, is_direct: bool) -> AsyncGenerator[None]:
        """Take a message in when it is its turn. Those of channels let direct ones pass."""
        if is_direct:
            async with _place(self._direct):
                with self.ahead():
                    yield
        else:
            async with _place(self._indirect):
                await self.let_pass()
                yield

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Go ahead of what waits for its turn."""
        self._ahead += 1
        self._clear.clear()
        try:
            yield
        finally:
            self._ahead -= 1
            if not self._ahead:
                self._clear.set()

    async def turn(self) -> None:
        """Wait until the process keeps up and nobody goes ahead; one after the other."""
        loop = asyncio.get_running_loop()
        async with self._next:
            began = before = loop.time()
            while before - began < _LONGEST_S:
                await asyncio.sleep(_TICK_S)
                now = loop.time()
                late_s, before = now - before - _TICK_S, now
                if late_s < _MOST_LATE_S and not self._ahead:
                    return

    async def let_pass(self) -> None:
        """Wait while somebody goes ahead, though not for long: for work that nobody waits for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PASSING_S):
                await self._clear.wait()


@asynccontextmanager
async def _place(places: asyncio.Semaphore) -> AsyncGenerator[None]:
    """One of the places, in order; whoever needs it for long gives it up."""
    await places.acquire()
    held = True

    def give_up() -> None:
        nonlocal held
        if held:
            held = False
            places.release()

    timer = asyncio.get_running_loop().call_later(_HELD_S, give_up)
    try:
        yield
    finally:
        timer.cancel()
        give_up()
