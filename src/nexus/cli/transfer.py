"""`nexus export` and `nexus import`: a whole home in one file, and histories from elsewhere."""

import json
from pathlib import Path
from typing import Any

import click

from nexus.cli.backup import TRUST, print_held, print_returned
from nexus.cli.display import show_progress
from nexus.cli.place import json_option, locate_home
from nexus.errors import UsageError
from nexus.ledgers import transfer
from nexus.text import pluralize


@click.command()
@click.argument("file")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="One file that can be imported, or a folder for people and Obsidian.",
)
@click.option("--without-embeddings", is_flag=True, help="Leave out embeddings; they can be rebuilt.")
@json_option
@click.pass_context
def export(ctx: click.Context, file: str, format_: str, without_embeddings: bool, as_json: bool) -> None:
    """Export the home to a JSONL FILE, even while it is in use.

    A name ending in .gz is compressed; `-` is stdout. Every table row is one line.
    """
    if format_ == "markdown":
        from nexus.cli import history

        history.export_markdown(ctx, file, as_json=as_json)
        return
    home = locate_home(ctx)
    with transfer.open_output(file) as stream, show_progress("Exporting", "lines") as progress:
        done = transfer.write(home, stream, embeddings=not without_embeddings, progress=progress)
    # The file itself may be on standard output, so the rest must not be.
    aside = file == "-"
    if as_json:
        outcome = {"home": str(home.root), "file": file, **done.tally.end(), "left_out": list(done.left_out)}
        _print_json(outcome, aside)
        return
    click.echo(f"Exported {home.root} to {file}: {_count_contents(done.tally)}.", err=aside)
    for part in done.left_out:
        click.echo(f"  skipped: {part}", err=True)
    if done.left_out:
        click.echo("  An export contains only tables of Nexus; `nexus backup` includes yours.", err=True)
    click.echo(f"Next: `nexus --home PATH import {file}` to create a home from it.", err=aside)


@click.command("import")
@click.argument("file", metavar="SOURCE", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and change nothing.")
@click.option("--list", "show_list", is_flag=True, help="List the imported histories.")
@click.option("--format", "format_", metavar="NAME", help="The format of a history, if it isn't recognized.")
@click.option(
    "--me",
    multiple=True,
    metavar="NAME",
    help="How you appear in a history: a name, an address or an id. May be repeated.",
)
@click.option("--timezone", metavar="ZONE", help="Of times without one. Default: this machine's.")
@click.option("--mapping", metavar="TOML", help="Which field of a JSONL file is what.")
@click.option("--trust-from", is_flag=True, help="Take mail from your address for yours without proof.")
@click.option("--without-attachments", is_flag=True, help="Record attachments by name, without their files.")
@click.option("--trust", is_flag=True, help=TRUST)
@click.option(
    "--receipts",
    type=click.Path(path_type=Path),
    metavar="HOME",
    help="Of a file that `nexus export` wrote: remove again what this home has forgotten since.",
)
@json_option
@click.pass_context
def import_(
    ctx: click.Context,
    file: str | None,
    show_list: bool,
    trust: bool,
    receipts: Path | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Import a history, or make a new home of a file that `nexus export` wrote.

    SOURCE is the export of another assistant, of mail or of a chat: a file, a folder or a zip archive. The
    format is recognized. Messages keep their times, threads and participants; nothing answers them and no
    model reads them. Interrupted, the same command resumes. What was imported before isn't imported again.

    A file that `nexus export` wrote becomes a new home; `-` is standard input. The file is checked as a whole
    before the home appears. Its automations and the settings that start programs or name servers arrive
    disabled; `nexus automations approve` lists and enables them.
    """
    from nexus.cli import history

    if show_list:
        history.print_imports(ctx, as_json=as_json)
    elif file is None:
        raise UsageError("Missing SOURCE", hint="Name a file or folder, or list imports with --list.")
    elif transfer.is_export(file):
        _import_home(ctx, file, trust=trust, receipts=receipts, as_json=as_json)
    elif receipts is not None:
        raise UsageError(
            "--receipts is for a file that `nexus export` wrote", hint="An imported history gets new ids."
        )
    else:
        choices["owner"] = choices.pop("me")
        history.import_history(ctx, file, **choices, as_json=as_json)


def _import_home(ctx: click.Context, file: str, *, trust: bool, receipts: Path | None, as_json: bool) -> None:
    home = locate_home(ctx)
    with transfer.open_input(file) as stream, show_progress("Importing", "lines") as progress:
        imported = transfer.read(stream, home, progress, trust=trust, receipts=receipts)
    tally = imported.tally
    if as_json:
        held = [each.to_json() for each in imported.held]
        returned = [each.to_json() for each in imported.returned]
        outcome = {"home": str(home.root), "file": file, **tally.end(), "held": held, "returned": returned}
        _print_json(outcome)
        return
    click.echo(f"Created a home at {home.root} as of {tally.header.created_at}: {_count_contents(tally)}.")
    print_returned(imported.returned)
    if receipts is None:
        click.echo(f"What was forgotten after {tally.header.created_at} is back (see --receipts).")
    print_held(imported.held)
    click.echo("Next: `nexus status` for a summary.")


def _count_contents(tally: transfer.Tally) -> str:
    return f"{pluralize(tally.total_rows, 'row')} and {pluralize(tally.files, 'file')}"


def _print_json(outcome: dict[str, Any], aside: bool = False) -> None:
    click.echo(json.dumps(outcome, indent=2), err=aside)
