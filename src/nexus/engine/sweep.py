"""Claiming work: one sweep takes what the lanes and the host still have room for."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from nexus.engine import store
from nexus.engine.claims import Claims, FairClaims, Shares
from nexus.engine.database import Database
from nexus.engine.interior import Interior
from nexus.engine.settings import Lane, Settings
from nexus.engine.wake import Wake

_log = logging.getLogger(__name__)
# A sweep that cost much is followed by a pause, so that freed places are filled together.
_PAUSE_SHARE = 0.5
_PAUSE_MOST_S = 0.1
_LOOK_EVERY_S = 1.0
_RETRY_S = 1.0


class Sweeper:
    """Sweeps when woken; knows how many executions run in each lane of this process."""

    def __init__(
        self,
        database: Database,
        dbos: Interior,
        executor_id: str,
        wake: Wake,
        settings: Settings,
        *,
        stop_running: Callable[[list[str]], None],
        shares: Shares,
    ) -> None:
        """`stop_running` is told, in a thread, which executions somebody wants stopped, wherever they run."""
        self._database = database
        self._claims = {lane.name: _claims(database, lane, settings, shares) for lane in settings.lanes}
        self._dbos = dbos
        self._executor_id = executor_id
        self._wake = wake
        self._settings = settings
        self._lanes = sorted(settings.lanes, key=lambda lane: lane.priority)
        self._taken: Counter[str] = Counter()
        self._claimed: set[str] = set()
        """What was claimed and is about to begin."""
        self._begun: Counter[str] = Counter()
        """What has begun and has not ended: twice, where it was put back and its first code still ends."""
        self._looked_s = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._stop_running = stop_running

    def start(self) -> None:
        self._task = asyncio.create_task(self._go(), name="engine-sweep")

    async def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    def begun(self, execution_id: str) -> None:
        """An execution begins."""
        self._begun[execution_id] += 1
        self._claimed.discard(execution_id)

    def released(self, lane: str, execution_id: str) -> None:
        """An execution of that lane has ended, and its end is recorded."""
        self._taken[lane] -= 1
        self._claims[lane].ended(execution_id)
        self._begun[execution_id] -= 1
        if not self._begun[execution_id]:
            del self._begun[execution_id]
        self._wake.set()

    async def settled(self, timeout_s: float) -> None:
        """Until the end of everything that was claimed is recorded, or the time is up."""
        deadline = time.monotonic() + timeout_s
        while self._taken.total() > 0 and time.monotonic() < deadline:  # noqa: ASYNC110 - once, at the stop
            await asyncio.sleep(0.01)

    async def _go(self) -> None:
        pause_s = 0.0
        while not self._stopping:
            await self._wake.wait(pause_s)
            begun = time.monotonic()
            try:
                await self._sweep()
            except (SQLAlchemyError, OSError) as error:
                _log.warning("a sweep failed, the next one tries again: %s", error)
                pause_s = _RETRY_S
                self._wake.set()
            else:
                pause_s = min((time.monotonic() - begun) * _PAUSE_SHARE, _PAUSE_MOST_S)

    async def _sweep(self) -> None:
        waiting = await asyncio.to_thread(self._look)
        failure: SQLAlchemyError | None = None
        for lane in self._lanes:
            if lane.name not in waiting:
                continue
            room = min(lane.limit - self._taken[lane.name], self._settings.host_limit - self._taken.total())
            if room <= 0 or self._stopping:
                continue
            try:
                claimed = await asyncio.to_thread(self._claim, lane, room)
            except SQLAlchemyError as error:
                failure = error  # The other lanes go on.
                continue
            self._taken[lane.name] += claimed
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            await asyncio.to_thread(self._give_back_unbegun)
        if failure is not None:
            raise failure

    def _look(self) -> set[str]:
        lanes, to_stop = store.waiting(self._database, [lane.name for lane in self._lanes])
        if to_stop:
            self._stop_running(to_stop)
        return lanes

    def _claim(self, lane: Lane, room: int) -> int:
        claims = self._claims[lane.name]
        claimed = claims.take(self._executor_id, room)
        if not claimed.ids:
            return 0
        self._claimed.update(claimed.ids)
        claims.began(claimed.ids)
        started: list[str] = []
        try:
            started = self._dbos.run(claimed.ids, claimed.owner)
        finally:
            for id_ in set(claimed.ids) - set(started):
                self._claimed.discard(id_)
                claims.ended(id_)
        return len(started)

    def _give_back_unbegun(self) -> None:
        """Give back what is recorded as running and doesn't run, such as when the claim's answer was lost.

        A sweep does one thing after the other, so nothing is being claimed meanwhile. A claim of the last
        owner may reach a Postgres only after this one has recovered.
        """
        for id_, executor_id in store.running(self._database):
            if id_ in self._claimed or self._begun[id_]:
                continue
            # Most of them have ended since the look, and are no longer there to be put back.
            if store.put_back(self._database, id_, executor_id):
                _log.warning("%s was claimed and not begun: it goes back to its queue", id_)
                self._wake.set_from_thread()


def _claims(database: Database, lane: Lane, settings: Settings, shares: Shares) -> Claims:
    if not settings.scope_limit:
        return Claims(database, lane)
    return FairClaims(database, lane, settings.scope_limit, shares)
