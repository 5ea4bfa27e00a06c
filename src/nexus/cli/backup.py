"""`nexus backup` and `nexus restore`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from nexus import config
from nexus.cli.display import show_progress
from nexus.cli.place import format_size, json_option, locate_home, print_json
from nexus.config import EngineConfig
from nexus.errors import CareError, ConfigError
from nexus.home import Home
from nexus.ledgers import backup as care
from nexus.ledgers.backup import Manifest
from nexus.ledgers.forgetting import Beside, Nothing
from nexus.ledgers.forgetting.restoring import Returned
from nexus.ledgers.quarantine import Held
from nexus.text import pluralize

_IDENTITY: Final = "The private key of an encrypted backup, as `age-keygen` writes it, or an SSH key."


TRUST: Final = "Enable its automations, hooks and settings. Only for files you created yourself."


def print_held(held: Sequence[Held]) -> None:
    """Print what arrived disabled, and how to enable it."""
    if not held:
        return
    click.echo(f"Disabled until you approve: {pluralize(len(held), 'item')}.")
    for each in held:
        click.echo(f"  {each}")
    if any(each.kind == "skill" for each in held):
        click.echo("Review skills with `nexus skills enable NAME`.")
    if any(each.kind != "skill" for each in held):
        click.echo("Review them, then run `nexus automations approve`.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Verify the backup in FOLDER instead of creating one.")
@click.option(
    "--encrypt-to",
    multiple=True,
    metavar="KEY",
    help="Encrypt to an age or SSH public key: FOLDER becomes one file. Repeat it for several keys.",
)
@click.option("--identity", type=click.Path(path_type=Path), metavar="FILE", help=_IDENTITY)
@json_option
@click.pass_context
def backup(
    ctx: click.Context,
    folder: Path,
    verify: bool,
    encrypt_to: tuple[str, ...],
    identity: Path | None,
    as_json: bool,
) -> None:
    """Back up the home to a new FOLDER, even while it is in use.

    Includes all six databases, the engine's, config.toml and state/, but no logs. Store the folder on another
    disk; it contains everything in the home.
    """
    home = locate_home(ctx)
    if verify:
        ctx.exit(_verify(folder, home, identity, as_json=as_json))
    started = time.monotonic()
    with show_progress("Copying", "bytes") as progress:
        manifest = care.make(home, folder, progress, encrypt_to=encrypt_to)
    seconds = time.monotonic() - started
    if as_json:
        print_json({"home": str(home.root), "backup": str(folder.absolute()), **_summary_document(manifest)})
        return
    how = "verified, encrypted" if encrypt_to else "verified"
    click.echo(f"Copied {home.root} to {folder}: {_count_contents(manifest)}, {how}, in {seconds:.1f} s.")
    for path in manifest.tree.left_out:
        click.echo(f"  skipped: {path} is not a file, folder or link")
    if manifest.engine is None and _uses_postgres(home):
        click.echo("  skipped: the engine's Postgres database; back it up with pg_dump")
    key = "--identity KEY_FILE " if encrypt_to else ""
    click.echo(
        f"Next: `nexus backup --verify {key}{folder}` to check it again, "
        f"`nexus restore {key}{folder}` to restore it."
    )


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace an existing home; it is kept under another name.")
@click.option("--trust", is_flag=True, help=TRUST)
@click.option("--identity", type=click.Path(path_type=Path), metavar="FILE", help=_IDENTITY)
@click.option(
    "--receipts",
    type=click.Path(path_type=Path),
    metavar="HOME",
    help="Remove again what this home has forgotten since, by its receipts.",
)
@click.option("--bring-back", is_flag=True, help="Also restore what was forgotten since.")
@json_option
@click.pass_context
def restore(
    ctx: click.Context,
    folder: Path,
    replace: bool,
    trust: bool,
    identity: Path | None,
    receipts: Path | None,
    bring_back: bool,
    as_json: bool,
) -> None:
    """Restore the home from the backup in FOLDER.

    The backup is verified first. No other program may use the home. Automations, and settings that start
    programs or name servers, arrive disabled; `nexus automations approve` enables them. Pass --trust for your
    own backups. What was forgotten since the backup is removed again, by receipts in the home and the backup.
    """
    home = locate_home(ctx)
    with show_progress("Restoring", "bytes") as progress:
        restored = care.restore(
            folder,
            home,
            replace=replace,
            trust=trust,
            identity=identity,
            progress=progress,
            receipts=receipts,
            bring_back=bring_back,
            open_beside=open_engine,
        )
    manifest, kept = restored.manifest, restored.kept
    if as_json:
        held = [each.to_json() for each in restored.held]
        outcome: dict[str, Any] = {"home": str(home.root), "kept": str(kept) if kept else None, "held": held}
        outcome["returned"] = [each.to_json() for each in restored.returned]
        outcome["forgets_without_receipt"] = restored.unreceipted
        print_json({**outcome, **_summary_document(manifest)})
        return
    click.echo(
        f"Restored {home.root} as it was on {manifest.created_at}: {_count_contents(manifest)}, checked."
    )
    if kept:
        click.echo(f"The previous home is in {kept}. Delete it when you no longer need it.")
    print_returned(restored.returned)
    _print_unknown(restored)
    print_held(restored.held)
    click.echo("Next: `nexus status` for a summary.")


def open_engine(home: Home) -> Beside:
    """Return what forgets in the database of a restored home's engine, if there is one."""
    if not home.engine_file.is_file():
        return Nothing()
    from nexus.engine.forgetting import Forgetting
    from nexus.engine.settings import Settings

    return Forgetting(Settings.of_home(home, EngineConfig()))


