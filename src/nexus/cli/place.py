"""What every command needs: the chosen home and its settings, the ledgers, and how values are printed."""

import json
import os
import sys
import threading
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TextIO, TypeVar, cast

import click

from nexus import clock, hosted
from nexus.errors import ConfigError, UsageError
from nexus.home import Home, locate
from nexus.serving import SILENCE_S, serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from io import TextIOWrapper

    from nexus.config import Config
    from nexus.ledgers import Ledgers

_KEPT_CONTROLS = "\n\t"


def printable(text: str) -> str:
    """Text without what would steer a terminal: a model, a provider or a file may say anything."""
    return "".join(
        character
        for character in text
        if character in _KEPT_CONTROLS
        or unicodedata.category(character) not in {"Cc", "Cf"}
        or character in "\u200c\u200d"
    )


P = ParamSpec("P")
T = TypeVar("T")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def locate_home(ctx: click.Context) -> Home:
    """Locate the home that `--home`, NEXUS_HOME or the default names. It may not exist yet."""
    given = cast("str | None", ctx.obj)
    return locate(Path(given) if given else None)


def print_json(value: Any) -> None:
    """Print a value for a program to read, in ASCII."""
    click.echo(json.dumps(value, indent=2))


def print_unicode_json(value: Any) -> None:
    """Print a value for a program to read, with its text in any alphabet as it is."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Print a note beside what was asked for."""
    click.secho(text, err=True, dim=True)


def parse_time(text: str | None) -> datetime | None:
    """Parse a time from the command line, if one was given."""
    if text is None:
        return None
    try:
        return clock.parse(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time", hint="Write it as 2026-05-01 or 2026-05-01T10:00Z."
        ) from None


def open_home(ctx: click.Context) -> "tuple[Home, Config]":
    """Open an existing home and load its settings; raise an error that says what to do if there is none."""
    from nexus import config  # asking a served home needs no settings

    home = locate_home(ctx).require()
    if serving(home) is None:
        from nexus.ledgers.connection import refuse_unknown  # whoever serves the home has looked

        refuse_unknown(home.data)
    elif hosted.has_copies(home):
        home = replace(home, is_copied=True)
    settings = config.load(home.config_file)
    if hosted.place(home) is not None:
        from nexus.hosting.confinement import drop_rights  # most homes are not hosted

        settings = drop_rights(settings, home).config
    return home, settings


def open_answering_home(ctx: click.Context, model: str, role: str = "manager") -> "tuple[Home, Config]":
    """Open a home in which a model can answer in a role; raise an error if none is set.

    Also raise one if the process that serves the home is stopped. If it doesn't respond, print a note.
    """
    from nexus.broker.agent.roles import models_of

    home, settings = open_home(ctx)
    if (service := serving(home)) is not None:
        service.await_response(note)
    try:
        if not model:
            models_of(settings.models, role)
    except ConfigError as error:
        hint = error.hint.replace("config.toml", str(home.config_file))
        raise ConfigError(error.message, hint=hint) from None
    return home, settings


@contextmanager
def tell_if_stopped(home: Home) -> Generator[None]:
    """Print a note if this takes a while and the serving process is stopped: it may hold a lock."""

    def tell() -> None:
        if (service := serving(home)) is not None and service.is_stopped:
            note(service.silence)

    timer = threading.Timer(SILENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def with_ledgers(
    ctx: click.Context,
    work: "Callable[Concatenate[Ledgers, P], Awaitable[T]]",
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run work on the ledgers of the chosen home."""
    import asyncio

    from nexus.ledgers import Ledgers

    home, settings = open_home(ctx)

    async def run() -> T:
        async with Ledgers(home, settings.ledgers) as ledgers:
            return await work(ledgers, *args, **kwargs)

    with tell_if_stopped(home):
        return asyncio.run(run())


def user_name() -> str:
    """Name the user who runs the command."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user that the system has no name for, as in some containers.
        return f"uid {os.getuid()}"


def lenient_input() -> TextIO:
    """Return standard input, in which bytes that aren't text are replaced instead of ending the program."""
    stream = cast("TextIOWrapper", sys.stdin)
    stream.reconfigure(errors="replace")
    return stream


def format_size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
