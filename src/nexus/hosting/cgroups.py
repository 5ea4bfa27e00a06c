"""Cgroups (v2): what all sandboxes of a home may take together.

A host whose cgroup was delegated to it moves into a leaf of it and makes another one for each open home.
Everything here waits for the kernel, mostly for a moment: call it on a thread.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from nexus.errors import NexusError
from nexus.hosting.limits import MIB, Limits

CONTROLLERS: Final = ("cpu", "memory", "pids")
_LEAF: Final = "nexus"
_HOME: Final = "home-"
_PROCESSES: Final = "cgroup.procs"
# Of homes it is 100: however many compute, requests are answered.
_HOST_WEIGHT: Final = 10_000
_PERIOD_US: Final = 100_000
_END_S: Final = 5.0
_HINT: Final = (
    "Run the host alone in a delegated cgroup: as a systemd service with `Delegate=cpu memory pids`, "
    "or with `systemd-run --user --scope -p Delegate=yes nexus host serve …`."
)
_log = logging.getLogger("nexus.host")


class CgroupError(NexusError):
    """Processes of homes can't be put in cgroups."""


@dataclass(frozen=True, kw_only=True)
class Cgroups:
    """The cgroups of a host's homes."""

    root: Path
    """The delegated cgroup."""
    controllers: tuple[str, ...]
    """What can be limited."""

    def make(self, home_id: str, limits: Limits) -> Path:
        """A cgroup for a home that is being opened, with its limits."""
        place = self.root / f"{_HOME}{home_id}"
        try:
            place.mkdir(exist_ok=True)
            for file, value in _limit_values(limits):
                if file.partition(".")[0] in self.controllers:
                    with suppress(FileNotFoundError):  # `memory.swap.max`, on a kernel without swap
                        _write(place / file, value)
        except OSError as error:
            raise CgroupError(f"Can't make a cgroup for the home: {error}") from error
        return place

    def remove(self, place: Path) -> None:
        """End what is left in a cgroup, and delete it."""
        deadline = time.monotonic() + _END_S
        with suppress(OSError):
            _write(place / "cgroup.kill", "1")
        while True:
            try:
                place.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    _log.warning("a cgroup can't be deleted: %s", error)
                    return
                time.sleep(0.01)

    def tidy(self) -> None:
        """Remove what a killed host left behind."""
        for place in self.root.glob(f"{_HOME}*"):
            self.remove(place)


def own(proc: Path = Path("/proc/self")) -> Path:
    """The directory of this process's cgroup."""
    lines = (proc / "cgroup").read_text(encoding="utf-8").splitlines()
    inside = next((PurePosixPath(line[3:]) for line in lines if line.startswith("0::")), None)
    for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, kind = line.partition(" - ")
        root, at = mount.split(" ")[3:5]
        if kind.startswith("cgroup2 ") and inside is not None and inside.is_relative_to(root):
            return Path(at) / inside.relative_to(root)
    raise CgroupError("This system has no cgroups of version 2", hint=_HINT)


def take_over(place: Path) -> Cgroups:
    """Move this process into a leaf of its cgroup, so that limits can be set beside it.

    Raises CgroupError where the cgroup wasn't delegated, and changes nothing then.
    """
    try:
        if not (place / "cgroup.type").exists():
            raise CgroupError("The host runs in the root cgroup", hint=_HINT)
        offered = (place / "cgroup.controllers").read_text(encoding="ascii").split()
        if not set(CONTROLLERS) & set(offered):
            raise CgroupError("The host's cgroup has no controllers", hint=_HINT)
        if (place / _PROCESSES).read_text(encoding="ascii").split() != [str(os.getpid())]:
            raise CgroupError("The host shares its cgroup with other processes", hint=_HINT)
        taken = _divide(place, [each for each in CONTROLLERS if each in offered])
    except OSError as error:
        raise CgroupError(f"The host's cgroup isn't delegated to it: {error}", hint=_HINT) from error
    taken.tidy()
    return taken


def _divide(place: Path, wanted: list[str]) -> Cgroups:
    leaf = place / _LEAF
    leaf.mkdir(exist_ok=True)
    enabled: list[str] = []
    try:
        _write(leaf / _PROCESSES, str(os.getpid()))
        for each in wanted:
            with suppress(OSError):  # one may be refused to whom others are granted
                _write(place / "cgroup.subtree_control", f"+{each}")
                enabled.append(each)
        if not enabled:
            raise OSError("no controller can be enabled")
    except OSError:
        _write(place / _PROCESSES, str(os.getpid()))
        leaf.rmdir()
        raise
    if "cpu" in enabled:
        _write(leaf / "cpu.weight", str(_HOST_WEIGHT))
    return Cgroups(root=place, controllers=tuple(enabled))


def _limit_values(limits: Limits) -> Iterator[tuple[str, str]]:
    yield "memory.max", str(limits.memory_mib * MIB) if limits.memory_mib else "max"
    yield "memory.swap.max", "0" if limits.memory_mib else "max"
    yield "pids.max", str(limits.processes) if limits.processes else "max"
    yield "cpu.max", f"{round(limits.cpus * _PERIOD_US)} {_PERIOD_US}" if limits.cpus else "max"


def _write(file: Path, value: str) -> None:
    """Into a file that the kernel made: where there is none, none is made."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
