"""`nexus status`: a short picture of the home, to read or to paste."""

import asyncio
import json
from typing import Any, Final, cast

import apsw
import click

from nexus import __version__, clock, config
from nexus.cli.place import opened_home, size
from nexus.home import Home, holders
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation

_SINGULAR: Final = {"entities": "entity", "aliases": "alias"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show a summary of the home."""
    home, settings = opened_home(ctx)
    picture = asyncio.run(_picture(home, settings))
    if as_json:
        click.echo(json.dumps(picture, indent=2))
        return
    click.echo(f"nexus {picture['version']} · {picture['home']} · {size(picture['bytes'])}")
    for name, entry in picture["ledgers"].items():
        counts = ", ".join(_counted(count, what) for what, count in entry["counts"].items())
        click.echo(f"  {name:<11}{size(entry['bytes']):>11}  {counts}")
    if picture["last_event_at"]:
        click.echo(f"  last event  {clock.parse(picture['last_event_at']).astimezone():%Y-%m-%d %H:%M}")
    if picture["embedding"]["waiting"] or picture["embedding"]["changes_model"]:
        click.echo(f"  embedding   {_progress(picture['embedding'])}")
    for name, count in picture["lessons"].items():
        click.echo(f"  lessons     {count:,} waiting for approval: nexus automations lessons {name}")
    for name, told in picture["automations"].items():
        click.echo(f"  automation  {name}: {told}")
    if picture["manager"] is None:
        click.echo("  model       none: run `nexus init` to choose one")
    else:
        writer = picture["writer"]
        told = f"written by {writer} after each turn" if writer else "not written: the memory writer is off"
        click.echo(f"  memory      {told}")
    for holder in picture["used_by"]:
        click.echo(f"  used by     process {holder['pid']} ({holder['command']})")


def _counted(count: int, things: str) -> str:
    return f"{count:,} {_SINGULAR.get(things, things.removesuffix('s')) if count == 1 else things}"


async def _picture(home: Home, settings: config.Config) -> dict[str, Any]:
    async with Ledgers(home, settings.ledgers) as ledgers:
        entries: dict[str, Any] = {}
        for database in ledgers:
            counts = await database.read(_counts, database.ledger)
            files = [database.path, database.path.with_name(database.path.name + "-wal")]
            bytes_ = sum(file.stat().st_size for file in files if file.is_file())
            entries[database.ledger] = {"bytes": bytes_, "counts": counts}
        embedding = await _embedding(ledgers, settings)
        registered = await ledgers.runtime.read(automations.listed)
        last = await ledgers.events.read(sql.value, sql.queries("events")["last_occurred_at"])
    return {
        "version": __version__,
        "home": str(home.root),
        "bytes": sum(entry["bytes"] for entry in entries.values()),
        "ledgers": entries,
        "embedding": embedding,
        "last_event_at": last,
        "manager": next(iter(settings.models.manager), None),
        "writer": next(iter(settings.models.writers), None),
        "lessons": await asyncio.to_thread(_lessons, home),
        "automations": await asyncio.to_thread(_troubled, home, registered),
        "used_by": [{"pid": holder.pid, "command": holder.command} for holder in holders(home)],
    }


def _lessons(home: Home) -> dict[str, int]:
    from nexus.automations.improvement import lessons

    return lessons.waiting(home)


def _troubled(home: Home, registered: list[Automation]) -> dict[str, str]:
    """The automations that need attention, and why."""
    from nexus.cli.model_checks import troubled

    return {name: found.text for name, found in troubled(home, registered)}


async def _embedding(ledgers: Ledgers, settings: config.Config) -> dict[str, Any]:
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import backlog, chosen_id

    found = await backlog(ledgers, chosen_id(settings.memory))
    return {
        "model_id": found.model_id,
        "serving_model_id": found.serving_model_id,
        "changes_model": found.changes_model,
        "total": found.total,
        "embedded": found.embedded,
        "waiting": found.depth,
    }


def _progress(embedding: dict[str, Any]) -> str:
    share = embedding["embedded"] / max(1, embedding["total"])
    done = (
        f"{embedding['embedded']:,} of {embedding['total']:,} texts ({share:.0%}) by {embedding['model_id']}"
    )
    until = f"; searches use {embedding['serving_model_id']} until then"
    return done + until * embedding["changes_model"]


def _counts(connection: apsw.Connection, ledger: str) -> dict[str, int]:
    rows = connection.execute(sql.queries(ledger)["counts"])
    return dict(cast("list[tuple[str, int]]", rows.fetchall()))
