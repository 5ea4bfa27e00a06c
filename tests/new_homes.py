"""Homes for tests that need one in another place than the fixture `home` has."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from nexus import ledgers
from nexus.home import Home
from nexus.ledgers import attach


def new_home(root: Path) -> Home:
    """A complete, empty home."""
    home = Home(root)
    home.create()
    shutil.copytree(_ledgers(), home.data, dirs_exist_ok=True)
    attach.ensure(home)
    return home


@cache
def _ledgers() -> Path:
    """The ledgers of an empty home: copying them is quicker than making them for every test."""
    root = Path(tempfile.mkdtemp(prefix="nexus-new-home-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    home = Home(root)
    home.create()
    ledgers.create(home)
    return home.data
