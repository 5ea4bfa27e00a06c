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
                f"The disk is full: the engine's database at {place} could not keep this",
                hint="Free some space; nothing that was acknowledged is lost.",
            ) from error
        if "locked" in said:
            raise EngineBusyError(
                f"The engine's database at {place} is held by another process that does not finish",
                hint="See who uses it with `nexus status`, and wait for it or stop it.",
            ) from error
        if settings.is_postgres and (error.connection_invalidated or "connect" in said):
            raise EngineUnreachableError(
                f"The engine's database at {place} does not answer: {said.splitlines()[0]}",
                hint="Start it, or correct `[engine] database` in config.toml.",
            ) from error
        if "unable to open" in said or "readonly" in said:
            raise EngineUnreachableError(
                f"The engine's database at {place} cannot be used: {said}",
                hint="Run `nexus doctor --fix`: it checks that the file may be read and written.",
            ) from error
        raise


def _place(settings: Settings) -> str:
    if settings.is_postgres:
        return make_url(str(settings.database)).render_as_string(hide_password=True)
    return str(settings.database)
