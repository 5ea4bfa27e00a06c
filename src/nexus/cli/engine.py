"""`nexus engine`: what waits, what runs where and since when, what failed and why."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast, get_args

import click

from nexus.broker.queue import WORK, SessionQueue
from nexus.broker.run import settle
from nexus.cli.place import opened_home
from nexus.engine import Engine, Settings, State, prepare, records, schedules, store
from nexus.engine.database import Database, translate_errors
from nexus.engine.errors import FINAL, UnknownExecutionError
from nexus.engine.owner import find_owner
from nexus.engine.records import Execution
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_limit = click.option("--limit", default=20, show_default=True, help="Maximum number of results.")


@click.group()
def engine() -> None:
    """Inspect, retry and cancel background work."""


@engine.command()
@_json
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show serving processes, queues, schedules and dead letters."""
    with _opened(ctx) as database:
        picture: dict[str, Any] = {
            "database": database.engine.url.render_as_string(hide_password=True),
            "executors": [asdict(owner)] if (owner := find_owner(database.settings)) else [],
            "queues": records.queues(database),
            "schedules": schedules.list_schedules(database),
            "dead_letters": records.count_dead_letters(database),
        }
    if as_json:
        _print_json(picture)
        return
    click.echo(f"engine at {picture['database']}")
    for executor in picture["executors"]:
        click.echo(
            f"  serves     {executor['executor_id']}  process {executor['pid']} on {executor['host']}, "
            f"since {executor['started_at']}, version {executor['version']}"
        )
    if not picture["executors"]:
        click.echo("  not served: queued work waits until `nexus up` runs")
    _print_queues(picture["queues"])
    for schedule in picture["schedules"]:
        paused = " (paused)" if schedule["paused"] else ""
        following = schedule["next_at"] or "never"
        click.echo(f"  schedule   {schedule['name']}: {schedule['cron']}, next {following}{paused}")
    if picture["dead_letters"]:
        click.echo(f"  {picture['dead_letters']} dead letters: see `nexus engine dead-letters`")


@engine.command()
@_json
@click.pass_context
def queues(ctx: click.Context, as_json: bool) -> None:
    """Show queued and running work per lane."""
    with _opened(ctx) as database:
        found = records.queues(database)
    if as_json:
        _print_json(found)
    elif found:
        _print_queues(found)
    else:
        click.echo("No queued or running work.")


@engine.command()
@click.option("--state", type=click.Choice(get_args(State)), help="Filter by state.")
@click.option("--lane", help="Filter by lane.")
@click.option("--key", help="Filter by key, such as a session label.")
@_limit
@_json
@click.pass_context
def executions(
    ctx: click.Context, state: str | None, lane: str | None, key: str | None, limit: int, as_json: bool
) -> None:
    """List executions, newest first."""
    with _opened(ctx) as database:
        found = records.recent(database, state=cast("State | None", state), lane=lane, key=key, limit=limit)
    if as_json:
        _print_json([asdict(execution) for execution in found])
        return
    for execution in found:
        _print_line(execution)
    if not found:
        click.echo("No results.")


