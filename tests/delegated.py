"""A real cgroup for a test, made where this user may."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexus import ids
from nexus.hosting import cgroups
from nexus.hosting.cgroups import CgroupError, Cgroups


@contextmanager
def delegated(*controllers: str) -> Generator[Path]:
    """An empty cgroup with those controllers; the test is skipped where none can be made."""
    try:
        own = cgroups.own()
    except CgroupError as error:
        pytest.skip(error.message)
    place = _above(own, set(controllers)) / ids.new("test")
    place.mkdir()
    try:
        yield place
    finally:
        # Everything in it, also what a failed test left, and then from the inside to the outside.
        everything = Cgroups(root=place, controllers=())
        for inner in (*place.glob("*/"), place):
            everything.remove(inner)


def _above(own: Path, controllers: set[str]) -> Path:
    for place in (own, *own.parents):
        processes = place / "cgroup.procs"
        if not processes.exists():
            break
        handed_down = set((place / "cgroup.subtree_control").read_text().split())
        if controllers <= handed_down and os.access(place, os.W_OK) and os.access(processes, os.W_OK):
            return place
    wanted = f" with {', '.join(sorted(controllers))}" if controllers else ""
    pytest.skip(f"no cgroup (v2){wanted} can be made here: none above {own} is delegated to this user")
