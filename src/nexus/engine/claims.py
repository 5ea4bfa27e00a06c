"""Taking work: woken by what was recorded, a sweep takes what the lanes and the host still have room for.

It takes the heads of some idle keys, at a cost that does not grow with how many keys wait.
DBOS's own claim visits every waiting key (185 ms at 10,000 of them). This one goes on from where the
last one stopped, visits a bounded number, and comes round to all of them in turn. Work that was begun
before and given back, after a crash or otherwise, comes before all: it has had its turn already.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from nexus.engine import store
from nexus.engine.database import CHANNEL, Database
from nexus.engine.dbos_runtime import DbosRuntime
from nexus.engine.settings import SEPARATOR, Lane, Settings
from nexus.watch import Watch, wait_at_most

_VISITS_MORE = 4
_HOMES_AT_ONCE = 128
_log = logging.getLogger(__name__)
# A sweep that cost much is followed by a pause, so that freed places are filled together.
_PAUSE_SHARE = 0.5
_PAUSE_MOST_S = 0.1
# After a claim that failed, it is looked at once what was claimed and doesn't run.
_LOOK_EVERY_S = 10.0
_RETRY_S = 1.0
_WATCH_PAUSE_S = 0.025
_RECONNECT_S = 1.0
_LISTEN_S = 10.0


class Wake:
    """Events that are set when a sweep, or the upkeep, may find something."""

    def __init__(self, database: Database, poll_ms: int) -> None:
        self._database = database
        self._poll_s = poll_ms / 1000
        self._event = asyncio.Event()
        self._upkeep = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._watch: Watch | None = None

    def start(self) -> None:
        """Begin to listen for what is recorded, here and by other processes."""
        if self._database.path is None:
            self._thread = threading.Thread(target=self._listen, name="engine-wake", daemon=True)
            self._thread.start()
        else:
            file = self._database.settings.owner_file
            self._watch = Watch([file], self.set, pause_s=_WATCH_PAUSE_S)
        self._database.on_notify = self.set_from_thread

    async def stop(self) -> None:
        self._stopping.set()
        self._database.on_notify = None
        if self._watch is not None:
            self._watch.close()
        if self._thread is not None:
            await self._loop.run_in_executor(None, self._end_listening, self._thread)

    def set(self) -> None:
        """From the loop's own thread."""
        self._event.set()
        self._upkeep.set()

    def set_from_thread(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to wake
            self._loop.call_soon_threadsafe(self.set)

    async def wait(self, least_s: float = 0.0) -> None:
        """Until somebody wakes us, or the slow poll is due; no sooner than `least_s`."""
        if least_s:
            await asyncio.sleep(least_s)
        await wait_at_most(self._event.wait(), self._poll_s)
        self._event.clear()

    async def wait_for_upkeep(self, most_s: float) -> None:
        """Until something was recorded, here or elsewhere, or the time is up."""
        await wait_at_most(self._upkeep.wait(), most_s)
        self._upkeep.clear()

    def _end_listening(self, thread: threading.Thread) -> None:
        with suppress(SQLAlchemyError), self._database.write() as connection:
            self._database.notify(connection)
        thread.join()

    def _listen(self) -> None:
        import psycopg

        url = self._database.url.replace("+psycopg", "")
        while not self._stopping.is_set():
            try:
                with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self.set_from_thread()
                    while not self._stopping.is_set():
                        for _ in connection.notifies(timeout=_LISTEN_S, stop_after=1):
                            self.set_from_thread()
            except psycopg.Error as error:
                _log.warning("listening for work was interrupted: %s", error)
                self._stopping.wait(_RECONNECT_S)


class Claimed(NamedTuple):
    """What was taken, and the token that owns it."""

    ids: list[str]
    owner: str


class Shares(NamedTuple):
    """What homes of a shared database get, where it is not what all get."""

    suspended: AbstractSet[str]
    limits: Mapping[str, int]


class Claims:
    """The claims in one lane. Homes that share the database take turns, whatever each has waiting.

    A turn is one execution. Of many homes each has at most `limit` of the lane under way, and one that is
    suspended has none. A home that has the database for itself is named by the empty text.
    """

    def __init__(self, database: Database, lane: Lane, limit: int = 0, shares: Shares | None = None) -> None:
        """`limit` 0: the database is one home's."""
        self._database = database
        self._lane = lane.name
        self._limit = limit
        self._shares = shares or Shares(frozenset(), {})
        self._home = ""
        """The home that had the last turn."""
        self._within: dict[str, str] = {}
        """Where the next visit to a home goes on, for homes that had more than they could begin."""
        self._counting = threading.Lock()
        self.running: Counter[str] = Counter()
        """How much of each home is under way here."""

    def take(self, executor_id: str, room: int) -> Claimed:
        """Take the heads of up to `room` idle keys; they are under way until `note_end`. Blocking."""
        owner = str(uuid.uuid4())
        heads = self._heads(room)
        taken = store.begin(self._database, heads, executor_id, owner) if heads else set[str]()
        with self._counting:
            self.running.update(map(self._home_of, taken))
        return Claimed([head for head in heads if head in taken], owner)

    def note_end(self, execution_id: str) -> None:
        """What was taken has ended, or could not begin."""
        home = self._home_of(execution_id)
        with self._counting:
            self.running[home] -= 1
            if not self.running[home]:
                del self.running[home]

    def _home_of(self, execution_id: str) -> str:
        return scope_of(execution_id) if self._limit else ""

    def _heads(self, room: int) -> list[str]:
        begun_before = store.find_begun_before(self._database, self._lane, room)
        heads = [head for head in begun_before.values() if self._home_of(head) not in self._shares.suspended]
        taken = Counter(map(self._home_of, heads))
        offers = self._offers(room - len(heads), taken, begun_before)
        while len(heads) < room and offers:
            for home in list(offers):
                if len(heads) == room:
                    break
                heads.append(offers[home].pop(0))
                self._home = home
                if not offers[home]:
                    del offers[home]
        return heads

    def _offers(self, room: int, taken: Counter[str], busy: Collection[str]) -> dict[str, list[str]]:
        """What each home could begin, the one whose turn it is first; of no more homes than there is room."""
        found: dict[str, list[str]] = {}
        for home in self._waiting_homes():
            if len(found) >= room:
                break
            free = room
            if self._limit:
                limit = self._shares.limits.get(home, self._limit)
                free = min(limit - self.running[home] - taken[home], room)
            if free <= 0 or home in self._shares.suspended or home in found:
                continue
            if offered := self._of_home(home, free, busy):
                found[home] = offered
        return found

    def _waiting_homes(self) -> Iterator[str]:
        """Every home with waiting work, once, from the one after the last that had a turn."""
        if not self._limit:
            yield ""
            return
        yield from self._homes_between(self._home, "")
        if self._home:
            yield from self._homes_between("", self._home)

    def _homes_between(self, after: str, last: str) -> Iterator[str]:
        while homes := store.scopes(self._database, self._lane, after, _HOMES_AT_ONCE):
            for home in homes:
                if last and home > last:
                    return
                yield home
            after = homes[-1]

    def _of_home(self, home: str, room: int, busy: Collection[str]) -> list[str]:
        """Heads of a home's idle keys; the next visit goes on after the last of them."""
        prefix = home + SEPARATOR if self._limit else ""
        # No more keys than that are busy, and visited in vain.
        visits = room + self.running[home] + len(busy) + _VISITS_MORE
        began = self._within.pop(home, prefix)
        heads, last = self._walk(prefix, began, visits, room, busy)
        if began != prefix and not last and len(heads) < room:
            more, last = self._walk(prefix, prefix, visits, room - len(heads), busy)
            heads += [head for head in more if head not in heads]
        if last:
            self._within[home] = last
        return heads

    def _walk(
        self, prefix: str, after: str, visits: int, room: int, busy: Collection[str]
    ) -> tuple[list[str], str]:
        """Heads after a key, and the last key that was visited; none after the last one that waits."""
        heads: list[str] = []
        visited = store.heads(self._database, self._lane, after, visits)
        for key, head in visited:
            if not key.startswith(prefix):
                return heads, ""
            if head is not None and key not in busy:
                heads.append(head)
            if len(heads) == room:
                return heads, key
        return heads, visited[-1][0] if len(visited) == visits else ""


def scope_of(stored_id: str) -> str:
    """The home that an execution belongs to."""
    return stored_id.partition(SEPARATOR)[0]


class Sweeper:
    """Sweeps when woken; knows how many executions run in each lane of this process."""

    def __init__(
        self,
        database: Database,
        dbos: DbosRuntime,
        executor_id: str,
        wake: Wake,
        settings: Settings,
        *,
        stop_running: Callable[[list[str]], None],
        shares: Shares,
    ) -> None:
        """`stop_running` is told, in a thread, which executions somebody wants stopped, wherever they run."""
        self._database = database
        limit = settings.scope_limit
        self._claims = {lane.name: Claims(database, lane, limit, shares) for lane in settings.lanes}
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
        self._stops_asked = False
        """Whether a stop is on record of something that may not have begun here yet."""
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

    def note_begun(self, execution_id: str) -> None:
        """An execution begins."""
        self._begun[execution_id] += 1
        self._claimed.discard(execution_id)
        if self._stops_asked:
            self._wake.set()

    def release(self, lane: str, execution_id: str) -> None:
        """An execution of that lane has ended, and its end is recorded."""
        self._taken[lane] -= 1
        self._claims[lane].note_end(execution_id)
        self._begun[execution_id] -= 1
        if not self._begun[execution_id]:
            del self._begun[execution_id]
        self._wake.set()

    async def wait_until_settled(self, timeout_s: float) -> None:
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
                self._looked_s = 0.0
                continue
            self._taken[lane.name] += claimed
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            await asyncio.to_thread(self._give_back_unbegun)
        if failure is not None:
            raise failure

    def _look(self) -> set[str]:
        lanes, to_stop = store.waiting(self._database, [lane.name for lane in self._lanes])
        self._stops_asked = bool(to_stop)
        if to_stop:
            self._stop_running(to_stop)
        return lanes

    def _claim(self, lane: Lane, room: int) -> int:
        claims = self._claims[lane.name]
        claimed = claims.take(self._executor_id, room)
        if not claimed.ids:
            return 0
        self._claimed.update(claimed.ids)
        started: list[str] = []
        try:
            started = self._dbos.run(claimed.ids, claimed.owner)
        finally:
            for id_ in set(claimed.ids) - set(started):
                self._claimed.discard(id_)
                claims.note_end(id_)
            if len(started) < len(claimed.ids):
                # Nothing ends that could not be started, so nothing else wakes the next of its session.
                self._wake.set_from_thread()
        return len(started)

    def _give_back_unbegun(self) -> None:
        """Give back what is recorded as running and doesn't run, such as when the claim's answer was lost.

        A sweep does one thing after the other, so nothing is being claimed meanwhile. A claim of the last
        owner may reach a Postgres only after this one has recovered.
        """
        for id_, executor_id in store.find_running(self._database):
            if id_ in self._claimed or self._begun[id_]:
                continue
            # Most of them have ended since the look, and are no longer there to be put back.
            if store.put_back(self._database, id_, executor_id):
                _log.warning("%s was claimed and not begun: it goes back to its queue", id_)
                self._wake.set_from_thread()
