"""Tables for people: as wide as the terminal, or wide enough to read in a file."""

import sys
from collections.abc import Iterable, Sequence

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
