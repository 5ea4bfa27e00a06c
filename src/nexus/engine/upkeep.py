"""What a serving process does on the side: start what the clock asks for, tidy."""

import asyncio
import logging
import math
import time
from contextlib import suppress

from sqlalchemy.exc import SQLAlchemyError

from nexus.engine import forgetting, store
from nexus.engine.database import Database
from nexus.engine.schedules import Schedules
from nexus.engine.settings import Settings
from nexus.engine.wake import Wake

_log = logging.getLogger(__name__)
_LOOK_S = 10.0
# How soon after a look the next one may follow, however often something is recorded.
_PAUSE_S = 1.0
_SHORTEST_S = 0.25
_TIDY_EVERY_S = 30.0


class Upkeep:
    """A task that looks when something is due or was recorded, and now and then."""

    def __init__(self, database: Database, settings: Settings, wake: Wake) -> None:
        self._database = database
        self._settings = settings
        self._wake = wake
        self._schedules = Schedules(database, settings.version)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tidied_s = -_TIDY_EVERY_S
        self._latest_ms = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._go(), name="engine-upkeep")

    async def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._task is not None:
            await self._task

    async def _go(self) -> None:
        looked_s, due_s = -_PAUSE_S, 0.0
        while True:
            await self._wake.wait_for_upkeep(due_s - time.monotonic())
            with suppress(TimeoutError):
                pause_s = min(looked_s + _PAUSE_S, due_s) - time.monotonic()
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            if self._stopping.is_set():
                return
            looked_s = time.monotonic()
            wait_s = _PAUSE_S
            try:
                started, wait_s = await asyncio.to_thread(self._look)
                if started:
                    self._wake.set()
            except SQLAlchemyError as error:
                _log.warning("upkeep failed, and is tried again: %s", error)
            due_s = time.monotonic() + wait_s

    def _look(self) -> tuple[int, float]:
        """Start what is due; returns how much that was, and after how many seconds to look again."""
        started = self._schedules.start_due() + store.end_delays(self._database)
        if time.monotonic() - self._tidied_s >= _TIDY_EVERY_S:
            self._tidied_s = time.monotonic()
            self._set_back()
            started += store.set_back_delays(self._database)
            store.forget_ended_marks(self._database)
            forgetting.drop_step_results(self._database)
            forgetting.forget_old(self._database, self._settings.retention_days)
        following = [self._schedules.next_ms(), store.next_delayed_ms(self._database)]
        next_s = min((each for each in following if each is not None), default=math.inf) / 1000
        return started, min(max(next_s - time.time(), _SHORTEST_S), _LOOK_S)

    def _set_back(self) -> None:
        """Of many homes, look at every schedule only at the start and after the clock was set back."""
        now_ms = time.time_ns() // 1_000_000
        if not self._settings.scope_limit or now_ms < self._latest_ms or not self._latest_ms:
            self._schedules.set_back()
        self._latest_ms = now_ms
