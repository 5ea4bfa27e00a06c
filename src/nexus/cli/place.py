"""What every command needs first: which home is meant, and its settings."""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TextIO, TypeVar, cast

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

P = ParamSpec("P")
T = TypeVar("T")


def chosen_home(ctx: click.Context) -> Home:
    """The home that `--home`, NEXUS_HOME or the default names. It may not exist yet."""
    given = cast("str | None", ctx.obj)
    return locate(Path(given) if given else None)


def note(text: str) -> None:
    """Tell the person something beside what was asked for."""
    click.secho(text, err=True, dim=True)


def moment(text: str | None) -> datetime | None:
    """A time that was typed, if one was."""
    if text is None:
        return None
    try:
        return clock.parse(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time", hint="Write it as 2026-05-01 or 2026-05-01T10:00Z."
        ) from None


def opened_home(ctx: click.Context) -> "tuple[Home, Config]":
    """An existing home and its settings, or an error that says what to do."""
    from nexus import config  # what a served home answers needs no settings

    home = chosen_home(ctx).require()
    if hosted.has_copies(home) and serving(home) is not None:
        home = replace(home, is_copied=True)
    settings = config.load(home.config_file)
    if hosted.place(home) is not None:
        from nexus.hosting.confinement import drop_rights  # most homes are not hosted

        settings = drop_rights(settings, home).config
    return home, settings


def answering_home(ctx: click.Context, model: str, role: str = "manager") -> "tuple[Home, Config]":
    """The home and its settings, or an error where no model is set that could answer in a role.

    An error, too, if the process that serves it is stopped. If it doesn't respond, the person is told.
    """
    from nexus.broker.agent.roles import models_of

    home, settings = opened_home(ctx)
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
    """Tell the person if this takes a while and the serving process is stopped: it may hold a lock."""

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
    """Run something on the ledgers of the chosen home."""
    import asyncio

    from nexus.ledgers import Ledgers

    home, settings = opened_home(ctx)

    async def opened() -> T:
        async with Ledgers(home, settings.ledgers) as ledgers:
            return await work(ledgers, *args, **kwargs)

    with tell_if_stopped(home):
        return asyncio.run(opened())


def user_name() -> str:
    """Who runs the command."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A user that the system has no name for, as in some containers.
        return f"uid {os.getuid()}"


def lenient_input() -> TextIO:
    """Standard input, in which bytes that are no text are shown as such instead of ending the program."""
    stream = cast("TextIOWrapper", sys.stdin)
    stream.reconfigure(errors="replace")
    return stream


def counted(count: int, what: str) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def size(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")
