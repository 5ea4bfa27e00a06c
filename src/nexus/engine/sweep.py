"""Claiming work: one sweep takes what the lanes and the host still have room for."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from nexus.engine import interior
from nexus.engine.claims import Claimed, Claims, FairClaims, Shares
from nexus.engine.database import Database
from nexus.engine.interior import Interior
from nexus.engine.leases import Leases
from nexus.engine.settings import Lane, Settings
from nexus.engine.wake import Wake

_log = logging.getLogger(__name__)
# How often a sweep tries again at once after another worker was quicker.
_ATTEMPTS = 3
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
        leases: Leases,
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
        self._leases = leases
        leases.has_work = lambda: self._taken.total() > 0
        self._wake = wake
        self._settings = settings
        self._lanes = sorted(settings.lanes, key=lambda lane: lane.priority)
        self._taken: Counter[str] = Counter()
        self._claimants: dict[str, str] = {}
        """What was claimed and is about to begin, with the name that it was claimed under."""
        self._begun: Counter[tuple[str, str]] = Counter()
        """What has begun and has not ended, by that name and its id."""
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

    def begun(self, execution_id: str) -> str:
        """An execution begins; returns the name under which this process claimed it."""
        claimant = self._claimants.get(execution_id, "")
        self._begun[claimant, execution_id] += 1
        self._claimants.pop(execution_id, None)
        return claimant

    def released(self, lane: str, claimant: str, execution_id: str) -> None:
        """An execution of that lane has ended, and its end is recorded."""
        self._taken[lane] -= 1
        self._claims[lane].ended(execution_id)
        self._begun[claimant, execution_id] -= 1
        if not self._begun[claimant, execution_id]:
            del self._begun[claimant, execution_id]
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
        for lane in self._lanes:
            if lane.name not in waiting:
                continue
            room = min(lane.limit - self._taken[lane.name], self._settings.host_limit - self._taken.total())
            if room <= 0 or self._stopping or not self._leases.valid:
                continue
            claimed = await asyncio.to_thread(self._claim, lane, room)
            self._taken[lane.name] += claimed
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            await asyncio.to_thread(self._give_back_unbegun)

    def _look(self) -> set[str]:
        lanes, to_stop = interior.waiting(self._database, [lane.name for lane in self._lanes])
        if to_stop:
            self._stop_running(to_stop)
        return lanes

    def _claim(self, lane: Lane, room: int) -> int:
        for attempt in range(_ATTEMPTS):
            self._leases.use()
            executor_id = self._leases.executor_id
            try:
                claimed = self._claims[lane.name].take(executor_id, room)
            except IntegrityError:
                # Another worker took an item of one of these keys first, and the index refused ours.
                time.sleep(random.uniform(0.001, 0.01) * (attempt + 1))  # noqa: S311 - spreads retries only
                continue
            if claimed.ids and self._leases.held_by(executor_id):
                return self._start(self._claims[lane.name], claimed, executor_id)
            return 0
        self._wake.set_from_thread()
        return 0

    def _start(self, claims: Claims, claimed: Claimed, executor_id: str) -> int:
        self._claimants.update(dict.fromkeys(claimed.ids, executor_id))
        claims.began(claimed.ids)
        started: list[str] = []
        try:
            started = self._dbos.run(claimed.ids, claimed.owner)
        finally:
            for id_ in set(claimed.ids) - set(started):
                self._claimants.pop(id_, None)
                claims.ended(id_)
        return len(started)

    def _give_back_unbegun(self) -> None:
        """Give back what this process claimed and doesn't run, such as when the claim's answer was lost.

        A sweep does one thing after the other, so nothing is being claimed meanwhile.
        """
        executor_id = self._leases.executor_id
        for id_ in interior.running_of(self._database, executor_id):
            if self._claimants.get(id_) == executor_id or self._begun[executor_id, id_]:
                continue
            # Most of them have ended since the look, and are no longer there to be put back.
            if interior.put_back(self._database, id_, executor_id):
                _log.warning("%s was claimed and not begun: it goes back to its queue", id_)
                self._wake.set_from_thread()


def _claims(database: Database, lane: Lane, settings: Settings, shares: Shares) -> Claims:
    if not settings.scope_limit:
        return Claims(database, lane, settings.version)
    return FairClaims(database, lane, settings.version, settings.scope_limit, shares)
