"""A conversation with the agent of a home: what is typed goes to it, what it says is shown."""

import asyncio
import signal
import sys
from contextlib import suppress
from functools import partial

import click

from nexus import config
from nexus.answer import Answer
from nexus.app import App
from nexus.broker.queue import check_label
from nexus.cli.chat import new_label
from nexus.cli.screen import Screen, cost_line
from nexus.cli.terminal import printable
from nexus.cli.typed import Editor, Lines, Typed
from nexus.engine.errors import WorkCancelledError
from nexus.errors import NexusError
from nexus.home import Home
from nexus.ledgers import events

_LOOK_S = 0.5
_REMEMBERED_LINES = 200


async def converse(
    home: Home, settings: config.Config, label: str, model: str, *, interactive: bool, help_text: str
) -> None:
    """Talk until the person leaves or the pipe ends."""
    check_label(label)
    async with App(home, settings) as app:
        await app.broker.check_models("manager", model)
        conversation = Conversation(app, Screen(), label, model, costs=interactive)
        await conversation.catch_up()
        typed: Typed
        if interactive:
            typed = Editor(await _remembered(app, label))
            click.secho(f"Session {label}. /help shows what else there is.", dim=True)
        else:
            typed = Lines()
        watching = asyncio.create_task(conversation.watch())
        try:
            await _talk(conversation, typed, help_text)
        finally:
            watching.cancel()
        await conversation.catch_up()


async def _talk(conversation: "Conversation", typed: Typed, help_text: str) -> None:
    while (text := await typed.next()) is not None:
        match text.strip():
            case "":
                continue
            case "/quit" | "/exit":
                return
            case "/help":
                click.echo(help_text)
            case "/new":
                await conversation.begin(new_label())
            case command if command.startswith("/"):
                click.secho(f"There is no command {command.split()[0]}. /help lists them.", err=True)
            case _:
                await conversation.say(text)


class Conversation:
    """One session, on a screen. Also what the agent says unasked, because a worker has ended, is shown."""

    def __init__(self, app: App, screen: Screen, label: str, model: str, *, costs: bool) -> None:
        self._app = app
        self._screen = screen
        self._label = label
        self._model = model
        self._costs = costs
        self._shown: set[str] = set()
        self._last = ""
        self._speaking = asyncio.Lock()

    async def begin(self, label: str) -> None:
        """Go over to another session."""
        await self._app.leave(self._label)
        self._label, self._last = label, ""
        self._screen.note(f"Session {label}.")

    async def say(self, text: str) -> None:
        """Say something, and show the answer."""
        async with self._speaking:
            try:
                run = await self._app.say(text, session_label=self._label, model=self._model)
            except NexusError as error:
                _tell(error)
                return
            await self._show(run)

    async def catch_up(self) -> None:
        """Show what is still being answered, from before a crash or by workers."""
        while under_way := [r for r in await self._app.under_way(self._label) if r.id not in self._shown]:
            for run in under_way:
                async with self._speaking:
                    await self._show(run)

    async def watch(self) -> None:
        """Show what the agent says unasked."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self._last:
                continue
            # What is wrong may pass, as a busy ledger does. If it stays, who says something is told.
            with suppress(NexusError):
                await self._show_new()

    async def _show_new(self) -> None:
        for run in await self._app.runs_after(self._label, self._last):
            async with self._speaking:
                if run.id not in self._shown:
                    await self._show(run)

    async def _show(self, run: Answer) -> None:
        self._shown.add(run.id)
        self._last = max(self._last, run.id)
        loop = asyncio.get_running_loop()
        stopping: list[asyncio.Task[bool]] = []
        loop.add_signal_handler(signal.SIGINT, lambda: stopping.append(loop.create_task(run.cancel())))
        try:
            result = await self._screen.follow(run)
            if self._costs:
                self._screen.note(cost_line(result.usage))
        except WorkCancelledError:
            self._screen.note("Stopped.")
        except NexusError as error:
            _tell(error)
        finally:
            loop.remove_signal_handler(signal.SIGINT)


def _tell(error: NexusError) -> None:
    sys.stdout.flush()
    click.secho(f"nexus: {printable(error.message)}", err=True, fg="red")
    if error.hint:
        click.secho(f"  {printable(error.hint)}", err=True)


async def _remembered(app: App, label: str) -> list[str]:
    said = partial(events.said, channel="cli", external_id=label, limit=_REMEMBERED_LINES)
    return list(reversed(await app.ledgers.events.read(said)))
