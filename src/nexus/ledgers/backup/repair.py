"""Replacing a lost ledger: by the one in the newest backup, by an empty one, or by one that is made again.

The damaged file is kept beside it. What the other ledgers know of what was said since the backup is put back
when the home is next served.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus.errors import CareError
from nexus.home import Home, HomeLock
from nexus.ledgers import files, migrate, reconcile
from nexus.ledgers.backup import verification
from nexus.ledgers.backup.manifest import Manifest
from nexus.ledgers.ledgers import set_aside


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """A backup of a home that still is where it was put."""

    folder: Path
    manifest: Manifest


def record(home: Home, folder: Path) -> None:
    """Remember where a backup was put."""
    known = [line for line in _recorded(home) if line != str(folder)]
    with suppress(OSError):  # the backup is whole without it
        lines = "".join(f"{line}\n" for line in [*known, folder])
        home.backups_file.write_text(lines, encoding="utf-8")


def newest(home: Home) -> Backup | None:
    """The newest of the backups that were made of a home here and can be read."""
    found: list[Backup] = []
    for line in _recorded(home):
        with suppress(CareError, OSError):
            found.append(Backup(folder=Path(line), manifest=Manifest.read(Path(line))))
    return max(found, key=lambda backup: backup.manifest.created_at, default=None)


def _recorded(home: Home) -> list[str]:
    try:
        return home.backups_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def restore_ledger(home: Home, name: str, backup: Backup) -> None:
    """Put the ledger of a backup into the place of one that is missing or damaged."""
    path, part = home.ledger(name), backup.manifest.ledgers[name]
    arriving = path.with_name(f".{path.name}.restored")
    with HomeLock(home, "alone"):
        arriving.unlink(missing_ok=True)
        try:
            copied = files.copy(backup.folder / f"data/{name}.db", arriving)
            problems = verification.ledger_problems(arriving, name, part)
            if copied != (part.size_bytes, part.sha256) or problems:
                raise CareError(
                    f"The backup in {backup.folder} is damaged: {'; '.join(problems) or path.name}",
                    hint="Nothing changed. Use another backup: `nexus restore --replace FOLDER`.",
                )
            set_aside(path)
            arriving.rename(path)
            files.sync_file(path.parent)
        finally:
            arriving.unlink(missing_ok=True)
        reconcile.mark(home)


def create_empty(home: Home, name: str) -> None:
    """Put an empty ledger into the place of one that is missing or damaged. What was in it is lost."""
    rebuild(home, name)
    reconcile.mark(home)


def rebuild(home: Home, name: str) -> None:
    """Make a new file for a ledger whose content comes from the others."""
    path = home.ledger(name)
    with HomeLock(home, "alone"):
        set_aside(path)
        migrate.create(path, name)
