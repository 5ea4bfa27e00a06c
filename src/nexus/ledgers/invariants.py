"""What must hold across the ledgers, checked without changing them.

The statements are in `invariants.sql`. They run over the ledgers attached read-only to one connection, so a
home of any size is checked in little memory.
"""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw

from nexus.home import Home
from nexus.ledgers import attach, sql
from nexus.ledgers.failures import translate_errors

Invariant = Literal[
    "requests", "turns", "dispatches", "answers", "usage", "order", "effects", "queue", "invocations"
]
LISTED = 100
"""So many violations of each invariant are listed at most."""
_IN_LEDGERS: tuple[Invariant, ...] = (
    "requests", "turns", "dispatches", "answers", "usage", "order", "effects",
)  # fmt: skip
_STATEMENTS = sql.load_statements(Path(__file__).with_suffix(".sql"))
_ATTACHED = ("events", "agents", "memory", "runtime")
_TOGETHER = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """Something that breaks an invariant."""

    invariant: Invariant
    subject: str
    """The id of what breaks it."""
    problem: str
    """What is wrong with it, to be read after the id."""

    def __str__(self) -> str:
        return f"{self.subject} {self.problem}"


class Unfinished(NamedTuple):
    """A run or an async invocation that has not ended."""

    id: str
    kind: Literal["executions", "invocations"]
    status: str


class Look:
    """A look into the ledgers of a home."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def violations(self, *, before: str, strict: bool) -> Iterator[Violation]:
        """Yield every violation that the ledgers show by themselves.

        Requests that came in at `before` or later may still be on their way to their run. `strict` says that
        the memory writer was on all along.
        """
        for name in _IN_LEDGERS:
            for subject, problem in self._rows(name, before=before, strict=strict, limit=LISTED):
                yield Violation(invariant=name, subject=subject, problem=problem)

    def list_unfinished(self) -> Iterator[list[Unfinished]]:
        """Yield runs and async invocations that have not ended, some at a time."""
        after = ""
        while page := [Unfinished(*row) for row in self._rows("unfinished", after=after, limit=_TOGETHER)]:
            yield page
            after = page[-1].id

    def find_statuses(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of some runs and invocations that the ledger knows."""
        return dict(self._rows("recorded", ids=json.dumps(list(ids))))

    def _rows(self, name: str, **values: object) -> Iterator[Any]:
        statement = _STATEMENTS[name]
        used: Any = {key: value for key, value in values.items() if f":{key}" in statement}
        return self._connection.execute(statement, used)


@contextmanager
def look(home: Home) -> Generator[Look]:
    """Look into the ledgers without changing them."""
    with (
        translate_errors("runtime", home.ledger("runtime")),
        closing(attach.connect(home, _ATTACHED)) as connection,
    ):
        yield Look(connection)
