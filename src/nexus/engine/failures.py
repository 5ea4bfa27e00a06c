"""The databases' errors in our words."""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from nexus.engine.errors import EngineBusyError, EngineDamagedError, EngineFullError, EngineUnreachableError
from nexus.engine.settings import Settings

_DAMAGED = ("malformed", "not a database", "disk image")
_FULL = ("disk is full", "No space left", "could not extend file")


def is_full(error: BaseException) -> bool:
    """Whether the disk of a database has no room for what was to be written."""
    return isinstance(error, DBAPIError) and any(words in str(error.orig) for words in _FULL)


@contextmanager
def translated(settings: Settings) -> Generator[None]:
    """Raise what the surroundings did to a database as ours; a refused statement stays as it is."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig)
        place = _place(settings)
        if any(words in said for words in _DAMAGED):
            raise EngineDamagedError(
                f"The engine's database at {place} is damaged: {said}",
                hint="Run `nexus doctor`, then `nexus restore` with your newest backup.",
            ) from error
        if is_full(error):
            raise EngineFullError(
                f"Disk full: could not write to the engine's database at {place}",
                hint="Free disk space. No acknowledged work is lost.",
            ) from error
        if "locked" in said:
            raise EngineBusyError(
                f"The engine's database at {place} is locked by another process",
                hint="Find the process with `nexus status`, and stop it or wait.",
            ) from error
        if settings.file is None and (error.connection_invalidated or "connect" in said):
            raise EngineUnreachableError(
                f"Can't connect to the engine's database at {place}: {said.splitlines()[0]}",
                hint="Start it, or fix `[engine] database` in config.toml.",
            ) from error
        if "unable to open" in said or "readonly" in said:
            raise EngineUnreachableError(
                f"Can't open the engine's database at {place}: {said}",
                hint="Run `nexus doctor --fix` to check its permissions.",
            ) from error
        raise


def _place(settings: Settings) -> str:
    if settings.file is None:
        return make_url(str(settings.database)).render_as_string(hide_password=True)
    return str(settings.database)
