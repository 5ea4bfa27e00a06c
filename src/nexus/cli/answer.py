"""Running one task and printing its answer."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import click

from nexus import commands, config
from nexus.attachments import File
from nexus.cli.place import print_json
from nexus.cli.screen import Screen, cost_line
from nexus.cli.talk import Talk
from nexus.cli.talking import talking
from nexus.errors import StoppedError
from nexus.home import Home
from nexus.runs import Result

_INTERRUPTED = 130
_LOOK_AGAIN_S = 0.1


def answer(
    home: Home,
    settings: config.Config,
    task: str,
    label: str,
    model: str,
    *,
    files: Sequence[File] = (),
    wait: bool,
    as_json: bool,
) -> None:
    """Run a task and print its answer. Ctrl-C stops the run.

    If this process opened the home, wait until the memory is written: no other process would do it.
    """
    needs_model = bool(files) or commands.parse(task) is None

    async def run_task() -> None:
        async with talking(home, settings, model, needs_model=needs_model) as talk:
            run = (await talk.receive(task, session_label=label, model=model, files=files)).run
            loop = asyncio.get_running_loop()
            stopping: list[asyncio.Task[bool]] = []
            loop.add_signal_handler(signal.SIGINT, lambda: stopping.append(loop.create_task(run.cancel())))
            screen = Screen()
            result = await run.result() if as_json else await screen.follow(run)
            if as_json:
                print_json(_document(result, label))
            if result.execution_id and await talk.workers_at_work(result.execution_id):
                screen.note(f"Workers are still running. Continue with `nexus chat --session {label}`.")
            if sys.stderr.isatty() and not as_json:
                screen.note(cost_line(result.usage))
            if wait:
                await _wait_for_memory(talk, screen, result.request_id)

    try:
        asyncio.run(run_task())
    except StoppedError:
        click.echo("Stopped.", err=True)
        sys.exit(_INTERRUPTED)


async def _wait_for_memory(talk: Talk, screen: Screen, request_id: str) -> None:
    """Wait until the memory is written, or for Ctrl-C."""
    if not await talk.count_unwritten(request_id):
        return
    screen.note("Writing to memory… Press Ctrl-C to leave it for later.")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    while not stop.is_set() and await talk.count_unwritten(request_id):
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_AGAIN_S):
                await stop.wait()


def _document(result: Result, label: str) -> dict[str, object]:
    return {
        "content": result.response.content,
        "model": result.response.model,
        "session": label,
        "request_id": result.request_id,
        "execution_id": result.execution_id,
        "usage": asdict(result.usage),
    }
