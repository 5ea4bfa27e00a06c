"""`nexus status`: a summary of the home."""

import asyncio
from typing import Any, Final, cast

import apsw
import click

from nexus import __version__, clock, config
from nexus.cli.place import format_size, json_option, open_home, print_json
from nexus.home import Home, holders
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import automations

_SINGULAR: Final = {"entities": "entity", "aliases": "alias"}


@click.command()
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show a summary of the home."""
    home, settings = open_home(ctx)
    summary = asyncio.run(_load_summary(home, settings))
    if as_json:
        print_json(summary)
        return
    click.echo(f"nexus {summary['version']} · {summary['home']} · {format_size(summary['bytes'])}")
    for name, entry in summary["ledgers"].items():
        counts = ", ".join(_count(count, things) for things, count in entry["counts"].items())
        click.echo(f"  {name:<11}{format_size(entry['bytes']):>11}  {counts}")
    if summary["last_event_at"]:
        click.echo(f"  last event  {clock.parse(summary['last_event_at']).astimezone():%Y-%m-%d %H:%M}")
    if summary["embedding"]["waiting"] or summary["embedding"]["changes_model"]:
        click.echo(f"  embedding   {_describe_embedding(summary['embedding'])}")
    for name, count in summary["lessons"].items():
        click.echo(f"  lessons     {count:,} waiting for approval: nexus automations lessons {name}")
    for name, trouble in summary["automations"].items():
        click.echo(f"  automation  {name}: {trouble}")
    if summary["manager"] is None:
        click.echo("  model       none: run `nexus init` to choose one")
    else:
        writer = summary["writer"]
        memory = f"written by {writer} after each turn" if writer else "not written: the memory writer is off"
        click.echo(f"  memory      {memory}")
    for holder in summary["used_by"]:
        click.echo(f"  used by     process {holder['pid']} ({holder['command']})")


def _count(count: int, things: str) -> str:
    return f"{count:,} {_SINGULAR.get(things, things.removesuffix('s')) if count == 1 else things}"


async def _load_summary(home: Home, settings: config.Config) -> dict[str, Any]:
    # Imported here, because `--help` needs none of it.
    from nexus.automations import improvement
    from nexus.cli.model_checks import find_troubled

    async with Ledgers(home, settings.ledgers) as ledgers:
        entries: dict[str, Any] = {}
        for database in ledgers:
            counts = await database.read(_count_rows, database.ledger)
            files = [database.path, database.path.with_name(database.path.name + "-wal")]
            bytes_ = sum(file.stat().st_size for file in files if file.is_file())
            entries[database.ledger] = {"bytes": bytes_, "counts": counts}
        embedding = await _load_embedding(ledgers, settings)
        registered = await ledgers.runtime.read(automations.list_current)
        last = await ledgers.events.read(sql.value, sql.queries("events")["last_occurred_at"])
    troubled = await asyncio.to_thread(find_troubled, home, registered)
    return {
        "version": __version__,
        "home": str(home.root),
        "bytes": sum(entry["bytes"] for entry in entries.values()),
        "ledgers": entries,
        "embedding": embedding,
        "last_event_at": last,
        "manager": next(iter(settings.models.manager), None),
        "writer": next(iter(settings.models.writers), None),
        "lessons": await asyncio.to_thread(improvement.count_waiting, home),
        "automations": {name: found.text for name, found in troubled},
        "used_by": [{"pid": holder.pid, "command": holder.command} for holder in holders(home)],
    }


async def _load_embedding(ledgers: Ledgers, settings: config.Config) -> dict[str, Any]:
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import backlog, choose_model_id

    found = await backlog(ledgers, choose_model_id(settings.memory))
    return {
        "model_id": found.model_id,
        "serving_model_id": found.serving_model_id,
        "changes_model": found.changes_model,
        "total": found.total,
        "embedded": found.embedded,
        "waiting": found.depth,
    }


def _describe_embedding(embedding: dict[str, Any]) -> str:
    share = embedding["embedded"] / max(1, embedding["total"])
    done = (
        f"{embedding['embedded']:,} of {embedding['total']:,} texts ({share:.0%}) by {embedding['model_id']}"
    )
    until = f"; searches use {embedding['serving_model_id']} until then"
    return done + until * embedding["changes_model"]


def _count_rows(connection: apsw.Connection, ledger: str) -> dict[str, int]:
    rows = connection.execute(sql.queries(ledger)["counts"])
    return dict(cast("list[tuple[str, int]]", rows.fetchall()))
