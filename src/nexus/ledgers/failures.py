"""SQLite's errors in our words."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from nexus.errors import LedgerBusyError, LedgerCorruptError, LedgerError, LedgerFullError

_NO_ROOM_BYTES = 64 * 1024


@contextmanager
def translated(ledger: str, path: Path) -> Generator[None]:
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
        raise LedgerCorruptError(
            f"The {ledger} ledger at {path} is damaged: {error}",
            hint="Run `nexus doctor`, then `nexus restore` with your newest backup.",
        ) from error
    except apsw.CantOpenError as error:
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


def _full(ledger: str, path: Path) -> LedgerFullError:
    return LedgerFullError(
        f"Disk full: could not write to the {ledger} ledger",
        hint=f"Free disk space for {path.parent}. No acknowledged write is lost.",
    )
