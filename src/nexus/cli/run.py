"""`nexus run`: one task, one answer, for the terminal and for pipes."""

import sys

import click

from nexus import ids
from nexus.cli.place import answering_home, lenient_input
from nexus.context.wrapping import wrapped
from nexus.errors import UsageError


@click.command()
@click.argument("text", nargs=-1)
@click.option("--session", metavar="LABEL", help="Go on with this session. Without it, a new one is begun.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Who is to answer, instead of [models].")
@click.option(
    "--wait/--no-wait", default=True, help="Wait until the memory is written, or leave that for later."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer and its cost for a program to read.")
@click.pass_context
def run(
    ctx: click.Context, text: tuple[str, ...], session: str | None, model: str, wait: bool, as_json: bool
) -> None:
    """Give the agent one task and print its answer.

    What is piped in is given along: `git diff | nexus run "Write a commit message"`. The answer goes to
    standard output, everything else to standard error. With --session the agent remembers what was said
    before under that label; `nexus chat` uses `main`.

    Where no `nexus up` serves the home, it then waits until the memory is written; Ctrl-C or --no-wait leaves
    that for the next command that opens the home.
    """
    task = _task(" ".join(text), "" if sys.stdin.isatty() else lenient_input().read())
    home, settings = answering_home(ctx, model)
    # Imported here, because the libraries behind it take longer than `nexus run --help` may.
    from nexus.cli.answer import answer

    label = session or f"run:{ids.new('ses')}"
    answer(home, settings, task, label, model, wait=wait, as_json=as_json)


def _task(text: str, piped: str) -> str:
    if not text.strip() and not piped.strip():
        raise UsageError("There is no task", hint='Write `nexus run "…"`, or pipe something in.')
    if not piped.strip():
        return text
    return f"{text}\n\n{wrapped('input', piped.rstrip())}" if text.strip() else piped.rstrip()
