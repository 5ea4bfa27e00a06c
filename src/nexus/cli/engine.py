"""`nexus engine`: inspect, retry and cancel background work."""

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, cast, get_args

import click

from nexus.broker.queue import WORK, SessionQueue
from nexus.broker.run_handle import record_engine_end
from nexus.cli.place import json_option, open_home
from nexus.engine import Engine, Settings, State, prepare, records, schedules, store
from nexus.engine.database import Database, translate_errors
from nexus.engine.errors import FINAL, UnknownExecutionError
from nexus.engine.owner import find_owner
from nexus.engine.records import WorkRecord
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers

_limit = click.option("--limit", default=20, show_default=True, help="Maximum number of results.")


@click.group()
def engine() -> None:
    """Inspect, retry and cancel background work."""


@engine.command()
@json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show serving processes, queues, schedules and dead letters."""
    with _open_database(ctx) as database:
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
@json_option
@click.pass_context
def queues(ctx: click.Context, as_json: bool) -> None:
    """Show queued and running work per lane."""
    with _open_database(ctx) as database:
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
@json_option
@click.pass_context
def executions(
    ctx: click.Context, state: str | None, lane: str | None, key: str | None, limit: int, as_json: bool
) -> None:
    """List executions, newest first."""
    with _open_database(ctx) as database:
        found = records.recent(database, state=cast("State | None", state), lane=lane, key=key, limit=limit)
    if as_json:
        _print_json([asdict(execution) for execution in found])
        return
    for execution in found:
        since = execution.ended_at or execution.started_at or execution.enqueued_at
        where = f"{execution.lane:<10} {execution.work}  {execution.key}"
        error = f"  {execution.error}" if execution.error else ""
        click.echo(f"{execution.id}  {execution.state:<9} {where}  {since}{error}")
    if not found:
        click.echo("No results.")


@engine.command()
@click.argument("execution_id")
@json_option
@click.pass_context
def show(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Show state, steps and result or error of an execution."""
    with _open_database(ctx) as database:
        execution = _require_execution(database, execution_id)
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
@json_option
@click.pass_context
def retry(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Run a finished execution again, as a new one."""
    with _open_database(ctx) as database:
        is_run = _require_execution(database, execution_id).work == WORK
        new = _retry_run(ctx, execution_id) if is_run else records.retry(database, execution_id)
    if as_json:
        _print_json({"retried": execution_id, "execution": new})
    else:
        click.echo(f"{execution_id} will run again as {new}")


@engine.command()
@click.argument("execution_id")
@json_option
@click.pass_context
def cancel(ctx: click.Context, execution_id: str, as_json: bool) -> None:
    """Cancel a queued execution, or ask a running one to stop."""
    with _open_database(ctx) as database:
        if store.cancel_waiting(database, execution_id):
            outcome = "canceled while it waited"
        elif _require_execution(database, execution_id).state in FINAL:
            outcome = "already finished"
        else:
            store.ask_to_stop(database, execution_id)
            outcome = "asked to stop; its session continues once it has"
        if _require_execution(database, execution_id).work == WORK:
            _record_end(ctx, _require_execution(database, execution_id))
    if as_json:
        _print_json({"execution": execution_id, "outcome": outcome})
    else:
        click.echo(f"{execution_id}: {outcome}")


@engine.command("dead-letters")
@_limit
@json_option
@click.pass_context
def dead_letters(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List runs that crashed their process each time. Retry with `nexus engine retry`."""
    with _open_database(ctx) as database:
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
def _open_database(ctx: click.Context) -> Generator[Database]:
    """Open the engine's database. That starts and creates nothing."""
    home, config = open_home(ctx)
    settings = Settings.of_home(home, config.engine)
    if not settings.exists:
        raise _no_work_error(home)
    database = Database(settings)
    try:
        with translate_errors(settings):
            if not prepare.is_prepared(database):
                raise _no_work_error(home)
            yield database
    finally:
        database.close()


def _no_work_error(home: Home) -> UsageError:
    return UsageError(
        f"No work has run in the home at {home.root} yet",
        hint="Run `nexus up` to create the engine's tables.",
    )


def _require_execution(database: Database, execution_id: str) -> WorkRecord:
    execution = records.get(database, execution_id)
    if execution is None:
        raise UnknownExecutionError(
            f"Unknown execution {execution_id}", hint="List them with `nexus engine executions`."
        )
    return execution


def _retry_run(ctx: click.Context, execution_id: str) -> str:
    """Retry a run of the session queue, which is recorded in the ledger first."""
    home, settings = open_home(ctx)

    async def retry_run() -> str:
        engine = Engine(Settings.of_home(home, settings.engine))
        async with Ledgers(home, settings.ledgers) as ledgers:
            queue = SessionQueue(engine, ledgers)
            await engine.open(serve=False)
            try:
                return (await queue.retry(execution_id)).id
            finally:
                await engine.close()

    return asyncio.run(retry_run())


def _record_end(ctx: click.Context, execution: WorkRecord) -> None:
    home, settings = open_home(ctx)

    async def record_end() -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            await record_engine_end(ledgers, execution)

    asyncio.run(record_end())


def _print_queues(found: list[dict[str, Any]]) -> None:
    for lane in found:
        since = f", oldest since {lane['oldest_waits_since']}" if lane["queued"] else ""
        click.echo(
            f"  {lane['lane']:<10} {lane['running']} running, {lane['queued']} waiting over "
            f"{lane['waiting_keys']} keys, {lane['delayed']} for later{since}"
        )


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, default=str))
