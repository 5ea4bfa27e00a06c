"""`nexus sql`: ask the six databases, with the sqlite3 program where there is one."""

import os
import shutil
import sys

import click

from nexus.cli.place import opened_home
from nexus.ledgers import attach


@click.command(
    # -h would swallow options of sqlite3 such as -header.
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]}
)
@click.option("--write", is_flag=True, help="Open for writing too. Without it nothing can be changed.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[SQL | SQLITE3-OPTIONS]...")
@click.pass_context
def sql(ctx: click.Context, write: bool, arguments: tuple[str, ...]) -> None:
    """Open a shell over all six databases, or run one statement.

    Tables need no prefix: `nexus sql "SELECT count(*) FROM events"`. Options of the sqlite3 program
    such as -json or -header are passed on: `nexus sql -json "SELECT * FROM entities LIMIT 3"`.
    """
    home, _ = opened_home(ctx)
    attach.ensure(home)
    init_file = str(attach.path(home, writes=write))
    program = shutil.which("sqlite3")
    if program is not None:
        words = [program, "-init", init_file, ":memory:", *arguments]
        os.execv(program, words)  # noqa: S606  the shell takes over this process, its terminal and its exit code
    from apsw.shell import main as shell

    options = [argument for argument in arguments if argument.startswith("-")]
    statements = [argument for argument in arguments if not argument.startswith("-")]
    sys.argv = ["nexus sql", *options, "-init", init_file, ":memory:", *statements]
    shell()
