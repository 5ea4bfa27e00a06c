"""`nexus logs`: what the process that serves a home has logged."""

import json
import time
from typing import Any, Final, cast

import click

from nexus import logs as written
from nexus.cli.place import opened_home
from nexus.cli.terminal import printable

_LOOK_S: Final = 0.25
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
    home, _ = opened_home(ctx)
    tail = written.Tail(home)
    wanted = [line for line in written.read(home) if _is_serious(line, level)]
    for line in wanted[-lines:] if lines else []:
        show(line, as_json=as_json)
    if not wanted and not follow:
        click.echo("The log is empty. `nexus up` writes it.", err=True)
    try:
        while follow:
            for line in tail.next():
                if _is_serious(line, level):
                    show(line, as_json=as_json)
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        return
    finally:
        tail.close()


def _is_serious(line: str, level: str) -> bool:
    found = parsed(line).get("level", "")
    return found not in written.LEVELS or written.LEVELS.index(found) >= written.LEVELS.index(level)


def show(line: str, *, as_json: bool) -> None:
    """Print a line of the log."""
    told = parsed(line)
    if as_json or not told:
        click.echo(printable(line))
        return
    level = str(told.get("level", ""))
    more = " ".join(f"{name}={_short(value)}" for name, value in told.items() if name not in _FIRST)
    head = f"{str(told.get('at', ''))[:19].replace('T', ' ')}  {level:<7}  {told.get('from', ''):<12}"
    click.secho(printable(f"{head}  {told.get('message', '')}  {more}".rstrip()), fg=_COLORS.get(level))


def _short(value: object) -> str:
    if isinstance(value, list):
        return " < ".join(str(part) for part in reversed(cast("list[object]", value)))
    return str(value)


def parsed(line: str) -> dict[str, Any]:
    """A line of the log as an object; empty if it is none."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}
