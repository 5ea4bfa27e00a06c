"""The `nexus` program. Each command's file is imported when that command is used, so help is quick.

Click, not Typer: Typer's own import takes longer than the whole of `nexus --help` may.
"""

import gc
import importlib
import os
import sys
from typing import Any, cast

import click

from nexus import __version__
from nexus.errors import NexusError

# httpx imports its own command line too, with rich and Pygments, which takes longer than all the rest of it.
# A module that is None here is one that isn't installed.
sys.modules.setdefault("httpx._main", cast("Any", None))

# Every command under a heading of the help: the file and function that carry it out, and its line.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("nexus.cli.init:init", "Create a home, or finish setting one up."),
        "demo": ("nexus.cli.demo:demo", "Create a sample home with a made-up month of data."),
        "up": ("nexus.cli.up:up", "Run Nexus: agents, API and dashboard."),
        "connect": ("nexus.cli.connect:connect", "Show what can be connected, what is, and how."),
        "login": ("nexus.cli.up:login", "Print a dashboard login link or the API token."),
        "status": ("nexus.cli.status:status", "Show a summary of the home."),
        "doctor": ("nexus.cli.doctor:doctor", "Diagnose and repair problems."),
    },
    "Talk": {
        "chat": ("nexus.cli.chat:chat", "Chat with the agent."),
        "run": ("nexus.cli.run:run", "Run one task and print the answer."),
        "acp": ("nexus.cli.acp:acp", "Talk to the agent in Zed and other editors (ACP)."),
        "remind": ("nexus.cli.remind:remind", "Set, list, pause and delete reminders."),
        "followups": ("nexus.cli.followups:followups", "See promises, and close those that are kept."),
        "calendar": ("nexus.cli.calendar:calendar", "Connect calendars and contacts (CalDAV, ICS)."),
        "approvals": ("nexus.cli.approvals:approvals", "Approve or deny pending tool calls."),
        "channels": ("nexus.cli.channels:channels", "Connect email, Telegram and other channels."),
        "access": ("nexus.cli.access:access", "Manage who may talk to the agent."),
    },
    "Memory": {
        "recall": ("nexus.cli.recall:recall", "Search the memory."),
        "reflect": (
            "nexus.cli.memory_conclusions:reflect",
            "Answer a question from the memory, with sources.",
        ),
        "memory": ("nexus.cli.memory:memory", "See and correct what Nexus knows: facts, people, changes."),
        "mcp": ("nexus.cli.mcp:mcp", "Connect other agents to this memory over MCP."),
        "import": ("nexus.cli.transfer:import_", "Import chat or mail history, or an exported home."),
        "backfill": ("nexus.cli.backfill:backfill", "Learn from imported histories."),
        "forget": ("nexus.cli.forget:forget", "Permanently delete an entity, thread, time range or import."),
    },
    "Inspect": {
        "trace": ("nexus.cli.trace:trace", "Show the trace of a request: steps, timing and cost."),
        "usage": ("nexus.cli.usage:usage", "Show token usage, cost and budgets."),
        "sql": ("nexus.cli.sql:sql", "Query the six databases with SQL."),
        "logs": ("nexus.cli.logs:logs", "Show the log of `nexus up`."),
        "engine": ("nexus.cli.engine:engine", "Inspect, retry and cancel background work."),
    },
    "Extend": {
        "automations": ("nexus.cli.automations:automations", "Register, test and inspect automations."),
        "skills": ("nexus.cli.skills:skills", "Add, review and enable Agent Skills."),
        "models": ("nexus.cli.models:models", "List, test and download models."),
        "eval": ("nexus.cli.eval:evaluate", "Evaluate a model on recorded conversations."),
    },
    "Back up": {
        "backup": ("nexus.cli.backup:backup", "Back up the home, even while it is running."),
        "restore": ("nexus.cli.backup:restore", "Restore a backup."),
        "export": ("nexus.cli.transfer:export", "Export the home as JSONL or Markdown."),
    },
    "Host": {
        "host": ("nexus.cli.host:host", "Serve many homes in one process."),
    },
}
COMMANDS = {name: command for section in SECTIONS.values() for name, command in section.items()}

_LOOK = "Run `nexus doctor`: it checks files, permissions and disk space."


class _Commands(click.Group):
    """A group that lists commands by name and imports only the one that is used."""

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
        width = max(map(len, COMMANDS))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, (_, line) in commands.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run `nexus COMMAND --help` for details. Start with `nexus init`.",
)
@click.option(
    "--home",
    metavar="PATH",
    help="The home folder to use. Default: $NEXUS_HOME, else ~/.nexus.",
)
@click.version_option(__version__, prog_name="nexus")
@click.pass_context
def program(ctx: click.Context, home: str | None) -> None:
    """A personal agent with a memory you can inspect."""
    ctx.obj = home


def main() -> None:
    """Run the program. Print an error as two plain lines and exit with code 1."""
    # With two threads of linear algebra, searches as short as ours only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Most objects of a start stay: collecting after every 700 of them takes a tenth of the start.
    gc.set_threshold(20_000, 20)
    try:
        program.main(prog_name="nexus")
    except NexusError as error:
        _fail(error.message, error.hint)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}", _LOOK)


def _fail(message: str, hint: str) -> None:
    from nexus.cli.place import printable  # most commands don't fail, and help needs none of it

    click.echo(f"nexus: {printable(message)}", err=True)
    if hint:
        click.echo(f"  {printable(hint)}", err=True)
    sys.exit(1)
