"""SQLite's errors in our words."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from nexus.errors import LedgerBusyError, LedgerCorruptError, LedgerError, LedgerFullError
from nexus.home import PRIVATE_FILE, Home

REBUILT: Final = "embeddings"
"""The ledger whose content is made again from the others."""
_NO_ROOM_BYTES = 64 * 1024


@contextmanager
def translate_errors(ledger: str, path: Path) -> Generator[None]:
    """Raise SQLite's environmental errors as ours; a refused statement stays apsw's own error."""
    try:
        yield
    except (apsw.BusyError, apsw.ProtocolError) as error:
        raise LedgerBusyError(
            f"The {ledger} ledger is locked by another process",
            hint="Find the process with `nexus status`; wait, or raise `busy_timeout_ms` in config.toml.",
        ) from error
    except apsw.FullError as error:
        raise _full(ledger, path) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        if ledger == REBUILT and Home(path.parent.parent).lock_file.exists():  # not in a backup
            with suppress(OSError):
                damage_note(path).touch(PRIVATE_FILE)
        raise LedgerCorruptError(
            f"The {ledger} ledger at {path} is damaged: {error}",
            hint=hint_of_damage(ledger),
        ) from error
    except apsw.CantOpenError as error:
        if not path.exists():
            raise LedgerError(f"{path} is missing", hint=hint_of_damage(ledger)) from error
        raise LedgerError(
            f"Can't open the {ledger} ledger at {path}: {error}",
            hint="Run `nexus doctor --fix` to check the file and its permissions.",
        ) from error
    except (apsw.IOError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        # On a full disk, SQLite cannot make its shared memory, and calls that an I/O error.
        if shutil.disk_usage(path.parent).free < _NO_ROOM_BYTES:
            raise _full(ledger, path) from error
        raise LedgerError(
            f"Can't write the {ledger} ledger at {path}: {error}",
            hint="Run `nexus doctor` to check permissions and the disk.",
        ) from error


def hint_of_damage(ledger: str) -> str:
    """Return what to do about a ledger that is missing or damaged."""
    if ledger == REBUILT:
        return "Restart `nexus up`, or run `nexus doctor --fix`: the file is rebuilt from the other ledgers."
    return "Run `nexus doctor`: it names the newest backup that `nexus doctor --fix` restores it from."


def damage_note(path: Path) -> Path:
    """Stands beside a ledger's file in which damage was met."""
    return path.with_name(f".{path.name}.damaged")


def _full(ledger: str, path: Path) -> LedgerFullError:
    return LedgerFullError(
        f"Disk full: could not write to the {ledger} ledger",
        hint=f"Free disk space for {path.parent}. No acknowledged write is lost.",
    )
