"""What a person wants forgotten: an entity, a thread, a time range or an import, found and checked."""

import difflib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, cast

import apsw

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.forgetting.names import Names, fold

_NEAR = 5

Kind = Literal["entity", "thread", "range", "import"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is to be forgotten. `value` holds no content: an id, or the range as START/END."""

    kind: Kind
    value: str
    # Whether what names an entity goes too, and the names by which it is found.
    mentions: bool = False
    names: Names = field(default_factory=Names)

    @property
    def range(self) -> tuple[str, str] | None:
        """The first moment of a range, and the first one after it."""
        start, _, end = self.value.partition("/")
        return (start, end) if self.kind == "range" else None


def entity(
    connection: apsw.Connection, wanted: str, *, mentions: bool = True, without: tuple[str, ...] = ()
) -> Target:
    """The entity with that id or name; one that was merged stands for the one that it was merged into."""
    queries = sql.queries("forgetting")
    bindings = {"wanted": wanted.strip(), "folded": wanted.strip().casefold()}
    found = _texts(connection, queries["entities_called"], bindings)
    if not found:
        raise _unknown_entity(connection, wanted)
    roots = sorted({_texts(connection, queries["root_of_entity"], {"id": each})[0] for each in found})
    if len(roots) > 1:
        raise UsageError(
            f"{len(roots)} entities are called {wanted!r}: {', '.join(roots[:_NEAR])}",
            hint="Give the id of the one you mean; `nexus sql` shows what is known about each.",
        )
    if connection.execute(queries["is_owner"], {"id": roots[0]}).get:
        raise UsageError(
            f"{wanted!r} is the owner of this home",
            hint="Forget threads or time ranges, or delete the home as a whole.",
        )
    names = _texts(connection, queries["names_of_entity"], {"id": roots[0]}) if mentions else []
    return Target(kind="entity", value=roots[0], mentions=mentions, names=Names.of(names, without))


def thread(connection: apsw.Connection, wanted: str) -> Target:
    """The thread with that id."""
    found = connection.execute("SELECT id FROM events.threads WHERE id = ?", (wanted.strip(),)).get
    if not found:
        raise UsageError(
            f"There is no thread {wanted!r}",
            hint='See them with `nexus sql "SELECT id, channel, title FROM threads ORDER BY updated_at"`.',
        )
    return Target(kind="thread", value=cast("str", found))


def import_(connection: apsw.Connection, wanted: str) -> Target:
    """The import with that id: what it recorded, and what was learned from it."""
    found = connection.execute("SELECT id FROM events.imports WHERE id = ?", (wanted.strip(),)).get
    if not found:
        raise UsageError(f"No import has the id {wanted!r}", hint="List them with `nexus import --list`.")
    return Target(kind="import", value=cast("str", found))


def time_range(start: str, end: str) -> Target:
    """Everything from `start` until just before `end`."""
    try:
        first, after = clock.parse(start), clock.parse(end)
    except ValueError as error:
        raise UsageError(
            f"That is not a time: {error}", hint="Write it as 2026-02-13 or 2026-02-13T10:00:00Z."
        ) from error
    if first >= after:
        raise UsageError(
            f"The range from {clock.timestamp(first)} to {clock.timestamp(after)} is empty",
            hint="The end comes after the start and is not part of the range.",
        )
    return Target(kind="range", value=f"{clock.timestamp(first)}/{clock.timestamp(after)}")


def bounds(target: Target) -> dict[str, str | None]:
    """A range's limits for SQL: exact ones, and wider ones in text that an index can use.

    Rows written by hand may hold times in another form (`2026-02-13 10:00:00`, an offset), which sorts
    at most a day beside its place.
    """
    if target.range is None:
        return {"start": None, "end": None, "low": None, "high": None}
    start, end = target.range
    low, high = clock.parse(start) - timedelta(days=1), clock.parse(end) + timedelta(days=2)
    return {"start": start, "end": end, "low": f"{low:%Y-%m-%d}", "high": f"{high:%Y-%m-%d}"}


def _unknown_entity(connection: apsw.Connection, wanted: str) -> UsageError:
    word = max(fold(wanted).split() or [""], key=len)
    rows = connection.execute(sql.queries("forgetting")["entities_like"], {"part": f"%{word[:3]}%"})
    known = {cast("str", name): cast("str", id_) for name, id_ in rows}
    by_fold = {fold(name): name for name in known}
    near = difflib.get_close_matches(fold(wanted), by_fold, n=_NEAR, cutoff=0.5)
    listed = ", ".join(f"{by_fold[name]} ({known[by_fold[name]]})" for name in near)
    return UsageError(
        f"No entity is called {wanted!r}",
        hint=f"Near it: {listed}."
        if listed
        else "`nexus sql` lists them: SELECT id, canonical_name FROM entities;",
    )


def _texts(connection: apsw.Connection, query: str, bindings: dict[str, str]) -> list[str]:
    return [cast("str", row[0]) for row in connection.execute(query, bindings)]
