"""The sandbox that a script runs in, where its registration says so: the one of agents' tools.

A script sees the system's programs, Python with what is installed, itself, its workspace and its peers'.
It sees nothing else of the home, and has no network.
"""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nexus.automations.scripts.script import Script
from nexus.broker.tools import bubblewrap
from nexus.broker.tools.bubblewrap import Grant, Spec

PYTHON: Final = os.path.realpath(sys.executable)
"""The interpreter itself: the link to it in a virtual environment leads through paths that are not inside."""
_SYSTEM: Final = Path("/usr")
_TEMPORARY_BYTES: Final = 256 * 1024 * 1024


def of_script(script: Script, writable: Iterable[Path], cgroup: Path | None = None) -> dict[str, Any]:
    """What is asked of the process that starts a script."""
    readable = {*_installed(), (script.folder or script.path.parent).resolve()}
    places = [path.resolve() for path in writable]
    return {
        "readable": sorted(map(str, readable - set(places))),
        "writable": list(map(str, places)),
        "whole": False,
        "directory": str(places[0]) if places else "/tmp",  # noqa: S108 - the sandbox's own
        "cgroup": cgroup and str(cgroup),
    }


def of_trial(folder: Path) -> dict[str, Any]:
    """Everything can be read, nothing written but one folder, and nobody reached."""
    place = folder.resolve()
    # What is installed may lie below the temporary directory, which is empty inside.
    return {
        "readable": sorted(map(str, _installed())),
        "writable": [str(place)],
        "whole": True,
        "directory": str(place),
        "cgroup": None,
    }


def enter(asked: Mapping[str, Any], program: list[str]) -> None:
    """Become a program inside the sandbox. Never returns, but for an error."""
    spec = Spec(
        grants=(
            *(Grant(path=Path(path)) for path in asked["readable"]),
            *(Grant(path=Path(path), writable=True) for path in asked["writable"]),
        ),
        hidden=(),
        network=False,
        temporary_bytes=_TEMPORARY_BYTES,
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(_import_path()), "HOME": asked["directory"]},
        directory=Path(asked["directory"]),
        whole=bool(asked["whole"]),
        cgroup=Path(asked["cgroup"]) if asked["cgroup"] else None,
    )
    bubblewrap.join(spec)
    with bubblewrap.prepared(spec) as (held, opened):
        for descriptor in opened:
            os.set_inheritable(descriptor, True)
        bwrap = bubblewrap.program()
        os.execv(bwrap, [bwrap, "--args", str(held), "--", *program])  # noqa: S606 - no shell takes part


def _installed() -> set[Path]:
    """Where Python and its packages lie, beside the system's own directories."""
    places = {Path(sys.base_prefix).resolve(), *map(Path, _import_path())}
    outer = {place for place in places if not place.is_relative_to(_SYSTEM)}
    return {
        place for place in outer if not any(place != each and place.is_relative_to(each) for each in outer)
    }


def _import_path() -> Iterator[str]:
    for entry in sys.path:
        place = Path(entry).resolve()
        if entry and place.is_dir() and place != Path(tempfile.gettempdir()).resolve():
            yield str(place)
