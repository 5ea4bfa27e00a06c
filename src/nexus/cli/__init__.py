"""The `nexus` program. Each command's file is imported when that command is used, so help is quick.

Click, not Typer: Typer's own import takes longer than the whole of `nexus --help` may.
"""

import gc
import importlib
import os
import sys
from typing import Any

import click

from nexus import __version__
from nexus.cli.terminal import printable
from nexus.errors import NexusError

# Every command: the file and function that carry it out, and its line in the help.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("nexus.cli.init:init", "Make a home, or complete one."),
    "demo": ("nexus.cli.demo:demo", "Fill a new home with an invented month, to look at."),
    "up": ("nexus.cli.up:up", "Run the home until Ctrl-C."),
    "logs": ("nexus.cli.logs:logs", "See what the process that serves the home has logged."),
    "login": ("nexus.cli.login:login", "A link to the dashboard, or the token for programs."),
    "status": ("nexus.cli.status:status", "A short picture of the home, to read or to paste."),
    "chat": ("nexus.cli.chat:chat", "Talk with the agent."),
    "run": ("nexus.cli.run:run", "Give the agent one task, also in a pipe."),
    "doctor": ("nexus.cli.doctor:doctor", "Find what is wrong with the home, and mend it."),
    "recall": ("nexus.cli.recall:recall", "Ask the memory, and see why it answers as it does."),
    "reflect": ("nexus.cli.reflect:reflect", "Answer a question from the memory, with sources."),
    "memory": ("nexus.cli.memory:memory", "Look at what is known about whom, and say who is who."),
    "eval": ("nexus.cli.eval:evaluate", "Measure the memory with your model, on recorded conversations."),
    "skills": ("nexus.cli.skills:skills", "Give a workspace what an agent needs to use the memory."),
    "models": ("nexus.cli.models:models", "See and fetch the small networks that the memory uses."),
    "sql": ("nexus.cli.sql:sql", "Ask the six databases with sqlite3."),
    "trace": ("nexus.cli.trace:trace", "See what was done for a request, how long it took, what it cost."),
    "usage": ("nexus.cli.usage:usage", "See what was spent on what, and what may be spent."),
    "automations": ("nexus.cli.automations:automations", "Register what runs at hook points."),
    "mcp": ("nexus.cli.mcp:mcp", "Give other agents this memory."),
    "channels": ("nexus.cli.channels:channels", "See how channels are doing, pause and retry them."),
    "access": ("nexus.cli.access:access", "Decide who may talk to the agent, and what they may reach."),
    "engine": ("nexus.cli.engine:engine", "See and steer the work that waits, runs and failed."),
    "backup": ("nexus.cli.backup:backup", "Copy a live home to a safe place."),
    "restore": ("nexus.cli.backup:restore", "Bring a backup back."),
    "export": ("nexus.cli.transfer:export", "Write a whole home to one JSONL file."),
    "import": ("nexus.cli.transfer:import_", "Import a history, or make a home from an exported file."),
    "forget": ("nexus.cli.forget:forget", "Remove an entity, a thread, a time range or an import for good."),
}

_LOOK = "Run `nexus doctor`: it checks files, permissions and disk space."


class _Commands(click.Group):
    """A group that knows its commands by name and loads only the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            # Click knows no commands to suggest, because they aren't loaded.
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=COMMANDS, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`nexus COMMAND --help` tells more about each. Start with `nexus init`.",
)
@click.option(
    "--home",
    metavar="PATH",
    help="The home to work on. Default: $NEXUS_HOME, else ~/.nexus.",
)
@click.version_option(__version__, prog_name="nexus")
@click.pass_context
def program(ctx: click.Context, home: str | None) -> None:
    """A personal agent with a memory that you can look inside."""
    ctx.obj = home


def main() -> None:
    """Run the program; an error becomes two plain lines and exit code 1."""
    # Two threads of linear algebra wait for each other on searches as short as ours.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Most of what a start makes stays: looking through it after every 700 objects takes a tenth of the start.
    gc.set_threshold(20_000, 20)
    try:
        program.main(prog_name="nexus")
    except NexusError as error:
        _fail(error.message, error.hint)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(
            f"{place}{error.strerror or error}",
            _LOOK,
        )


def _fail(message: str, hint: str) -> None:
    click.echo(f"nexus: {printable(message)}", err=True)
    if hint:
        click.echo(f"  {printable(hint)}", err=True)
    sys.exit(1)
