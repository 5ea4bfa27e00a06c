"""SQL lives in .sql files; this reads the named statements of one that lies beside the code that uses it."""

from functools import cache
from pathlib import Path


@cache
def named(file: Path) -> dict[str, str]:
    """The statements of a file, in which a line `-- name: keyword_events` starts each one."""
    found: dict[str, str] = {}
    for part in file.read_text(encoding="utf-8").split("-- name:")[1:]:
        name, _, statement = part.partition("\n")
        found[name.strip()] = statement.strip()
    return found
