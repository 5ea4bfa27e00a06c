"""The outbox of a home: its ledger holds what was accepted, and the engine gets it in time.

Work goes to the engine when it is accepted. What did not get there, because the engine's database was out of
reach, is handed over as soon as it is back; what another process left behind, now and then.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nexus.errors import NexusError
from nexus.watch import wait_at_most

_log = logging.getLogger(__name__)
_EVERY_S = 30.0
_AGAIN_S = 1.0


class Outbox:
    """A task that hands over what is late. Start it when a home is served."""

    def __init__(self, *deliveries: Callable[[], Awaitable[object]]) -> None:
        self._deliveries = deliveries
        self._late = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_delivering = False

    def late(self) -> None:
        """Something could not be handed over: try again soon."""
        self._late.set()

    @property
    def is_late(self) -> bool:
        """Whether something waits to be handed over."""
        return self._late.is_set() or self._is_delivering

    def start(self) -> None:
        self._task = asyncio.create_task(self._go(), name="outbox")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _go(self) -> None:
        while True:
            if await wait_at_most(self._late.wait(), _EVERY_S):
                # The engine was out of reach just now.
                await asyncio.sleep(_AGAIN_S)
            self._is_delivering = True
            self._late.clear()
            for deliver in self._deliveries:
                try:
                    await deliver()
                except NexusError as error:
                    _log.warning("the outbox is tried again: %s", error)
                    self._late.set()
            self._is_delivering = False
