"""The active automations of a home by hook point, kept in memory.

Asking for them must cost next to nothing, because every stage of every request asks. A file is touched
whenever a registration changes, by whatever process; looking at its time tells whether to read again. A
change made with plain SQL touches nothing and is noticed within a second or two.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus import clock
from nexus.automations.context import Handler
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Circuit

_LOOK_AGAIN_S = 1.0
_NONE: tuple["Entry", ...] = ()


@dataclass(eq=False, slots=True)
class Entry:
    """One active automation, with its circuit as this process knows it."""

    automation: Automation
    handler: Handler | None = None
    """Its code, where that runs in this process."""
    trying: bool = False
    """Whether the one trial of a half-open circuit is under way."""

    def may_run(self, now: clock.Clock, cooldown_ms: int) -> bool:
        """Whether its circuit lets it run; an open one does after its cool-down, once."""
        automation = self.automation
        if automation.circuit_state == "closed":
            return True
        if self.trying:
            return False
        opened = automation.circuit_opened_at
        passed_ms = (now() - clock.parse(opened)).total_seconds() * 1000 if opened else cooldown_ms
        # One that opens in the future did so before the clock was set back.
        return automation.circuit_state == "half_open" or not 0 <= passed_ms < cooldown_ms


@dataclass(kw_only=True)
class Registry:
    """What is active, in the order in which it runs."""

    ledgers: Ledgers
    handlers: Mapping[str, Handler] = field(default_factory=dict[str, Handler])
    """Code that may run in this process, by the script path under which it is registered."""
    off: Mapping[str, str] = field(default_factory=dict[str, str])
    """Code that does not run in this process, by script path, and why."""
    _entries: dict[str, tuple[Entry, ...]] | None = field(default=None, init=False)
    _by_id: dict[str, Entry] = field(default_factory=dict[str, Entry], init=False)
    _touched_ns: int = field(default=-1, init=False)
    _read_at_s: float = field(default=0.0, init=False)
    _reading: asyncio.Task[None] | None = field(default=None, init=False)
    _turns: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._marker = str(marker_file(self.ledgers.home))

    def at(self, hook_point: str) -> tuple[Entry, ...] | None:
        """What runs at a hook point; None where it must be read first, with `load`."""
        entries = self._entries
        if entries is None or touched_ns(self._marker) != self._touched_ns:
            return None
        if time.monotonic() - self._read_at_s > _LOOK_AGAIN_S and self._reading is None:
            self._reading = asyncio.create_task(self._read_quietly())
        return entries.get(hook_point, _NONE)

    async def load(self, hook_point: str) -> tuple[Entry, ...]:
        """Read what is active, then say what runs at a hook point."""
        await self.read()
        assert self._entries is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return self._entries.get(hook_point, _NONE)

    async def read(self) -> None:
        """Read what is active."""
        # Again where a circuit opened or closed meanwhile: what was found may be from before.
        while True:
            touched, turns = touched_ns(self._marker), self._turns
            found = await self.ledgers.runtime.read(automations.list_current)
            if turns == self._turns:
                break
        entries: dict[str, list[Entry]] = {}
        before, self._by_id = self._by_id, {}
        for automation in found:
            if automation.status != "active" or automation.script_path in self.off:
                continue
            entry = before.get(automation.id) or Entry(automation)
            entry.automation = automation
            entry.handler = self.handlers.get(automation.script_path or "")
            self._by_id[automation.id] = entry
            entries.setdefault(automation.hook_point, []).append(entry)
        self._entries = {name: tuple(each) for name, each in entries.items()}
        self._touched_ns, self._read_at_s = touched, time.monotonic()

    async def version(self, automation_id: str) -> Entry | None:
        """What runs for an async invocation that was asked of a version: that, or the one that replaced it.

        None where it was disabled or removed.
        """
        if automation_id in self._by_id:
            return self._by_id[automation_id]
        found = await self.ledgers.runtime.read(automations.by_id, automation_id=automation_id)
        if found is None or found.status == "disabled":
            return None
        await self.read()
        return next((each for each in self._by_id.values() if each.automation.name == found.name), None)

    def get(self, automation_id: str) -> Entry | None:
        """One that is active, by its id."""
        return self._by_id.get(automation_id)

    def heed(self, circuits: list[Circuit]) -> None:
        """Take over how circuits stand after their invocations were recorded."""
        for circuit in circuits:
            entry = self._by_id.get(circuit.automation_id)
            if entry is None:
                continue
            self._turns += circuit.state != entry.automation.circuit_state or not circuit.active
            entry.trying = False
            entry.automation = replace(
                entry.automation,
                circuit_state=circuit.state,
                circuit_opened_at=circuit.opened_at,
                trigger_count=circuit.runs,
            )
            if not circuit.active:
                self._touched_ns = -1  # it ran once and is done: read again

    @property
    def has_scripts(self) -> bool:
        return any(entry.handler is None for entry in self._by_id.values())

    async def _read_quietly(self) -> None:
        try:
            await self.read()
        finally:
            self._reading = None


def marker_file(home: Home) -> Path:
    """The file whose time tells that a registration changed."""
    return home.state / "hooks" / ".changed"


def touch(home: Home) -> None:
    """Let every process know that a registration changed."""
    path = marker_file(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def touched_ns(path: str) -> int:
    """When a registration last changed, by the time of that file."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - at every hook point: Path costs more than the call
    except FileNotFoundError:
        return 0
