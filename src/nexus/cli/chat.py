"""`nexus chat`: a conversation in the terminal, or line by line through a pipe."""

import asyncio
import sys

import click

from nexus import commands, ids
from nexus.cli.place import open_answering_home

_NEW = "chat:"
_KEYS = (
    ("Ctrl-C", "stop the answer"),
    ("Alt-Enter", "insert a line break"),
    ("Ctrl-V", "attach the picture or files you copied"),
)


@click.command()
@click.option("--session", metavar="LABEL", default="main", show_default=True, help="Session to continue.")
@click.option("--new", is_flag=True, help="Start a new session.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@click.pass_context
def chat(ctx: click.Context, session: str, new: bool, model: str) -> None:
    """Chat with the agent.

    Connects to `nexus up` if it is running. In a pipe, each line is a message or a command such as /cost, and
    the exit code is 1 if one of them failed.
    """
    home, settings = open_answering_home(ctx, model)
    # Imported here, because the libraries behind it take longer than `nexus chat --help` may.
    from nexus.cli.conversation import converse

    label = new_label() if new else session
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    done = asyncio.run(converse(home, settings, label, model, interactive=interactive, help_text=help_text()))
    # A person has seen what went wrong; a program in a pipe asks for the exit code.
    if not done and not interactive:
        ctx.exit(1)


def help_text() -> str:
    """The commands and keys of the terminal, in two columns."""
    rows = [*((each.usage, each.about) for each in commands.list_for("terminal")), *_KEYS]
    width = max(len(usage) for usage, _ in rows)
    return "\n".join(f"{usage:{width}} {about}" for usage, about in rows)


def name_session(label: str) -> str:
    """What to call a session that has no title yet."""
    return "new" if label.startswith(_NEW) else label


def new_label() -> str:
    """A label that no session has yet."""
    return f"{_NEW}{ids.new('ses')}"
