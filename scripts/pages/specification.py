"""The page of what was specified and what became of it, from tests/acceptance/specification.toml."""

import os
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pages import markdown

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = "tests/acceptance/specification.toml"
# By how much of a statement is built.
STATES = {"built": "built", "different": "built differently", "partly": "in part", "missing": "missing"}
_ABOUT = """\
Nexus was specified before it was built, in five documents. This page lists their checkable statements in our
own words: where each lives, whether it is built as stated, and which tests show it. The documents' scripts,
SQL and commands run in `tests/acceptance/test_specification.py`, which fails if a test named here is gone.

{documents}

What is *built differently* does something else on purpose, for the reason given; [Decisions](decisions.md)
has the longer ones."""
_RENAMED = """\
The documents were written for TypeScript and, at first, for one database. Names of tables, columns, hook
points, files and commands are kept; these differ:"""


@dataclass(frozen=True)
class Statement:
    """One checkable sentence, and what became of it."""

    part: str
    says: str
    source: str
    lives: tuple[str, ...]
    tests: tuple[str, ...] = ()
    """Ids of tests, relative to the folder of tests."""
    state: str = "built"
    why: str = ""

    @property
    def files(self) -> list[str]:
        """What is named in `lives`, as paths in the repository."""
        return [place.partition("#")[0] for place in self.lives]


@dataclass(frozen=True)
class Rename:
    """What the documents call one way, and we another."""

    theirs: str
    ours: str
    why: str


@dataclass(frozen=True)
class Specification:
    statements: tuple[Statement, ...]
    renames: tuple[Rename, ...]
    documents: dict[str, str]
    in_examples: dict[str, str]
    """What is replaced in printed examples before they run."""


@cache
def load() -> Specification:
    read = tomllib.loads((_ROOT / _SOURCE).read_text(encoding="utf-8"))
    return Specification(
        statements=tuple(
            _statement(part["name"], each) for part in read["part"] for each in part["statements"]
        ),
        renames=tuple(Rename(**each) for each in read["renames"]),
        documents=read["documents"],
        in_examples=read["in_examples"],
    )


def _statement(part: str, value: dict[str, Any]) -> Statement:
    given = dict(value)
    made = Statement(
        part=part,
        source=given.pop("from"),
        lives=tuple(given.pop("lives")),
        tests=tuple(given.pop("tests", ())),
        **given,
    )
    if made.state not in STATES:
        raise ValueError(f"{made.says}: unknown state {made.state!r}")
    return made


def page() -> str:
    found = load()
    documents = markdown.table(["Short name", "Document"], [list(each) for each in found.documents.items()])
    about = _ABOUT.format(documents=documents)
    parts = markdown.front("The specification", _SOURCE, about)
    parts += ["## How much of it is built", _counts(found.statements)]
    parts += [
        "## Renamed",
        _RENAMED,
        markdown.table(
            ["Specified", "Here", "Why"],
            [[markdown.code(each.theirs), markdown.code(each.ours), each.why] for each in found.renames],
        ),
    ]
    for name, statements in _by_part(found.statements).items():
        rows = [[each.says, each.source, _status(each), _places(each), _tests(each)] for each in statements]
        parts += [f"## {name}", markdown.table(["Statement", "From", "Status", "Where", "Shown by"], rows)]
    return markdown.join(parts)


def _by_part(statements: Iterable[Statement]) -> dict[str, list[Statement]]:
    found: dict[str, list[Statement]] = {}
    for each in statements:
        found.setdefault(each.part, []).append(each)
    return found


def _counts(statements: tuple[Statement, ...]) -> str:
    rows = [_count(name, some) for name, some in _by_part(statements).items()]
    rows.append([f"**{cell}**" for cell in _count("All", statements)])
    return markdown.table(["Part", "Statements", *STATES.values()], rows)


def _count(name: str, statements: Iterable[Statement]) -> list[str]:
    states = Counter(each.state for each in statements)
    return [name, str(states.total()), *(str(states[state]) for state in STATES)]


def _status(statement: Statement) -> str:
    if statement.state == "built":
        return "built"
    return f"**{STATES[statement.state]}**: {statement.why}"


def _places(statement: Statement) -> str:
    return ", ".join(map(_place, statement.lives))


def _place(place: str) -> str:
    path = Path(place.partition("#")[0])
    if path.parts[0] != "docs":
        return f"`{place}`"
    return f"[{path.stem}]({os.path.relpath(place, 'docs')})"


def _tests(statement: Statement) -> str:
    files = dict.fromkeys(f"tests/{test.partition('::')[0]}" for test in statement.tests)
    return ", ".join(f"`{file}`" for file in files)
