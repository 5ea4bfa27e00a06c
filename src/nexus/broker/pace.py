"""Pace: a flood of messages is worked on a few at a time, and whoever talks to the agent directly goes first.

Two cores do the work of a hundred messages no sooner if they do it at once: then the first is answered as
late as the last. So a few are taken in side by side, in the order they came, and a few messages of channels
begin to be answered. While models think nothing is busy, so many answers are under way.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Final

_PLACES: Final = 4
"""How many messages are worked on side by side, of each kind and in each half of their way."""
_PASSING_S: Final = 1.0
"""For how long at most a message of a channel lets direct ones pass."""
_HELD_S: Final = 0.5
"""For how long one holds its place: it may be waiting for a model or a script, which keeps nothing busy."""


class Pace:
    """Of one process."""

    def __init__(self) -> None:
        self._ahead = 0
        self._clear = asyncio.Event()
        self._clear.set()
        self._direct = asyncio.Semaphore(_PLACES)
        self._indirect = asyncio.Semaphore(_PLACES)
        self._answered = asyncio.Semaphore(_PLACES)

    @asynccontextmanager
    async def reception(self, *, is_direct: bool) -> AsyncGenerator[None]:
        """Take a message in when it is its turn. Those of channels let direct ones pass."""
        if is_direct:
            async with self._place(self._direct):
                with self.ahead():
                    yield
        else:
            async with self._place(self._indirect, lets_pass=True):
                yield

    def answer(self) -> AbstractAsyncContextManager[None]:
        """Answer a message of a channel when it is its turn, and let direct ones pass."""
        return self._place(self._answered, lets_pass=True)

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

    async def let_pass(self) -> None:
        """Wait while somebody goes ahead, though not for long: for work that nobody waits for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PASSING_S):
                await self._clear.wait()

    @asynccontextmanager
    async def _place(self, places: asyncio.Semaphore, *, lets_pass: bool = False) -> AsyncGenerator[None]:
        """One of the places, in order; whoever needs it for long gives it up."""
        await places.acquire()
        timer: asyncio.TimerHandle | None = None
        held = True

        def give_up() -> None:
            nonlocal held
            if held:
                held = False
                places.release()

        try:
            if lets_pass:
                await self.let_pass()
            timer = asyncio.get_running_loop().call_later(_HELD_S, give_up)
            yield
        finally:
            if timer is not None:
                timer.cancel()
            give_up()
