"""The sandbox of scripts, the one of agents' tools: for those registered with it, and for every trial.

A script sees the system's programs, installed Python packages, its own folder, its workspace and its
peers'. It sees nothing else of the home, and has no network.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from nexus import bubblewrap
from nexus.automations.scripts.script import Script
from nexus.bubblewrap import Grant, Spec
from nexus.home import Home

PYTHON: Final = os.path.realpath(sys.executable)
"""The interpreter itself: the link to it in a virtual environment leads through paths that are not inside."""
_TEMPORARY_BYTES: Final = 256 * 1024 * 1024


def describe_sandbox(home: Home, script: Script, writable: Iterable[Path]) -> dict[str, Any]:
    """Describe the sandbox to the process that starts a script.

    The home is hidden even if the script lies beside it. A Python script without a folder arrives through
    a pipe, so its directory, which may be the owner's own, isn't mounted.
    """
    own = script.folder or (script.path.parent if script.source is None else None)
    places = [path.resolve() for path in writable]
    readable = {*bubblewrap.python_folders(), *([own.resolve()] if own else [])}
    return {
        "readable": sorted(map(str, readable - set(places))),
        "writable": list(map(str, places)),
        "hidden": str(home.root.resolve()),
        "directory": str(places[0]) if places else "/tmp",  # noqa: S108 - the sandbox's own
        "cgroup": home.cgroup and str(home.cgroup),
    }


def enter_sandbox(asked: Mapping[str, Any], program: list[str]) -> None:
    """Become a program inside the sandbox. Never returns, but for an error."""
    spec = Spec(
        grants=(
            *(Grant(path=Path(path)) for path in asked["readable"]),
            *(Grant(path=Path(path), writable=True) for path in asked["writable"]),
        ),
        hidden=(Path(asked["hidden"]),),
        network=False,
        temporary_bytes=_TEMPORARY_BYTES,
        environment={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(bubblewrap.import_path()),
            "HOME": asked["directory"],
        },
        directory=Path(asked["directory"]),
        cgroup=Path(asked["cgroup"]) if asked["cgroup"] else None,
    )
    bubblewrap.join(spec)
    with bubblewrap.prepare(spec) as (held, opened):
        for descriptor in opened:
            os.set_inheritable(descriptor, True)
        bwrap = bubblewrap.find_program()
        os.execv(bwrap, [bwrap, "--args", str(held), "--", *program])  # noqa: S606 - no shell takes part
