"""Pace: messages of channels begin to be answered only as fast as the process keeps up.

What comes in is on record and waits in its session's queue. So a flood of messages makes them wait longer,
and not whoever talks to the agent directly. While models think nothing is busy, so many answers are
under way.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_TICK_S: Final = 0.01
_MOST_LATE_S: Final = 0.005
"""How late the event loop may be for a tick while it keeps up."""
_LONGEST_S: Final = 0.25
"""The next run begins then at the latest: the machine may be busy with something else."""


class Pace:
    """Of one process."""

    def __init__(self) -> None:
        self._next = asyncio.Lock()
        self._ahead = 0

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Go ahead of what waits for its turn."""
        self._ahead += 1
        try:
            yield
        finally:
            self._ahead -= 1

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
