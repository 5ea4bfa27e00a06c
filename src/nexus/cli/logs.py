"""`nexus logs`: the log of the process that serves a home."""

import asyncio
import json
from contextlib import closing, suppress
from typing import Any, Final, cast

import click

from nexus import clock
from nexus import logs as written
from nexus.cli.place import open_home, printable
from nexus.home import Home
from nexus.watch import Watch

_PAUSE_S: Final = 0.25
_COLORS: Final = {"warning": "yellow", "error": "red"}
_FIRST: Final = ("at", "level", "from", "message")


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option(
    "--level",
    type=click.Choice(written.LEVELS),
    default="info",
    show_default=True,
    help="Minimum level.",
)
@click.option(
    "--lines", type=click.IntRange(0), default=50, show_default=True, help="Number of lines to show."
)
@click.option("--json", "as_json", is_flag=True, help="Print the raw JSON lines.")
@click.pass_context
def logs(ctx: click.Context, follow: bool, level: str, lines: int, as_json: bool) -> None:
    """Show the log of `nexus up`: HTTP requests, results and errors.

    The log has names, ids and numbers, never message content.
    """
    home, _ = open_home(ctx)
    tail = written.Tail(home)
    wanted = [line for line in written.read(home) if _is_serious(line, level)]
    for line in wanted[-lines:] if lines else []:
        print_line(line, as_json=as_json)
    if not wanted and not follow:
        click.echo("The log is empty. `nexus up` writes it.", err=True)
    with closing(tail), suppress(KeyboardInterrupt):
        if follow:
            asyncio.run(print_new_lines(home, tail, level, as_json=as_json))


async def print_new_lines(home: Home, tail: written.Tail, level: str, *, as_json: bool) -> None:
    """Print each serious line when it is written, until cancelled."""
    with closing(Watch([written.path(home)], pause_s=_PAUSE_S)) as watch:
        while True:
            for line in tail.next():
                if _is_serious(line, level):
                    print_line(line, as_json=as_json)
            await watch.wait()


def _is_serious(line: str, level: str) -> bool:
    found = parse_line(line).get("level", "")
    return found not in written.LEVELS or written.LEVELS.index(found) >= written.LEVELS.index(level)


def print_line(line: str, *, as_json: bool) -> None:
    """Print a line of the log."""
    entry = parse_line(line)
    if as_json or not entry:
        click.echo(printable(line))
        return
    level = str(entry.get("level", ""))
    more = " ".join(f"{name}={_format_value(value)}" for name, value in entry.items() if name not in _FIRST)
    head = f"{clock.second(str(entry.get('at', '')))}  {level:<7}  {entry.get('from', ''):<12}"
    click.secho(printable(f"{head}  {entry.get('message', '')}  {more}".rstrip()), fg=_COLORS.get(level))


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return " < ".join(str(part) for part in reversed(cast("list[object]", value)))
    return str(value)


def parse_line(line: str) -> dict[str, Any]:
    """Parse a line of the log; empty if it isn't a JSON object."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
