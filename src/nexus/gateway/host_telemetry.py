"""Numbers of a host for Prometheus, and the traces of all its homes for a collector.

The numbers are totals, and of single homes only those that cost most today: a label for each home would
make as many series as there are homes. What one home did is in its own metrics.
"""

import asyncio
import heapq
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from nexus import __version__, clock
from nexus.engine import Engine, records
from nexus.gateway.dependencies import SERVED, Served
from nexus.gateway.metrics import Metrics, Observer
from nexus.gateway.spans import Exporter, Send
from nexus.home import LEDGERS
from nexus.hosting.host import Host
from nexus.hosting.pool import OpenHome
from nexus.ledgers.runtime import usage
from nexus.runs import MICRO

TOP: Final = 20
"""How many homes are named."""
_LOOK_S: Final = 0.5
_EXPORT_EVERY_S: Final = 5.0
_OPENING_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DELAY_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_STATES: Final = ("queued", "delayed", "running")
_log = logging.getLogger("nexus.host")
_T = TypeVar("_T")


class HostMetrics:
    """The numbers of one host. While the context lasts, the delay of the event loop is measured."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.http = Metrics(self._registry)
        self._opening = Histogram(
            "nexus_host_home_open_seconds",
            "How long opening a home took, from its folder or from its copy.",
            ("source",),
            buckets=_OPENING_S,
            registry=self._registry,
        )
        self._failures = Counter(
            "nexus_host_home_open_failures", "Homes that could not be opened.", registry=self._registry
        )
        self._delay = Histogram(
            "nexus_host_loop_delay_seconds",
            "How much later than it asked to be a timer of the event loop was called.",
            buckets=_DELAY_S,
            registry=self._registry,
        )
        for source in ("folder", "copy"):
            self._opening.labels(source)
        self.lease_age_s: Callable[[], float | None] = lambda: host.fleet and host.fleet.lease_age_s
        """Seconds since the host last renewed its lease; None without a fleet."""
        self._costs = _Costs()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure_delay(), name="host-metrics")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def count_opening(self, home: OpenHome, took_s: float, error: Exception | None) -> None:
        """Note how a home was opened. Before it closes, what it cost is read for the last time."""
        if error is not None:
            self._failures.inc()
            return
        self._opening.labels("copy" if home.is_brought_back else "folder").observe(took_s)
        home.on_close.push_async_callback(self._costs.read, [home])

    async def text(self) -> bytes:
        """Everything, as Prometheus reads it. What can't be found out for now is left out."""
        opened = self._host.pool.open_homes()
        await self._costs.read(opened)
        copies = self._host.pool.copies
        now = _Now(
            homes=await _or_none(asyncio.to_thread(self._host.registry.count)),
            open=len(opened),
            suspended=len(self._host.engine.suspended),
            lanes=await asyncio.to_thread(_lanes, self._host.engine),
            wal_bytes=await asyncio.to_thread(_wal_bytes, self._host, opened),
            disk_bytes=sum(each.size_bytes for each in opened),
            has_copies=copies is not None,
            copy_lag_s=None if copies is None else await _or_none(copies.lag_s()),
            lease_age_s=self.lease_age_s(),
            cost_usd=self._costs.total,
            top=self._costs.top(),
        )
        current = CollectorRegistry()
        current.register(now)
        return generate_latest(self._registry) + generate_latest(current)

    async def _measure_delay(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(_LOOK_S)
            self._delay.observe(max(0.0, time.perf_counter() - asked - _LOOK_S))


class HostObserver(Observer):
    """Counts an answer for the host, and for the home that gave it."""

    def count(self, scope: Scope, route: str, status: int, seconds: float) -> None:
        super().count(scope, route, status, seconds)
        served: Served | None = scope.get(SERVED)
        if served is not None:
            served.metrics.count_answer(scope["method"], route, status, seconds)


class _Costs:
    """What homes cost today (UTC), as they were last seen open."""

    def __init__(self) -> None:
        self._day = ""
        self._usd: dict[str, tuple[str, float]] = {}

    async def read(self, homes: Iterable[OpenHome]) -> None:
        day = clock.day(clock.now())
        if day != self._day:
            self._day = day
            self._usd.clear()
        for home in homes:
            try:
                spent = await home.app.ledgers.runtime.read(usage.since, day=day)
            except Exception:
                # It was closed meanwhile, and read before that, or its ledger is broken.
                _log.debug("the cost of a home was not read", exc_info=True)
                continue
            if spent.cost_microusd:
                self._usd[home.id] = home.name, spent.cost_microusd / MICRO

    @property
    def total(self) -> float:
        return sum(usd for _, usd in self._usd.values())

    def top(self) -> list[tuple[str, float]]:
        return heapq.nlargest(TOP, self._usd.values(), key=lambda each: each[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Now(Collector):
    """What is so at the moment."""

    homes: int | None
    open: int
    suspended: int
    lanes: list[dict[str, Any]]
    wal_bytes: int
    disk_bytes: int
    has_copies: bool
    copy_lag_s: float | None
    lease_age_s: float | None
    cost_usd: float
    top: list[tuple[str, float]]

    def collect(self) -> Iterator[Metric]:
        info = InfoMetricFamily("nexus_host", "The program.")
        info.add_metric((), {"version": __version__})
        yield info
        yield _gauge("registry_up", "Whether the list of homes can be read.", int(self.homes is not None))
        if self.homes is not None:
            yield _gauge("homes", "Homes in the list.", self.homes)
        yield _gauge("open_homes", "Homes that are open.", self.open)
        yield _gauge("suspended_homes", "Homes whose work waits: full, closing or broken.", self.suspended)
        work = GaugeMetricFamily(
            "nexus_host_work", "Executions that have not ended.", labels=("lane", "state")
        )
        oldest = GaugeMetricFamily(
            "nexus_host_oldest_work_seconds", "How long the oldest has waited to start.", labels=("lane",)
        )
        for lane in self.lanes:
            for state in _STATES:
                work.add_metric((lane["lane"], state), lane[state])
            since = lane["oldest_waits_since"]
            waited = (clock.now() - clock.parse(since)).total_seconds() if since else 0.0
            oldest.add_metric((lane["lane"],), max(0.0, waited))
        yield from (work, oldest)
        yield _gauge("wal_bytes", "Write-ahead logs of open homes, the engine and the list.", self.wal_bytes)
        yield _gauge("open_homes_disk_bytes", "Folders of open homes.", self.disk_bytes)
        if self.has_copies:
            yield _gauge("copies_up", "Whether Litestream answers.", int(self.copy_lag_s is not None))
        if self.copy_lag_s is not None:
            yield _gauge("copy_lag_seconds", "Age of the copy that is furthest behind.", self.copy_lag_s)
        if self.lease_age_s is not None:
            yield _gauge("lease_age_seconds", "Time since the lease was renewed.", self.lease_age_s)
        yield _gauge("cost_usd_today", "Cost of the day (UTC) of homes that this host opened.", self.cost_usd)
        top = GaugeMetricFamily(
            "nexus_host_home_cost_usd_today", f"The {TOP} homes that cost most today.", labels=("home",)
        )
        for name, usd in self.top:
            top.add_metric((name,), usd)
        yield top


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"nexus_host_{name}", about, value=value)


async def _or_none(finding: Awaitable[_T]) -> _T | None:
    """What is found out, or nothing where that fails: one number that is missing must not hide the others."""
    try:
        return await finding
    except Exception:
        _log.warning("a metric could not be read", exc_info=True)
        return None


def _lanes(engine: Engine) -> list[dict[str, Any]]:
    """What is in each lane, with zeros where nothing is: a series must not end because its lane is empty."""
    empty = {**dict.fromkeys(_STATES, 0), "oldest_waits_since": None}
    lanes = {lane.name: {"lane": lane.name, **empty} for lane in engine.settings.lanes}
    return list((lanes | {each["lane"]: each for each in records.queues(engine.database)}).values())


def _wal_bytes(host: Host, opened: Iterable[OpenHome]) -> int:
    root = host.registry.root
    files = [root / "engine.db", root / "host.db"]
    files += [home.app.home.ledger(name) for home in opened for name in LEDGERS]
    return sum(map(_size_of_log, files))


def _size_of_log(database: Path) -> int:
    try:
        return os.stat(f"{database}-wal").st_size  # noqa: PTH116 - a path for each would be most of the time
    except OSError:
        return 0


class HostExporter:
    """Exports from homes while they are open, and once more before they close."""

    def __init__(self, send: Send, host_name: str = "") -> None:
        self._send = send
        self._host_name = host_name or socket.gethostname()
        self._open: dict[str, tuple[Exporter, asyncio.Lock]] = {}
        self._is_taking = True
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="host-spans")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # To the end of what is being exported: where that is noted comes last, and it would be sent again.
        if self._task is not None:
            self._stopping.set()
            await self._task

    def add_home(self, home: OpenHome) -> None:
        """Export what ends in a home from now on, until it is closed."""
        about = {"service.instance.id": self._host_name, "nexus.home": home.id}
        exporter = Exporter(home.app.ledgers, self._send, about=about)
        self._open[home.id] = exporter, asyncio.Lock()
        home.on_close.push_async_callback(self._close, home.id)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _EXPORT_EVERY_S)
            for home_id in list(self._open):
                if self._stopping.is_set():
                    break
                await self._export(home_id)
                if not self._is_taking:
                    break

    async def _close(self, home_id: str) -> None:
        # Closing waits for no collector that is away: the home goes on from there when it is next opened.
        if self._is_taking:
            await self._export(home_id)
        _, using = self._open[home_id]
        async with using:
            del self._open[home_id]

    async def _export(self, home_id: str) -> None:
        exporter, using = self._open.get(home_id, (None, None))
        if exporter is None or using is None:
            return
        async with using:
            if home_id not in self._open:
                return
            try:
                await exporter.once()
                self._is_taking = not exporter.is_refused
            except Exception:
                self._is_taking = False
                _log.exception("traces could not be exported, and will be tried again")
