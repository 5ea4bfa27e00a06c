"""`nexus run`: one task, one answer, for the terminal and for pipes."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nexus import commands, config, ids
from nexus.attachments import File
from nexus.cli.place import lenient_input, open_answering_home, open_home, print_json
from nexus.errors import StoppedError, UsageError
from nexus.home import Home

if TYPE_CHECKING:
    from nexus.cli.screen import Screen
    from nexus.cli.talk import Talk
    from nexus.runs import Result

_INTERRUPTED = 130
_LOOK_AGAIN_S = 0.1


@click.command()
@click.argument("text", nargs=-1)
@click.option("--session", metavar="LABEL", help="Session to continue. Default: a new one.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@click.option("--wait/--no-wait", default=True, help="Wait until the memory is written, or not.")
@click.option(
    "--attach",
    "paths",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Image, PDF or text file to include. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its cost as JSON.")
@click.pass_context
def run(
    ctx: click.Context,
    text: tuple[str, ...],
    session: str | None,
    model: str,
    wait: bool,
    paths: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run one task and print the answer.

    Piped input is included: `git diff | nexus run "Write a commit message"`. The answer goes to stdout,
    everything else to stderr. With --session the agent continues that session; `nexus chat` uses `main`.

    --attach includes files: `nexus run --attach bill.pdf "When is it due?"`. The agent gets the text of PDFs
    and text files; images need a model that reads them.

    A command such as /help, /cost or /new concerns the session `main` unless you pass --session.

    Without `nexus up`, it then waits until the memory is written. Ctrl-C or --no-wait leaves that for later.
    """
    said = " ".join(text)
    # A command needs no model, and concerns the chat rather than a session of its own.
    is_command = not paths and commands.parse(said) is not None
    task = said if is_command else _task(said, "" if sys.stdin.isatty() else lenient_input().read())
    home, settings = open_home(ctx) if is_command else open_answering_home(ctx, model)
    files = [File.read(path, settings.attachments.max_bytes) for path in paths]
    label = session or ("main" if is_command else f"run:{ids.new('ses')}")
    _answer(home, settings, task, label, model, files=files, wait=wait, as_json=as_json)


def _task(text: str, piped: str) -> str:
    if not text.strip() and not piped.strip():
        raise UsageError("No task given", hint='Run `nexus run "…"`, or pipe in text.')
    if not piped.strip():
        return text
    from nexus.context.wrapping import wrapped

    if text.strip():
        return f"{text}\n\n{wrapped('input', piped.rstrip())}"
    # It is data, even if it reads like a command.
    return piped.rstrip() if commands.parse(piped) is None else wrapped("input", piped.rstrip())


def _answer(
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
    # Imported here, because the libraries behind it take longer than `nexus run --help` may.
    from nexus.cli.screen import Screen, cost_line
    from nexus.cli.talk import open_talk

    needs_model = bool(files) or commands.parse(task) is None

    async def run_task() -> None:
        async with open_talk(home, settings, model, needs_model=needs_model) as talk:
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


async def _wait_for_memory(talk: "Talk", screen: "Screen", request_id: str) -> None:
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


def _document(result: "Result", label: str) -> dict[str, object]:
    return {
        "content": result.response.content,
        "model": result.response.model,
        "session": label,
        "request_id": result.request_id,
        "execution_id": result.execution_id,
        "usage": asdict(result.usage),
    }
