"""What a simulated fleet consists of: its parameters, hosts, homes, messages, and the order of events."""

import heapq
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

DAY_S: Final = 86_400.0
SAMPLE_S: Final = 10.0
# Percent of a day's messages in each of its hours. The busiest is 20:00.
HOURS: Final = (1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 8, 10, 12, 5, 3, 1)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """One cell. Figures that were measured are filled in by bench/fleet_simulation.py."""

    hosts: int
    homes: int
    times: float = 1.0
    """How many such cells share the storage and Postgres."""
    # People.
    regular_share: float = 0.25
    regular_days: float = 0.9
    rare_days: float = 0.1
    visits_per_day: float = 20 / 3
    messages_per_visit: int = 3
    gap_s: float = 60.0
    model_s: float = 5.0
    # A host: one process, one core.
    turn_cpu_s: float = 0.069
    later_cpu_s: float = 0.245
    open_cpu_s: float = 0.112
    opens_at_once: int = 8
    most_open: int = 256
    idle_s: float = 60.0
    # Homes and their copies.
    size_mib: float = 254.0
    size_sigma: float = 1.0
    evict_after_days: int = 7
    restore_fixed_s: float = 0.5
    restore_mib_per_s: float = 100.0
    copy_mib_per_s: float = 50.0
    """A new owner accepts nothing until its own copy is complete."""
    reconcile_s_per_mib: float = 0.002
    storage_mib_per_s: float = 1_190.0
    # Leases.
    lease_s: float = 15.0
    watch_s: float = 3.75
    taken_at_once: int = 2
    jitter: bool = True
    """Hosts renew and look at moments of their own. Without it all do at multiples, for a case by hand."""
    # Postgres.
    message_ms: float = 0.4
    visit_ms: float = 5.0
    renew_ms: float = 0.8
    look_ms: float = 1.0
    postgres_cores: float = 8.0
    # What goes wrong, and upgrades.
    mtbf_days: float = 365.0
    repair_s: float = 1_800.0
    restart_s: float = 20.0
    drain_s: float = 600.0
    upgraded_at_once: int = 1
    drain_moves_closed: bool = False
    """As `nexus host drain` does. A host that is stopped and started keeps its closed homes."""


class Timeline:
    """What happens when, in order; at the same moment, in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = count()

    def at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._due, (max(time_s, self.now), next(self._number), action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + delay_s, action, *arguments)

    def run(self, until_s: float) -> None:
        while self._due and self._due[0][0] <= until_s:
            self.now, _, action, arguments = heapq.heappop(self._due)
            action(*arguments)
        self.now = until_s


class Slots:
    """So many at a time; the others wait in order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.busy = 0
        self.waiting: deque[Callable[[], None]] = deque()

    def take(self, then: Callable[[], None]) -> None:
        if self.busy < self.size:
            self.busy += 1
            then()
        else:
            self.waiting.append(then)

    def give(self) -> None:
        if self.waiting:
            self.waiting.popleft()()
        else:
            self.busy -= 1


@dataclass(eq=False, slots=True)
class Message:
    home: int
    arrived_s: float


@dataclass(eq=False, slots=True)
class Opened:
    """A home that a host has open, or is about to."""

    home: int
    host: "Host"
    asked_s: float
    lost_s: float | None
    waiting: list[Message]
    working: dict[int, Message] = field(default_factory=dict[int, Message])
    is_open: bool = False
    is_fetching: bool = False
    is_over: bool = False
    is_taken: bool = False
    """Opened by a host that looked for lost homes, not for a message."""
    used_s: float = 0.0


@dataclass(eq=False)
class Host:
    number: int
    opens: Slots
    beat_phase_s: float
    watch_phase_s: float
    is_alive: bool = True
    is_draining: bool = False
    is_watching: bool = False
    taking: int = 0
    disk: int = 0
    """Which disk it has: a home's folder is on the disk that it was written to."""
    lease_until_s: float = 0.0
    free_s: float = 0.0
    busy_s: float = 0.0
    opened: OrderedDict[int, Opened] = field(default_factory=OrderedDict[int, Opened])

    @property
    def takes_homes(self) -> bool:
        return self.is_alive and not self.is_draining


@dataclass
class Lost:
    """A home whose host died while it was open."""

    host: Host
    since_s: float
    messages: list[Message]


@dataclass
class Sample:
    """The cell at one moment. Shares are what was asked for since the last one, so they can exceed 1."""

    time_s: float
    open_homes: int
    fullest_host: int
    restoring: int
    waiting_to_open: int
    unanswered: int
    lost_homes: int
    processor: float
    """Of the busiest host."""
    storage: float
    postgres: float


@dataclass
class Seen:
    """What came out."""

    received: int = 0
    answered: int = 0
    failures: int = 0
    evicted: int = 0
    restores: int = 0
    waits_s: "array[float]" = field(default_factory=lambda: array("d"))
    """Of each answered message, in the order of answers: what it took beyond its turn and the model."""
    arrived_s: "array[float]" = field(default_factory=lambda: array("d"))
    takeovers_s: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """When a host died, and how long one of its open homes was away."""
    opens_s: "array[float]" = field(default_factory=lambda: array("d"))
    samples: list[Sample] = field(default_factory=list[Sample])
    upgrade_s: float = 0.0
