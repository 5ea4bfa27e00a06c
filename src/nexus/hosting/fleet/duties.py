"""What a host of a fleet does unasked: it opens homes whose owner is gone, hands over those that another host
is to have, and gives the owners what it holds of their homes.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, Protocol

from nexus.engine.shared import HomeAwayError
from nexus.errors import NexusError
from nexus.hosting.fleet import salvage
from nexus.hosting.fleet.fleet import Fleet
from nexus.hosting.pool import Pool

# Few: the other hosts take their share.
_TAKEN_AT_ONCE: Final = 2
_HANDED_OVER_AT_ONCE: Final = 8
_RETRY_S: Final = 60.0
_log = logging.getLogger("nexus.fleet")


class _Duty(Protocol):
    __name__: str

    def __call__(self) -> Awaitable[None]: ...


class Duties:
    """Runs until it is stopped; rests while the host is not in its fleet."""

    def __init__(self, fleet: Fleet, pool: Pool) -> None:
        self._fleet = fleet
        self._registry = fleet.registry
        self._pool = pool
        self._tasks: list[asyncio.Task[None]] = []
        self._swept = ""
        self._retry_at: dict[str, float] = {}
        """When to look at a folder again that could not be salvaged."""

    def start(self) -> None:
        duties = (self._take_over, self._hand_over, self._salvage)
        self._tasks = [asyncio.create_task(self._repeat(each), name=each.__name__) for each in duties]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, duty: _Duty) -> None:
        while True:
            try:
                if self._fleet.is_member:
                    await duty()
            except HomeAwayError as error:
                _log.info("%s: %s", duty.__name__, error)
            except Exception:
                _log.exception("%s failed", duty.__name__)
            await asyncio.sleep(self._fleet.look_s)

    async def _take_over(self) -> None:
        """Open homes with work: those of ours, and of hosts that are gone."""
        ours = await asyncio.to_thread(self._registry.left_open)
        await self._open([each for each in ours if each not in self._pool])
        while orphans := await asyncio.to_thread(self._registry.orphans, _TAKEN_AT_ONCE):
            if not await self._open(orphans):
                break

    async def _open(self, homes: list[str]) -> int:
        """Open homes, which hands over what they had accepted; returns how many it went well for."""
        room = asyncio.Semaphore(_TAKEN_AT_ONCE)

        async def open_(home_id: str) -> bool:
            async with room:
                with suppress(NexusError):  # it is told where the home is opened, and in the list of homes
                    async with self._pool.use(home_id, active=False):
                        return True
            return False

        return sum(await asyncio.gather(*map(open_, homes)))

    async def _hand_over(self) -> None:
        moving = await asyncio.to_thread(self._registry.wishes, _HANDED_OVER_AT_ONCE)
        await asyncio.gather(*map(self._pool.hand_over, moving))

    async def _salvage(self) -> None:
        incarnation = self._registry.incarnation
        if self._swept != incarnation:
            # While we were away others may have taken homes that have a folder here.
            lost = await asyncio.to_thread(salvage.lost_folders, self._registry)
            if all([await self._pool.set_aside(home) for home in lost]):
                self._swept = incarnation
        stale, copies = self._fleet.stale, self._pool.copies
        if copies is None or not stale.is_dir():
            return
        for folder in await asyncio.to_thread(lambda: sorted(stale.iterdir())):
            if time.monotonic() < self._retry_at.get(folder.name, 0.0):
                continue
            try:
                await salvage.salvage(self._registry, copies, folder)
            except HomeAwayError:
                raise
            except Exception as error:
                # The other folders don't wait for this one.
                self._retry_at[folder.name] = time.monotonic() + _RETRY_S
                problem = error.message if isinstance(error, NexusError) else type(error).__name__
                told = {"folder": folder.name}
                _log.warning("a folder stays: %s", problem, exc_info=error, extra=told)
