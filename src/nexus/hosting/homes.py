"""Making and removing the homes of a host."""

import shutil
from pathlib import Path

from nexus import hosted, ledgers
from nexus.engine import Settings
from nexus.engine.forgetting import remove_scope
from nexus.home import PRIVATE_FILE, Home
from nexus.hosting.registry import HostedHome, Registry
from nexus.ledgers import attach


def make(home: Home, settings: str | None) -> None:
    """Make the folder of a home, as `nexus init` does. Waits for the disk."""
    home.create_files()
    if settings is not None:
        home.config_file.write_text(settings, encoding="utf-8")
        home.config_file.chmod(PRIVATE_FILE)
    ledgers.create(home)
    attach.ensure(home)


def has_keys(home: Home) -> bool:
    """Whether a home has keys of its own, which no copy holds. Waits for the disk."""
    return home.secrets.is_dir() and any(home.secrets.iterdir())


def add(registry: Registry, name: str, settings_file: Path | None = None) -> HostedHome:
    """Make a home, as `nexus init` does, with the settings in a file. Waits for the disk.

    In a fleet the host that first opens it makes it.
    """
    return create(registry, name, settings_file and settings_file.read_text(encoding="utf-8"))


def create(registry: Registry, name: str, settings: str | None) -> HostedHome:
    """Make a home with those settings, as the text of its `config.toml`."""
    made = registry.add(name, settings)
    if registry.is_shared:
        return made
    home = registry.home(name)
    try:
        make(home, settings)
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
