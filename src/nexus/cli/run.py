"""`nexus run`: one task, one answer, for the terminal and for pipes."""

import sys

import click

from nexus import ids
from nexus.cli.place import answering_home, lenient_input
from nexus.context.wrapping import wrapped
from nexus.errors import UsageError


@click.command()
@click.argument("text", nargs=-1)
@click.option("--session", metavar="LABEL", help="Session to continue. Default: a new one.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@click.option("--wait/--no-wait", default=True, help="Wait until the memory is written, or not.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its cost as JSON.")
@click.pass_context
def run(
    ctx: click.Context, text: tuple[str, ...], session: str | None, model: str, wait: bool, as_json: bool
) -> None:
    """Run one task and print the answer.

    Piped input is included: `git diff | nexus run "Write a commit message"`. The answer goes to stdout,
    everything else to stderr. With --session the agent continues that session; `nexus chat` uses `main`.

    Without `nexus up`, it then waits until the memory is written. Ctrl-C or --no-wait leaves that for later.
    """
    task = _task(" ".join(text), "" if sys.stdin.isatty() else lenient_input().read())
    home, settings = answering_home(ctx, model)
    # Imported here, because the libraries behind it take longer than `nexus run --help` may.
    from nexus.cli.answer import answer

    label = session or f"run:{ids.new('ses')}"
    answer(home, settings, task, label, model, wait=wait, as_json=as_json)


def _task(text: str, piped: str) -> str:
    if not text.strip() and not piped.strip():
        raise UsageError("No task given", hint='Run `nexus run "…"`, or pipe in text.')
    if not piped.strip():
        return text
    return f"{text}\n\n{wrapped('input', piped.rstrip())}" if text.strip() else piped.rstrip()