@engine.command()
@click.argument("execution_id")
@_json
@click.pass_context
def show(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Show state, steps and result or error of an execution."""
    with _opened(ctx) as database:
        execution = _found(database, execution_id)
        steps = records.steps(database, execution_id)
    if as_json:
        _print_json({**asdict(execution), "steps": steps})
        return
    for name, value in asdict(execution).items():
        if value not in {None, ""} and name != "trace":
            click.echo(f"{name:<12} {value}")
    for step in steps:
        failed = "  failed" if step["failed"] else ""
        click.echo(
            f"step {step['number']:<7} {step['name']}  {step['started_at']} to {step['ended_at']}{failed}"
        )
    if execution.trace:
        click.echo(execution.trace)


@engine.command()
@click.argument("execution_id")
@_json
@click.pass_context
def retry(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Run a finished execution again, as a new one."""
    with _opened(ctx) as database:
        is_run = _found(database, execution_id).work == WORK
        new = _retry_run(ctx, execution_id) if is_run else records.retry(database, execution_id)
    if as_json:
        _print_json({"retried": execution_id, "execution": new})
    else:
        click.echo(f"{execution_id} will run again as {new}")


@engine.command()
@click.argument("execution_id")
@_json
@click.pass_context
def cancel(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Cancel a queued execution, or ask a running one to stop."""
    with _opened(ctx) as database:
        outcome = _cancel(database, execution_id)
        if _found(database, execution_id).work == WORK:
            _settle_run(ctx, _found(database, execution_id))
    if as_json:
        _print_json({"execution": execution_id, "outcome": outcome})
    else:
        click.echo(f"{execution_id}: {outcome}")


@engine.command("dead-letters")
@_limit
@_json
@click.pass_context
def dead_letters(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List runs that crashed their process each time. Retry with `nexus engine retry`."""
    with _opened(ctx) as database:
        found = records.list_dead_letters(database, limit)
    if as_json:
        _print_json([asdict(letter) for letter in found])
        return
    for letter in found:
        click.echo(
            f"{letter.execution_id}  {letter.work} {letter.key}, {letter.attempts} attempts, {letter.died_at}"
        )
        click.echo(f"    {letter.error}")
    if not found:
        click.echo("No results.")


@contextmanager
def _opened(ctx: click.Context) -> Generator[Database]:
    """The engine's database. Looking at it starts nothing and makes nothing."""
    home, config = opened_home(ctx)
    settings = Settings.of_home(home, config.engine)
    if not settings.exists:
        raise _nothing_yet(home)
    database = Database(settings)
    try:
        with translate_errors(settings):
            if not prepare.is_prepared(database):
                raise _nothing_yet(home)
            yield database
    finally:
        database.close()


def _nothing_yet(home: Home) -> UsageError:
    return UsageError(
        f"No work has run in the home at {home.root} yet",
        hint="Run `nexus up` to create the engine's tables.",
    )


def _found(database: Database, execution_id: str) -> Execution:
    execution = records.get(database, execution_id)
    if execution is None:
        raise UnknownExecutionError(
            f"Unknown execution {execution_id}", hint="List them with `nexus engine executions`."
        )
    return execution


def _cancel(database: Database, execution_id: str) -> str:
    if store.cancel_waiting(database, execution_id):
        return "canceled before it started"
    if _found(database, execution_id).state in FINAL:
        return "already finished"
    store.ask_to_stop(database, execution_id)
    return "asked to stop; its session continues once it has"


def _retry_run(ctx: click.Context, execution_id: str) -> str:
    """A run of the session queue is recorded in the ledger first, and so is its repetition."""
    home, settings = opened_home(ctx)

    async def retried() -> str:
        engine = Engine(Settings.of_home(home, settings.engine))
        async with Ledgers(home, settings.ledgers) as ledgers:
            queue = SessionQueue(engine, ledgers)
            await engine.open(serve=False)
            try:
                return (await queue.retry(execution_id)).id
            finally:
                await engine.close()

    return asyncio.run(retried())


def _settle_run(ctx: click.Context, execution: Execution) -> None:
    home, settings = opened_home(ctx)

    async def settled() -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            await settle(ledgers, execution)

    asyncio.run(settled())


def _print_queues(found: list[dict[str, Any]]) -> None:
    for lane in found:
        since = f", oldest since {lane['oldest_waits_since']}" if lane["queued"] else ""
        click.echo(
            f"  {lane['lane']:<10} {lane['running']} running, {lane['queued']} waiting over "
            f"{lane['waiting_keys']} keys, {lane['delayed']} for later{since}"
        )


def _print_line(execution: Execution) -> None:
    since = execution.ended_at or execution.started_at or execution.enqueued_at
    where = f"{execution.lane:<10} {execution.work}  {execution.key}"
    error = f"  {execution.error}" if execution.error else ""
    click.echo(f"{execution.id}  {execution.state:<9} {where}  {since}{error}")


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))
