"""`nexus calendar`: add calendars, see and read them, and remove them with all that was read."""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import click
import tomlkit

from nexus import secrets
from nexus.cli.forget import erase
from nexus.cli.place import json_option, open_home, print_unicode_json, with_ledgers
from nexus.config import CalendarConfig
from nexus.config_file import write
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, forgetting, sql
from nexus.memory.operations import Memory
from nexus.roles.calendar.calendars import CHANNEL, Calendars, Report
from nexus.roles.calendar.server import check_login
from nexus.serving import serving
from nexus.text import pluralize

T = TypeVar("T")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_yes = click.option("--yes", is_flag=True, help="Skip the confirmation.")


@click.group(invoke_without_command=True)
@click.pass_context
def calendar(ctx: click.Context) -> None:
    """Connect calendars and contacts: CalDAV and CardDAV servers, and ICS files.

    Without a command, lists them.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@calendar.command("list")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List calendars, with what was read and when."""
    _, config = open_home(ctx)

    async def load(own: Calendars) -> list[dict[str, Any]]:
        return [await _describe(own, name) for name in config.calendar]

    found = _work(ctx, load)
    if as_json:
        print_unicode_json(found)
        return
    for each in found:
        state = f"read {each['synced_at'][:16].replace('T', ' ')} UTC" if each["synced_at"] else "never read"
        counts = _count(each["events"], each["contacts"])
        click.echo(f"{each['name']}  {each['kind']}, {counts}, {state}")
        if each["error"]:
            click.echo(f"  {each['error']}")
    if not found:
        click.echo("No calendars yet. Add one with `nexus calendar add NAME URL`.")


@calendar.command()
@click.argument("name")
@click.argument("url")
@click.option("--user", default="", help="Login name on the server.")
@click.option(
    "--password",
    default="",
    help="Where the password is: env:NAME, file:PATH or keyring:SERVICE/USER. It is never saved itself.",
)
@click.option("--contacts/--no-contacts", default=True, help="Whether to read the account's contacts, too.")
@click.pass_context
def add(ctx: click.Context, name: str, url: str, user: str, password: str, contacts: bool) -> None:
    """Add a calendar as NAME, and read it.

    URL: a CalDAV account or calendar, or the address or path of an ICS file. If the address is a secret,
    such as a private ICS address, pass env:VARIABLE.
    """
    home, config = open_home(ctx)
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} can't be a name", hint="Use lower-case letters, digits, - and _.")
    if name in config.calendar:
        raise UsageError(f"There is a calendar {name} already", hint="Choose another name.")
    for source in filter(None, [password, url if url.startswith(("env:", "keyring:")) else ""]):
        if not secrets.is_source(source):
            raise UsageError(
                "Invalid secret source. Use env:NAME, file:PATH or keyring:SERVICE/USER.",
                hint="config.toml never holds secrets: name a variable.",
            )
    if secrets.in_url(url):
        raise UsageError("The address holds a secret", hint="Pass --user and --password, or env:VARIABLE.")
    address = secrets.read(url) if secrets.is_source(url) else url
    is_file = "://" not in address
    if is_file:
        address = url = str(Path(url).expanduser().absolute())
    values: dict[str, Any] = {"url": url}
    if is_file or address.startswith("webcal") or (not user and re.search(r"\.ics(?:\?|$)", address)):
        values["kind"] = "ics"
    else:
        values |= {"user": user, "password": password, "contacts": contacts}
    settings = CalendarConfig(**values)
    click.echo(f"Found: {', '.join(asyncio.run(check_login(settings)))}")
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    text = home.config_file.read_text(encoding="utf-8").rstrip("\n")
    write(home.config_file, "\n".join([text, "", f"[calendar.{name}]", *lines, ""]))
    _print_reports(_work(ctx, lambda own: own.sync([name])))
    click.echo(f"Saved to {home.config_file}. Restart `nexus up` to read it every 15 minutes.")


@calendar.command()
@click.argument("name", required=False)
@json_option
@click.pass_context
def sync(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """Read what changed in the calendar NAME, or in all, now."""
    reports = _work(ctx, lambda own: own.sync([name] if name else ()))
    if as_json:
        print_unicode_json([asdict(each) for each in reports])
    else:
        _print_reports(reports)
    if any(each.error for each in reports):
        ctx.exit(1)


@calendar.command()
@click.argument("name")
@_yes
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> None:
    """Remove the calendar NAME, and erase what was read from it. On its server, nothing changes."""
    home, config = open_home(ctx)
    thread_id = with_ledgers(ctx, _find_thread, name)
    if name not in config.calendar and thread_id is None:
        known = ", ".join(config.calendar) or "none"
        raise UsageError(f"Unknown calendar {name}", hint=f"Calendars: {known}.")
    found = _work(ctx, lambda own: _describe(own, name))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Nothing removed: no terminal to confirm", hint="Pass --yes to skip the prompt.")
        counts = _count(found["events"], found["contacts"])
        click.confirm(f"Remove {name}, and erase {counts} from the memory?", abort=True)
    document = cast("dict[str, Any]", tomlkit.parse(home.config_file.read_text(encoding="utf-8")))
    if name in document.get("calendar", {}):
        del document["calendar"][name]
        write(home.config_file, tomlkit.dumps(document))
        click.echo(f"Removed [calendar.{name}] from {home.config_file}.")
    if serving(home) is not None and name in config.calendar:
        click.echo(f"Restart `nexus up`, then run `nexus calendar remove {name}` again to erase its events.")
        return
    if thread_id is not None:
        erase(
            ctx,
            lambda connection: forgetting.thread(connection, thread_id),
            yes=True,
            dry_run=False,
            as_json=False,
        )
    remaining = _count(found["events"], found["contacts"])
    click.echo(f"What is on the server or in the file stays there: {remaining}.")


async def _describe(own: Calendars, name: str) -> dict[str, Any]:
    state = await own.load_state(name)
    settings = own.config.calendar.get(name)
    events = sum(each.kind == "events" for each in state.entries.values())
    return {
        "name": name,
        "kind": settings.kind if settings else "",
        "events": events,
        "contacts": len(state.entries) - events,
        "synced_at": state.synced_at,
        "error": state.error,
    }


async def _find_thread(ledgers: Ledgers, name: str) -> str | None:
    query = sql.queries("events")["thread_by_external_id"]
    found = await ledgers.events.read(sql.value, query, (CHANNEL, name))
    return None if found is None else str(found)


def _count(events: int, contacts: int) -> str:
    return pluralize(events, "event") + (f", {pluralize(contacts, 'contact')}" if contacts else "")


def _print_reports(reports: list[Report]) -> None:
    for each in reports:
        if each.error:
            click.echo(f"{each.name}: {each.error}")
            continue
        parts = {"new": each.new, "changed": each.changed, "cancelled": each.cancelled}
        parts["unreadable"] = each.unread
        said = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count) or "nothing new"
        click.echo(f"{each.name}: {_count(each.events, each.contacts)} ({said})")
        for note in each.notes:
            click.echo(f"  {note}")
    if not reports:
        click.echo("No calendars yet. Add one with `nexus calendar add NAME URL`.")


def _work(ctx: click.Context, work: Callable[[Calendars], Awaitable[T]]) -> T:
    home, config = open_home(ctx)

    async def run(ledgers: Ledgers) -> T:
        settings = config.memory
        memory = Memory(ledgers, phone_region=settings.phone_region, keeps_codes=settings.keep_codes)
        return await work(Calendars(home, config, ledgers, memory))

    return with_ledgers(ctx, run)
