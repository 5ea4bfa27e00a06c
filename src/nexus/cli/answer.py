"""One task given to the agent of a home, and its answer printed."""

import asyncio
import json
import signal
import sys
from dataclasses import asdict

import click

from nexus import config
from nexus.answer import Result
from nexus.cli.screen import Screen, cost_line
from nexus.cli.talking import talking
from nexus.errors import StoppedError
from nexus.home import Home

_INTERRUPTED = 130


def answer(home: Home, settings: config.Config, task: str, label: str, model: str, *, as_json: bool) -> None:
    """Print the answer; Ctrl-C stops the run, and the program ends in order."""
    try:
        result = asyncio.run(_answered(home, settings, task, label, model, quiet=as_json))
    except StoppedError:
        click.echo("Stopped.", err=True)
        sys.exit(_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(_document(result, label), indent=2))


async def _answered(
    home: Home, settings: config.Config, task: str, label: str, model: str, *, quiet: bool
) -> Result:
    async with talking(home, settings, model) as talk:
        run = (await talk.hear(task, session_label=label, model=model)).answer
        loop = asyncio.get_running_loop()
        stopping: list[asyncio.Task[bool]] = []
        loop.add_signal_handler(signal.SIGINT, lambda: stopping.append(loop.create_task(run.cancel())))
        screen = Screen()
        result = await run.result() if quiet else await screen.follow(run)
        if result.execution_id and await talk.workers_at_work(result.execution_id):
            screen.note(f"Workers are still at work. `nexus chat --session {label}` goes on with them.")
        if sys.stderr.isatty() and not quiet:
            screen.note(cost_line(result.usage))
        return result


def _document(result: Result, label: str) -> dict[str, object]:
    return {
        "content": result.response.content,
        "model": result.response.model,
        "session": label,
        "request_id": result.request_id,
        "execution_id": result.execution_id,
        "usage": asdict(result.usage),
    }
