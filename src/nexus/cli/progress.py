"""How far a long command has come, shown on a terminal and nowhere else."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def bytes_shown(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar that fills; the callable takes the bytes done and the bytes in all."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
    with _progress(*columns) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def lines_shown(what: str) -> Generator[Callable[[int], None]]:
    """A count that grows; the callable takes the lines done."""
    with _progress(TextColumn("{task.description} {task.completed:,.0f} lines")) as bar:
        task = bar.add_task(what, total=None)
        yield lambda lines: bar.update(task, completed=lines)


@contextmanager
def steps_shown(what: str) -> Generator[Callable[[int, int], None]]:
    """A count that grows; the callable takes what is done, and how much there is, or 0."""
    columns = (TextColumn("{task.description} {task.completed:,.0f}"), BarColumn(), TimeRemainingColumn())
    with _progress(*columns) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _progress(*columns: ProgressColumn) -> Progress:
    # On standard error, because standard output may be the exported file itself.
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
