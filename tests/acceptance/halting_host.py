"""A real host whose takeovers stop after a step that the test names.

`python -m acceptance.halting_host FILE host serve …`. FILE is JSON: the step for a home by its id, or for any
home under `*`. A home stays there until FILE no longer says so; with `*` the process is frozen,
once. Each stop is a line in FILE.reached.
"""

import asyncio
import functools
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nexus import hosted
from nexus.cli import main
from nexus.engine import Settings
from nexus.hosting import host, pool
from nexus.hosting.fleet.fleet import Fleet
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.hosting.replication import Replicas
from nexus.ledgers import fencing


def _first(_self: object, home_id: str, *_: object, **_named: object) -> str:
    return home_id.partition("/")[0]


def _scope(settings: Settings) -> str:
    return settings.scope


def _place(home: Any, *_: object) -> str:
    found = hosted.place(home)
    assert found is not None
    return found.id


STEPS: dict[str, tuple[Any, str, Callable[..., str]]] = {
    "acquire": (Fleet, "acquire", _first),
    "forget the engine's work": (pool, "remove_scope", _scope),
    "bring back": (Replicas, "bring_back", _first),
    "record what it began with": (FleetRegistry, "note_epoch", _first),
    "stamp": (fencing, "stamp", _place),
    "copy": (Replicas, "follow", _first),
    "record the copy": (FleetRegistry, "note_copied", _first),
    "open": (FleetRegistry, "note_opened", _first),
    "read the copy back": (Replicas, "check", _first),
    "record the check": (FleetRegistry, "note_checked", _first),
    "drop older copies": (FleetRegistry, "note_dropped", _first),
}
"""Of a takeover, in their order: where each is, and how its home is found in the arguments."""


class Halts:
    """The stops in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def stop(self, step: str, home_id: str) -> None:
        """Stay here while a home is to; freeze the process where any is."""
        wanted = self._read()
        if wanted.get("*") == step:
            self._file.write_text("{}", encoding="utf-8")
            self._tell(home_id)
            os.kill(os.getpid(), signal.SIGSTOP)
        elif wanted.get(home_id) == step:
            self._tell(home_id)
            while self._read().get(home_id) == step:
                time.sleep(0.2)

    def _read(self) -> dict[str, str]:
        return json.loads(self._file.read_text(encoding="utf-8") or "{}")

    def _tell(self, home_id: str) -> None:
        with Path(f"{self._file}.reached").open("a", encoding="utf-8") as reached:
            reached.write(f"{home_id}\n")

    def wrap(self, step: str) -> None:
        owner, name, find_home = STEPS[step]
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*given: Any, **named: Any) -> Any:
            result = original(*given, **named)
            self.stop(step, find_home(*given, **named))
            return result

        @functools.wraps(original)
        async def call_async(*given: Any, **named: Any) -> Any:
            result = await original(*given, **named)
            await asyncio.to_thread(self.stop, step, find_home(*given, **named))
            return result

        setattr(owner, name, call_async if inspect.iscoroutinefunction(original) else call)


if __name__ == "__main__":
    halts = Halts(Path(sys.argv.pop(1)))
    for each in STEPS:
        halts.wrap(each)
    # A home that stays where it is must not hold up the others.
    for module, name in ((pool, "_OPENED_AT_ONCE"), (pool, "_CHECKED_AT_ONCE"), (host, "_TAKEN_AT_ONCE")):
        assert hasattr(module, name)
        setattr(module, name, 64)
    main()
