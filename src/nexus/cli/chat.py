"""`nexus chat`: a conversation in the terminal, or line by line through a pipe."""

import asyncio
import sys

import click

from nexus import ids
from nexus.cli.place import answering_home

_HELP = """\
/new             start a new session
/sessions [NAME] list sessions, or continue one
/model [NAME]    show the models, or use one from now on
/attach FILE     add an image, PDF or text file to your next message
/memory [WORDS]  search the memory, by default for your last message
/remind WORDS    set a reminder, such as: in two hours call Anna
/reminders       list reminders
/cost            show the cost of this session
/trace           show the trace of your last message
/help            show this help
/quit            quit (or Ctrl-D)
Ctrl-C           stop the answer
Alt-Enter        insert a line break"""


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
    home, settings = answering_home(ctx, model)
    # Imported here, because the libraries behind it take longer than `nexus chat --help` may.
    from nexus.cli.conversation import converse

    label = new_label() if new else session
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    done = asyncio.run(converse(home, settings, label, model, interactive=interactive, help_text=_HELP))
    # A person has seen what went wrong; a program in a pipe asks for the exit code.
    if not done and not interactive:
        ctx.exit(1)


def new_label() -> str:
    """A label that no session has yet."""
    return f"chat:{ids.new('ses')}"
