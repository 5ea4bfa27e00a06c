"""Histories: their preview, import and list, and the export to Markdown."""

import asyncio
import sys
import tomllib
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from nexus import clock, history
from nexus.cli.display import show_progress
from nexus.cli.place import format_size, open_home, print_json, printable, with_ledgers
from nexus.config import Config
from nexus.errors import UsageError
from nexus.history import markdown
from nexus.history.files import total_bytes
from nexus.history.source import find_zone
from nexus.ledgers import Ledgers
from nexus.ledgers.events import imports
from nexus.memory.operations import Memory
from nexus.text import pluralize

P = ParamSpec("P")
T = TypeVar("T")
_EXAMPLES = 5


def import_history(
    ctx: click.Context,
    path: str,
    *,
    format_: str | None,
    owner: tuple[str, ...],
    timezone: str | None,
    mapping: str | None,
    trust_from: bool,
    without_attachments: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import a history into the home, or print what would be imported."""
    options = history.Options(
        owner=owner,
        timezone=find_zone(timezone or ""),
        mapping=_read_mapping(mapping),
        trusts_from=trust_from,
    )
    source = history.open_source(Path(path), options, format_)
    if dry_run:
        seen = _run(ctx, _preview, source)
        _print_preview(seen, as_json=as_json)
        return
    done = _run(ctx, _import, open_home(ctx)[1], source, not without_attachments)
    _print_import(done, as_json=as_json)


def print_imports(ctx: click.Context, *, as_json: bool) -> None:
    """Print all imports."""
    found = _run(ctx, lambda ledgers: ledgers.events.read(imports.list_imports))
    if as_json:
        print_json([each.record() for each in found])
        return
    if not found:
        click.echo("No imports yet.")
    for each in found:
        state = (
            "interrupted: run the same import again to resume" if each.status == "running" else each.status
        )
        click.echo(
            f"{clock.minute(each.created_at)}  {each.source:<12} {pluralize(each.messages, 'message'):>18}  "
            f"{printable(each.location)}  ({state})  {each.id}"
        )


def export_markdown(ctx: click.Context, folder: str, *, as_json: bool) -> None:
    """Write the home to a folder of Markdown."""
    written = _run(ctx, _write_markdown, Path(folder))
    if as_json:
        print_json({"folder": folder, **asdict(written)})
        return
    people = "1 person" if written.people == 1 else f"{written.people:,} people"
    click.echo(
        f"Exported {people}, {pluralize(written.topics, 'topic')} "
        f"and {pluralize(written.messages, 'message')} on {pluralize(written.days, 'day')} to {folder}."
    )
    click.echo("Open the folder as a vault in Obsidian, or read it with any editor.")


async def _write_markdown(ledgers: Ledgers, folder: Path) -> markdown.Written:
    with show_progress("Exporting messages") as progress:
        return await markdown.write(ledgers, folder, lambda messages: progress(messages, 0))


async def _preview(ledgers: Ledgers, source: history.Source) -> history.Preview:
    total = await asyncio.to_thread(total_bytes, source.files)
    with show_progress("Reading bytes") as progress:
        return await history.preview(ledgers, source, lambda _, read: progress(read, total))


async def _import(
    ledgers: Ledgers, settings: Config, source: history.Source, attachments: bool
) -> imports.Import:
    region = settings.memory.phone_region
    memory = Memory(ledgers, phone_region=region)
    total = await asyncio.to_thread(total_bytes, source.files)
    with show_progress(f"Importing {source.title}: bytes") as progress:
        importer = history.Importer(
            ledgers,
            memory,
            source,
            phone_region=region,
            attachment_bytes=settings.attachments.max_bytes if attachments else 0,
            progress=lambda _, read: progress(read, total),
        )
        return await importer.run()


def _print_preview(seen: history.Preview, *, as_json: bool) -> None:
    if as_json:
        print_json(seen.record())
        return
    click.echo(f"{seen.title}, {format_size(seen.size_bytes)}:")
    click.echo(f"  {pluralize(seen.messages, 'message')} in {pluralize(seen.threads, 'thread')}")
    if seen.known:
        click.echo(f"  {pluralize(seen.known, 'message')} of these already imported")
    click.echo(f"  {'1 person' if seen.people == 1 else f'{seen.people:,} people'}")
    if seen.attachments:
        absent = f" ({seen.attachments_absent:,} by name only)" if seen.attachments_absent else ""
        click.echo(f"  {pluralize(seen.attachments, 'attachment')}{absent}")
    if seen.first and seen.last:
        click.echo(f"  from {seen.first[:10]} to {seen.last[:10]}")
    if seen.undated:
        click.echo(f"  {pluralize(seen.undated, 'message')} without a time")
    if seen.unverified:
        click.echo(f"  {pluralize(seen.unverified, 'mail')} from your address without proof that you sent it")
    _print_set_aside(seen.set_aside)
    click.echo("Nothing imported. Run the command without --dry-run to import.")


def _print_import(done: imports.Import, *, as_json: bool) -> None:
    if as_json:
        print_json(done.record())
        return
    click.echo(f"Imported {pluralize(done.messages, 'message')} in {pluralize(done.threads, 'new thread')}.")
    if done.known:
        click.echo(f"  {pluralize(done.known, 'message')} skipped: already imported")
    _print_set_aside(done.set_aside)
    click.echo(
        "You can search them by words now, and by meaning once they are embedded (see `nexus status`)."
    )
    click.echo(f"Undo: `nexus forget import {done.id}`.")


def _print_set_aside(found: imports.SetAsides) -> None:
    for reason, count in found.counts.most_common():
        click.echo(f"  {count:,} set aside: {printable(reason)}")
        places = [place for why, place in found.examples if why == reason][:_EXAMPLES]
        for place in places:
            click.echo(f"    {printable(place)}")


def _read_mapping(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path}: {error}", hint='A mapping is a TOML file with lines such as `text = "body"`.'
        ) from None


def _run(
    ctx: click.Context,
    work: Callable[Concatenate[Ledgers, P], Awaitable[T]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    try:
        return with_ledgers(ctx, work, *args, **kwargs)
    except KeyboardInterrupt:
        click.echo("Stopped. Run the same import again to resume.", err=True)
        sys.exit(130)
