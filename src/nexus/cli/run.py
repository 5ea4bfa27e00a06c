"""`nexus run`: one task, one answer, for the terminal and for pipes."""

import sys
from pathlib import Path

import click

from nexus import commands, ids
from nexus.attachments import File
from nexus.cli.place import lenient_input, open_answering_home, open_home
from nexus.errors import UsageError


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
    # Imported here, because the libraries behind it take longer than `nexus run --help` may.
    from nexus.cli.answer import answer

    label = session or ("main" if is_command else f"run:{ids.new('ses')}")
    answer(home, settings, task, label, model, files=files, wait=wait, as_json=as_json)


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
