"""Limits that the operating system does not keep for a whole sandbox.

Resource limits hold for one process each, and root is exempt from the one on processes. So a thread
of its own, which no busy event loop can delay, measures the sandbox's tree and ends it.
"""

import os
import re
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Reason = Literal["timeout", "output", "memory", "processes", "cpu", "unwatched"]

_MIB = 1024 * 1024
_LOOK_SECONDS = 0.025
# The kernel holds everyone but root to RLIMIT_NPROC. For root there is only this watch, so it goes
# before all else, glances at the host's number of tasks, and looks closely when that has jumped.
_GLANCE_SECONDS = 0.005
_OPEN_FILES = 1024
# Below the runtime, so that it stays responsive beside a sandbox that takes all it can get.
_NICENESS = 5
_FIRST_OUT_OF_MEMORY = "1000"
_THREADS = re.compile(rb"^Threads:\s+(\d+)", re.MULTILINE)
_RESIDENT = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
_PROPORTIONAL = re.compile(rb"^Pss_(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)
_AVAILABLE = re.compile(rb"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one run may use, all of its processes together unless said otherwise."""

    timeout_ms: int = 120_000
    memory_bytes: int = 1024 * _MIB
    # Standard output and standard error together.
    output_bytes: int = _MIB
    # Threads count too.
    processes: int = 256
    # Of each process.
    cpu_seconds: int = 120
    # /tmp and /dev/shm, each; both are memory.
    temporary_bytes: int = 128 * _MIB
    # The largest file that can be written.
    file_bytes: int = 256 * _MIB
    # A run ends when the host has less memory left than this, whoever used it.
    host_reserve_bytes: int = 256 * _MIB


def apply(pid: int, limits: Limits) -> None:
    """Set on a process what it hands down to all that it starts; raises OSError where it cannot."""
    for kind, soft, hard in (
        # Twice: stacks of threads and the like are reserved and never used. The watch counts use.
        (resource.RLIMIT_DATA, 2 * limits.memory_bytes, 2 * limits.memory_bytes),
        # One more than the watch allows, so that a bomb is ended and not only halted.
        (resource.RLIMIT_NPROC, limits.processes + 1, limits.processes + 1),
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _lower(pid, kind, soft, hard)
    os.setpriority(os.PRIO_PROCESS, pid, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, pid)))
    with suppress(OSError):  # an ordinary user may not always; the other limits stand without it
        Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_OUT_OF_MEMORY, encoding="ascii")


def _lower(pid: int, kind: int, soft: int, hard: int) -> None:
    _, present = resource.prlimit(pid, kind)
    most = hard if present == resource.RLIM_INFINITY else min(hard, present)
    resource.prlimit(pid, kind, (min(soft, most), most))


class Watchdog(threading.Thread):
    """Looks at the tree below one process until told to stop, and bites once."""

    def __init__(self, pid: int, limits: Limits, bite: Callable[[Reason], None]) -> None:
        super().__init__(name=f"sandbox-{pid}", daemon=True)
        self._pid = pid
        self._limits = limits
        self._bite = bite
        self._stop_asked = threading.Event()

    def stop(self) -> None:
        self._stop_asked.set()

    def run(self) -> None:
        exempt = os.geteuid() == 0
        if exempt:
            _go_first(0)
        try:
            reason = self._watch(glancing=exempt)
        except OSError:
            reason = "unwatched"  # what cannot be measured must not go on
        if reason is not None:
            self._bite(reason)
            if exempt:
                _go_first(self._pid)  # its end ends the others, so it must not wait behind them

    def _watch(self, *, glancing: bool) -> Reason | None:
        Path(f"/proc/self/task/{threading.get_native_id()}/children").stat()  # not every kernel has it
        pause = _GLANCE_SECONDS if glancing else _LOOK_SECONDS
        rounds, before = 0, _tasks_of_host()
        while not self._stop_asked.wait(pause):
            rounds += 1
            jumped = glancing and _tasks_of_host() - before > self._limits.processes // 2
            if glancing and not jumped and rounds % round(_LOOK_SECONDS / _GLANCE_SECONDS):
                continue
            reason = self._excess()
            if reason is not None:
                return reason
        return None

    def _excess(self) -> Reason | None:
        tasks = resident_bytes = 0
        for _, status in _tree(self._pid):
            tasks += sum(map(int, _THREADS.findall(status)))
            resident_bytes += _sum_kib(_RESIDENT, status)
            if tasks > self._limits.processes:
                return "processes"
        if resident_bytes > self._limits.memory_bytes and self._shares_bytes() > self._limits.memory_bytes:
            return "memory"
        return "memory" if _available_bytes() < self._limits.host_reserve_bytes else None

    def _shares_bytes(self) -> int:
        """What the tree uses, pages that several processes share counted once; slower to find out."""
        return sum(_share_bytes(pid, status) for pid, status in _tree(self._pid))


def _share_bytes(pid: int, status: bytes) -> int:
    try:
        return _sum_kib(_PROPORTIONAL, _read(f"/proc/{pid}/smaps_rollup"))
    except OSError:
        return _sum_kib(_RESIDENT, status)


def _sum_kib(pattern: re.Pattern[bytes], text: bytes) -> int:
    return sum(map(int, pattern.findall(text))) * 1024


def _tree(root: int) -> Iterator[tuple[int, bytes]]:
    """A process and all below it, with its status. Orphans hang below the sandbox's first process."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        # It may end at any moment, and is then no longer of interest.
        with suppress(FileNotFoundError, ProcessLookupError):
            yield pid, _read(f"/proc/{pid}/status")
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting.extend(map(int, _read(f"{task}/children").split()))


def _go_first(task: int) -> None:
    with suppress(OSError):  # root in a container may not
        os.sched_setscheduler(task, os.SCHED_RR, os.sched_param(1))


def _tasks_of_host() -> int:
    return int(_read("/proc/loadavg").split()[3].partition(b"/")[2])


def _available_bytes() -> int:
    return _sum_kib(_AVAILABLE, _read("/proc/meminfo"))


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123  unbuffered: one read gives one moment
        return stream.read()
