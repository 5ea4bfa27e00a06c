"""What commands draw: tables as wide as the terminal or wide enough to read in a file, and progress bars."""

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH_IN_A_FILE = 150


def print_table(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    """Print a table without a frame. A column whose name ends in `#` is right-aligned."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(
            name.removesuffix("#"), justify="right" if name.endswith("#") else "left", overflow="fold"
        )
    for line in lines:
        table.add_row(*(Text("" if value is None else str(value)) for value in line))
    # Only a terminal gets colors.
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH_IN_A_FILE, highlight=False)
    console.print(table)


@contextmanager
def show_progress(
    what: str, unit: Literal["steps", "bytes", "lines"] = "steps"
) -> Generator[Callable[..., None]]:
    """Show on a terminal how far a long command has come.

    The callable takes what is done, and how much there is, or 0 while nobody knows.
    """
    # Imported here, because it takes longer than a command that prints a table may.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = {
        "steps": (TextColumn("{task.description} {task.completed:,.0f}"), BarColumn(), TimeRemainingColumn()),
        "bytes": (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn()),
        "lines": (TextColumn("{task.description} {task.completed:,.0f} lines"),),
    }[unit]
    # On standard error, because standard output may be the exported file itself.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int = 0) -> None:
            bar.update(task, completed=done, total=total or None)

        yield update