def print_returned(returned: Sequence[Returned]) -> None:
    """Say what a backup or an export brought back of what was forgotten since."""
    for each in returned:
        rows, day = pluralize(each.rows, "row"), each.completed_at[:10]
        if each.is_removed:
            click.echo(f"Removed again, because it was forgotten on {day}: {rows} ({each.forget_id}).")
        else:
            click.echo(f"Brought back, though it was forgotten on {day}: {rows} ({each.forget_id}).")


def _print_unknown(restored: care.Restored) -> None:
    """Say what the backup brought back that no receipt names."""
    if restored.unreceipted:
        count = pluralize(restored.unreceipted, "deletion")
        click.echo(
            f"Brought back: what {count} without a receipt removed since. Repeat them with `nexus forget`."
        )
    if not restored.knows_receipts:
        click.echo(
            "No receipts of forgetting are known here: what was forgotten since is back (see --receipts)."
        )


def _uses_postgres(home: Home) -> bool:
    try:
        return config.load(home.config_file).engine.database != ""
    except ConfigError:
        # A config.toml that can't be read is backed up too.
        return False


def _verify(folder: Path, home: Home, identity: Path | None, *, as_json: bool) -> int:
    try:
        with care.open_backup(folder, home, identity) as readable:
            manifest, problems = care.check(readable)
    except CareError as error:
        if not as_json:
            raise
        manifest, problems = None, [error.message]
    if as_json:
        summary = _summary_document(manifest) if manifest else {}
        print_json({"backup": str(folder.absolute()), "ok": not problems, "problems": problems, **summary})
    elif problems:
        click.echo(f"Backup {folder} is damaged:")
        for problem in problems:
            click.echo(f"  {problem}")
        click.echo("Use another backup, or create one with `nexus backup`.")
    elif manifest:
        click.echo(f"Backup {folder} is intact: {_count_contents(manifest)}, created {manifest.created_at}.")
    return 1 if problems else 0


def _summary_document(manifest: Manifest) -> dict[str, Any]:
    return {
        "created_at": manifest.created_at,
        "nexus_version": manifest.nexus_version,
        "bytes": manifest.size_bytes,
        "files": len(manifest.tree.files),
        "rows": {name: ledger.rows for name, ledger in manifest.ledgers.items()},
        "left_out": manifest.tree.left_out,
    }


def _count_contents(manifest: Manifest) -> str:
    rows, files = pluralize(manifest.rows, "row"), pluralize(len(manifest.tree.files), "file")
    return f"{rows} and {files}, {format_size(manifest.size_bytes)}"
