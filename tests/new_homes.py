"""Homes for tests that need one in another place than the fixture `home` has."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from nexus import ledgers
from nexus.engine.prepare import prepare_database
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.ledgers import attach


def new_home(root: Path) -> Home:
    """A complete, empty home."""
    home = Home(root)
    home.create_files()
    shutil.copytree(_ledgers(), home.data, dirs_exist_ok=True)
    attach.ensure(home)
    return home


def with_engine(home: Home) -> Home:
    """The home, with the database that its first start would make."""
    if home.data.is_dir() and not home.engine_file.exists():
        shutil.copy(_engine(), home.engine_file)
    return home


@cache
def _ledgers() -> Path:
    """The ledgers of an empty home: copying them is quicker than making them for every test."""
    home = Home(_folder())
    home.create_files()
    ledgers.create(home)
    return home.data


@cache
def _engine() -> Path:
    """The database of an engine without work, for the same reason."""
    file = _folder() / "engine.db"
    prepare_database(Settings(database=file)).close()
    return file


def _folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="nexus-new-home-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
