"""`nexus sql`: query the six databases; with `--write`, change them through the sqlite3 program."""

import os
import shutil
import sys
from typing import Final

import apsw
import click

from nexus.cli.place import open_home
from nexus.home import Home
from nexus.ledgers import attach, read_only

_OPTIONS: Final = frozenset(
    {"bail", "batch", "echo", "header", "interactive", "noheader"}
    | {"box", "column", "csv", "html", "insert", "json", "jsonl", "line", "list", "table", "tcl"}
)
_OPTIONS_WITH_VALUE: Final = frozenset({"nullvalue", "separator"})
# A query that needs more memory than this fails, instead of the machine.
_MEMORY_LIMIT_BYTES: Final = 1024 * 1024 * 1024


@click.command(
    # -h would swallow options of sqlite3 such as -header.
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]}
)
@click.option("--write", is_flag=True, help="Allow writes.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[SQL | SQLITE3-OPTIONS]...")
@click.pass_context
def sql(ctx: click.Context, write: bool, arguments: tuple[str, ...]) -> None:
    """Run a SQL statement on all six databases, or open a shell.

    Tables need no prefix: `nexus sql "SELECT count(*) FROM events"`. Output options of sqlite3 work too:
    `nexus sql -json "SELECT * FROM entities LIMIT 3"`.
    """
    home, _ = open_home(ctx)
    attach.ensure(home)
    if write:
        _write(home, arguments)
    else:
        sys.exit(_read(home, arguments))


def _write(home: Home, arguments: tuple[str, ...]) -> None:
    init_file = str(attach.path(home, writes=True))
    program = shutil.which("sqlite3")
    if program is not None:
        words = [program, "-init", init_file, ":memory:", *arguments]
        os.execv(program, words)  # noqa: S606  the shell takes over this process, its terminal and its exit code
    options = [argument for argument in arguments if argument.startswith("-")]
    statements = [argument for argument in arguments if not argument.startswith("-")]
    sys.argv = ["nexus sql", *options, "-init", init_file, ":memory:", *statements]
    from apsw.shell import main as shell

    shell()


def _read(home: Home, arguments: tuple[str, ...]) -> int:
    from nexus.cli.sql_shell import ReadOnlyShell

    options, statements = _parse(list(arguments))
    apsw.hard_heap_limit(_MEMORY_LIMIT_BYTES)
    return ReadOnlyShell(db=read_only.connect(home)).run(options, statements)


def _parse(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Tell options of the shell from statements."""
    options: list[str] = []
    statements: list[str] = []
    while arguments:
        argument = arguments.pop(0)
        name = argument.lstrip("-")
        if not argument.startswith("-"):
            statements.append(argument)
        elif name in _OPTIONS:
            options.append(argument)
        elif name in _OPTIONS_WITH_VALUE and arguments:
            options += [argument, arguments.pop(0)]
        else:
            raise click.UsageError(f"{argument} needs --write; without it only output options are allowed.")
    return options, statements
