"""Generate docs/reference and docs/specification.md from the code, or check that they are current.

`python scripts/reference.py` writes the pages; `--check` writes nothing and fails where one is stale.
"""

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from pages import api, commands, errors, hook_points, recording, schema, settings, specification

PAGES: dict[str, Callable[[], str]] = {
    "schema.md": schema.page,
    "commands.md": commands.page,
    "settings.md": settings.page,
    "errors.md": errors.page,
    "hook-points.md": hook_points.page,
    "http-api.md": api.page,
}
_ROOT = Path(__file__).resolve().parent.parent
_DOCS = _ROOT / "docs" / "reference"
# What lies elsewhere: a page beside the reference, and what the program itself shows of it.
_ELSEWHERE: dict[Path, Callable[[], str]] = {
    _ROOT / "docs/specification.md": specification.page,
    _ROOT / "docs/assets/terminal.svg": recording.picture,
    _ROOT / "src/nexus/gateway/dashboard/commands.json": commands.summaries,
}
_DIFF_LINES = 20


def write(folder: Path) -> list[str]:
    """Write the pages that are missing or differ; returns their names."""
    written: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    for file, render in _files(folder).items():
        content = render()
        if _read(file) != content:
            file.write_text(content, encoding="utf-8")
            written.append(file.name)
    return written


def stale(folder: Path) -> list[str]:
    """What is wrong with each page that is not current: its name and the first lines that differ."""
    return [
        f"{file} is stale:\n{_difference(found, wanted)}"
        for file, render in _files(folder).items()
        if (found := _read(file)) != (wanted := render())
    ]


def _files(folder: Path) -> dict[Path, Callable[[], str]]:
    elsewhere = _ELSEWHERE if folder == _DOCS else {}
    return {**{folder / name: render for name, render in PAGES.items()}, **elsewhere}


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _difference(found: str, wanted: str) -> str:
    lines = list(difflib.unified_diff(found.splitlines(), wanted.splitlines(), "page", "code", "", "", 1, ""))
    shown = lines[:_DIFF_LINES]
    if len(lines) > len(shown):
        shown.append(f"… and {len(lines) - len(shown)} more lines")
    return "\n".join(f"  {line}" for line in shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where a page is stale")
    parser.add_argument("--folder", type=Path, default=_DOCS, help="where the pages are")
    arguments = parser.parse_args()
    if not arguments.check:
        for name in write(arguments.folder):
            print(f"wrote {name}")
        return 0
    problems = stale(arguments.folder)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("Run `python scripts/reference.py` and commit what it writes.", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
