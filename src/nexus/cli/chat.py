"""`nexus chat`: a conversation in the terminal, or line by line through a pipe."""

import asyncio
import sys

import click

from nexus import ids
from nexus.cli.place import answering_home

_HELP = """\
/new             begin a new session
/memory [WORDS]  what the memory holds about them, or about what you said last
/cost            what the session cost so far
/trace           what was done for what you said last
/help            show this
/quit            leave; so does Ctrl-D
Ctrl-C           stop the answer that is being written
Alt-Enter        a further line of the same message"""


@click.command()
@click.option(
    "--session", metavar="LABEL", default="main", show_default=True, help="The session to go on with."
)
@click.option("--new", is_flag=True, help="Begin a new session.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Who is to answer, instead of [models].")
@click.pass_context
def chat(ctx: click.Context, session: str, new: bool, model: str) -> None:
    """Talk with the agent. It remembers what was said before in the same session.

    A home that `nexus up` serves is talked with through it. In a pipe every line is a message or a
    command such as /cost, and nothing but what they lead to is printed; where one of them failed, the exit
    code is 1.
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
