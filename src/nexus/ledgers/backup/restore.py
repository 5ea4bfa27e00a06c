"""Bringing a backup back: checked before anything is touched, and again before it takes its place.

These functions wait for the disk: in a program with an event loop they belong on a thread.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus.config import LedgersConfig
from nexus.errors import CareError, NexusError
from nexus.home import LEDGERS, Home, HomeLock
from nexus.ledgers import attach, events, files, migrate, quarantine, reconcile, staging
from nexus.ledgers.backup import encryption
from nexus.ledgers.backup.copy import Progress
from nexus.ledgers.backup.manifest import (
    Manifest,
    engine_problems,
    ledger_problems,
    require_intact,
    require_sound,
)
from nexus.ledgers.connection import connect
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.forgetting.planning import Nothing
from nexus.ledgers.forgetting.receipts import Folder
from nexus.ledgers.forgetting.restoring import (
    OpenBeside,
    Returned,
    count_unreceipted,
    find_folder,
    remove_again,
)
from nexus.ledgers.ledgers import set_aside
from nexus.ledgers.quarantine import Held


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What was brought back, and where the content that it replaced is kept."""

    manifest: Manifest
    kept: Path | None
    held: tuple[Held, ...]
    """What waits for the owner's approval."""
    returned: tuple[Returned, ...] = ()
    """What was forgotten since the backup."""
    unreceipted: int = 0
    """How often the replaced home forgot something without a receipt since: that is back."""
    knows_receipts: bool = True
    """Whether a place was known where receipts would be."""


def restore(
    source: Path,
    home: Home,
    *,
    replace: bool = False,
    trust: bool = False,
    identity: Path | None = None,
    progress: Progress = lambda done, total: None,
    receipts: Path | None = None,
    bring_back: bool = False,
    open_beside: OpenBeside = lambda _: Nothing(),
) -> Restored:
    """Make a home's content what a backup holds. What was there is kept, and needs `replace`.

    Without `trust`, what could run arrives switched off. An encrypted backup needs the file of a private key.
    What was forgotten since is removed again, by the receipts of the home, those beside the backup, and those
    in the home or folder `receipts`; with `bring_back` it stays.
    """
    source = source.expanduser().resolve()
    if not source.is_file():
        Manifest.read(source)  # a wrong path is the first thing to say
    if staging.is_occupied(home) and not replace:
        raise CareError(
            f"{home.root} already exists",
            hint="Pass `--replace` to move it aside and restore the backup in its place, "
            "or restore elsewhere: `nexus --home PATH restore …`.",
        )
    with encryption.open_backup(source, home, identity) as folder, staging.stage(home) as place:
        manifest = require_intact(folder)
        _lay(folder, manifest, place, progress)
        _check_again(place, manifest)
        held = () if trust else quarantine.hold(place)
        sources = [Folder.of(home), Folder(folder / "receipts"), Folder.of(place)]
        if receipts is not None:
            sources.append(find_folder(receipts))
        returned = remove_again(
            place, sources, made_at=manifest.created_at, open_beside=open_beside, bring_back=bring_back
        )
        unreceipted = count_unreceipted(home, manifest.created_at)
        knows = home.ledger("runtime").is_file() or any(each.load() for each in sources)
        _announce(place, manifest)
        kept = staging.move_in(place, home)
        attach.ensure(home)
    return Restored(
        manifest=manifest,
        kept=kept,
        held=held,
        returned=tuple(returned),
        unreceipted=unreceipted,
        knows_receipts=knows,
    )


def _lay(source: Path, manifest: Manifest, place: Home, progress: Progress) -> None:
    done = 0
    for path, part in (manifest.databases | manifest.tree.files).items():
        copied = files.copy(source / path, place.root / path)
        if copied != (part.size_bytes, part.sha256):
            raise CareError(
                f"{source / path} changed during the copy",
                hint="Nothing changed. Make sure nothing writes to the backup, then try again.",
            )
        done += part.size_bytes
        progress(done, manifest.size_bytes)
    for directory in manifest.tree.directories:
        files.folder(place.root / directory)
    # Links come last: no file can have been written through one.
    for path, target in manifest.tree.links.items():
        (place.root / path).symlink_to(target)
    modes = {path: file.mode for path, file in manifest.tree.files.items()}
    files.permit(place.root, modes | manifest.tree.directories)


def _check_again(place: Home, manifest: Manifest) -> None:
    problems = [
        problem
        for name in LEDGERS
        for problem in ledger_problems(place.ledger(name), name, manifest.ledgers[name])
    ]
    if manifest.engine is not None:
        problems += engine_problems(place.engine_file)
    if problems:
        raise CareError(
            f"The restored data is damaged: {'; '.join(problems)}",
            hint="Nothing changed. The disk may be failing: check it first.",
        )


def _announce(place: Home, manifest: Manifest) -> None:
    path = place.ledger("events")
    connection = connect(path, "events", LedgersConfig(), writes=True)
    try:
        with translate_errors("events", path), connection:
            events.publish(
                connection,
                "home.restored",
                None,
                {"backup_created_at": manifest.created_at, "rows": manifest.rows},
            )
    finally:
        connection.close()
    files.sync_file(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Backup:
    """A backup of a home that still is where it was put."""

    folder: Path
    manifest: Manifest


def newest(home: Home) -> Backup | None:
    """Return the newest of the backups that were made of a home here and can be read."""
    found: list[Backup] = []
    for line in files.list_backups(home):
        with suppress(CareError, OSError):
            found.append(Backup(folder=Path(line), manifest=Manifest.read(Path(line))))
    return max(found, key=lambda backup: backup.manifest.created_at, default=None)


def restore_ledger(
    home: Home, name: str, backup: Backup, open_beside: OpenBeside = lambda _: Nothing()
) -> None:
    """Put the ledger of a backup into the place of one that is missing or damaged.

    What was forgotten since is removed again, once all ledgers are there.
    """
    path, part = home.ledger(name), backup.manifest.ledgers[name]
    arriving = path.with_name(f".{path.name}.restored")
    with HomeLock(home, "alone"):
        arriving.unlink(missing_ok=True)
        try:
            copied = files.copy(backup.folder / f"data/{name}.db", arriving)
            problems = ledger_problems(arriving, name, part)
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
    if all(home.ledger(each).is_file() and not _is_damaged(home, each) for each in LEDGERS):
        remove_again(home, [Folder.of(home)], made_at=backup.manifest.created_at, open_beside=open_beside)


def _is_damaged(home: Home, name: str) -> bool:
    try:
        require_sound(home.ledger(name), name)
    except NexusError:
        return True
    return False


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
