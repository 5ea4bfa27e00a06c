"""`nexus backup` and `nexus restore`: a safe copy of the home, and the way back."""

import json
import time
from pathlib import Path
from typing import Any

import click

from nexus import config
from nexus.cli.held import TRUST, print_held
from nexus.cli.place import chosen_home, counted, size
from nexus.cli.progress import bytes_shown
from nexus.errors import CareError, ConfigError
from nexus.home import Home
from nexus.ledgers import backup as care
from nexus.ledgers.backup import Manifest


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Check the backup in FOLDER instead of making one.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome for a program to read.")
@click.pass_context
def backup(ctx: click.Context, folder: Path, verify: bool, as_json: bool) -> None:
    """Copy the home to a new FOLDER, while it may be in use.

    All six databases, the engine's, config.toml and state/ are copied (logs are not), each database as it
    was at one moment. Keep the folder on another disk; it holds everything that the home does.
    """
    if verify:
        ctx.exit(_verify(folder, as_json=as_json))
    home = chosen_home(ctx)
    started = time.monotonic()
    with bytes_shown("Copying") as progress:
        manifest = care.make(home, folder, progress)
    seconds = time.monotonic() - started
    if as_json:
        _print_json({"home": str(home.root), "backup": str(folder.absolute()), **_summary(manifest)})
        return
    click.echo(f"Copied {home.root} to {folder}: {_contents(manifest)}, checked, in {seconds:.1f} s.")
    for path in manifest.tree.left_out:
        click.echo(f"  left out: {path} is neither a file, a folder nor a link")
    if manifest.engine is None and _on_a_server(home):
        click.echo("  left out: the engine's work is in a Postgres database; back that up with pg_dump")
    click.echo(f"Next: `nexus backup --verify {folder}` checks it, `nexus restore {folder}` brings it back.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Take the place of what is there; that is kept beside.")
@click.option("--trust", is_flag=True, help=TRUST)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome for a program to read.")
@click.pass_context
def restore(ctx: click.Context, folder: Path, replace: bool, trust: bool, as_json: bool) -> None:
    """Make the home what the backup in FOLDER holds.

    The backup is checked first, and nothing is changed if it is damaged. No other program may be using
    the home meanwhile. Its automations and the settings that start programs or name servers arrive
    disabled; `nexus automations approve` lists and enables them. Pass --trust for a backup of your own.
    """
    home = chosen_home(ctx)
    with bytes_shown("Restoring") as progress:
        restored = care.restore(folder, home, replace=replace, trust=trust, progress=progress)
    manifest, kept = restored.manifest, restored.kept
    if as_json:
        held = [each.to_json() for each in restored.held]
        outcome = {"home": str(home.root), "kept": str(kept) if kept else None, "held": held}
        _print_json({**outcome, **_summary(manifest)})
        return
    click.echo(f"Restored {home.root} as it was on {manifest.created_at}: {_contents(manifest)}, checked.")
    if kept:
        click.echo(f"What was there before is kept in {kept}; remove it when you no longer need it.")
    print_held(restored.held)
    click.echo("Next: `nexus status` shows the home.")


def _on_a_server(home: Home) -> bool:
    try:
        return config.load(home.config_file).engine.database != ""
    except ConfigError:
        # The backup is made all the same: the config.toml that cannot be read is in it.
        return False


def _verify(folder: Path, *, as_json: bool) -> int:
    try:
        manifest, problems = care.check(folder)
    except CareError as error:
        if not as_json:
            raise
        manifest, problems = None, [error.message]
    if as_json:
        summary = _summary(manifest) if manifest else {}
        _print_json({"backup": str(folder.absolute()), "ok": not problems, "problems": problems, **summary})
    elif problems:
        click.echo(f"The backup at {folder} cannot be used:")
        for problem in problems:
            click.echo(f"  {problem}")
        click.echo("Take another one, or make a new one with `nexus backup`.")
    elif manifest:
        click.echo(f"The backup at {folder} is sound: {_contents(manifest)}, made on {manifest.created_at}.")
    return 1 if problems else 0


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {
        "created_at": manifest.created_at,
        "nexus_version": manifest.nexus_version,
        "bytes": manifest.size_bytes,
        "files": len(manifest.tree.files),
        "rows": {name: ledger.rows for name, ledger in manifest.ledgers.items()},
        "left_out": manifest.tree.left_out,
    }


def _contents(manifest: Manifest) -> str:
    rows, files = counted(manifest.rows, "row"), counted(len(manifest.tree.files), "file")
    return f"{rows} and {files}, {size(manifest.size_bytes)}"


def _print_json(outcome: dict[str, Any]) -> None:
    click.echo(json.dumps(outcome, indent=2))
