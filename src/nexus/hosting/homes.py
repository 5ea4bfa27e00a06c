"""Making and removing the homes of a host."""

import shutil
from pathlib import Path

from nexus import hosted, ledgers
from nexus.engine import Settings
from nexus.engine.removal import remove_scope
from nexus.hosting.registry import HostedHome, Registry
from nexus.ledgers import attach


def add(registry: Registry, name: str, settings_file: Path | None = None) -> HostedHome:
    """Make a home, as `nexus init` does, with the settings in a file. Waits for the disk."""
    made = registry.add(name)
    home = registry.home(name)
    try:
        home.create()
        if settings_file is not None:
            shutil.copyfile(settings_file, home.config_file)
            home.config_file.chmod(0o600)
        ledgers.create(home)
        attach.ensure(home)
        hosted.settle(home, hosted.Place.of(registry.root, made.id))
    except BaseException:
        registry.remove(made.id)
        raise
    return made


def remove(registry: Registry, found: HostedHome) -> None:
    """Delete a home with everything in it, its tokens and its work. Waits for the disk."""
    engine = hosted.Place.of(registry.root, found.id).engine
    # First: without a token nobody comes in, and without a row nothing opens it.
    registry.remove(found.id)
    remove_scope(Settings(database=engine, scope=found.id))
    shutil.rmtree(registry.home(found.name).root, ignore_errors=True)
