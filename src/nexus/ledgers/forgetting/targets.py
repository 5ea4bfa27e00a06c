"""What is to be forgotten: an entity, a fact, a message, a thread, a scope, a time range or an import."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, cast

import apsw

from nexus import clock
from nexus.errors import UsageError
from nexus.ledgers import sql
from nexus.ledgers.forgetting.rules import Table, Text, Then
from nexus.ledgers.forgetting.sets import Sets, gone_condition
from nexus.ledgers.forgetting.tables import TOUCHED
from nexus.ledgers.memory import find_fact

# One letter alone names nobody.
_SHORTEST = 2
# Scripts that are written without spaces: neither word edges nor the full-text index find a name in them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BLANKS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_NESTED_ESCAPES = 3


def fold(text: str) -> str:
    """Return the text without case and accents."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))


@dataclass(frozen=True)
class Names:
    """The names of one entity, by which its mentions are found."""

    all: tuple[str, ...] = ()

    @staticmethod
    def of(texts: Iterable[str | None], without: Sequence[str] = ()) -> "Names":
        """Return the distinct names among the texts, leaving out those that the caller does not want used."""
        unwanted = {fold(text.strip()) for text in without}
        kept: dict[str, str] = {}
        for text in texts:
            name = (text or "").strip()
            if len(name) >= _SHORTEST and fold(name) not in unwanted:
                kept.setdefault(fold(name), name)
        return Names(tuple(kept.values()))

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        each = [_pattern(fold(name)) for name in self.all]
        return [re.compile(pattern) for pattern in [*each, "|".join(each) or r"(?!)"]]

    @cached_property
    def _hints(self) -> list[tuple[str, ...]]:
        """A word of each name, which is quick to miss in a text."""
        each = [_hint(fold(name)) for name in self.all]
        return [*((hint,) for hint in each), tuple(dict.fromkeys(each))]

    def found(self, text: str | None, which: int = -1) -> bool:
        """Whether a text holds one of the names, or the one at an index."""
        if not text:
            return False
        if self._stands_in(fold(text), which):
            return True
        for _ in range(_NESTED_ESCAPES):
            if "\\" not in text:
                return False
            text = unescape(text)
            if self._stands_in(fold(text), which):
                return True
        return False

    def _stands_in(self, folded: str, which: int) -> bool:
        return any(hint in folded for hint in self._hints[which]) and bool(
            self._patterns[which].search(folded)
        )

    def query(self, which: int) -> str | None:
        """Return what to ask the full-text index for; None where it cannot find the name."""
        words = _WORD.findall(self.all[which])
        if not words or _UNSPACED.search(self.all[which]):
            return None
        return f'"{" ".join(words)}"'


def _pattern(name: str) -> str:
    """Return a regular expression for a folded name. Between its words may stand a space, a dot, a dash, …"""
    words = _WORD.findall(name)
    if _UNSPACED.search(name) or not words:
        return re.escape(name)
    # What is left of "C++" without its signs would be found everywhere.
    short = len("".join(words)) <= _SHORTEST
    inner = re.escape(name) if short else r"[\W_]{1,3}".join(words)
    return rf"(?<![^\W_]){inner}(?:['\u2019]?s)?(?![^\W_])"


def _hint(name: str) -> str:
    return max(_WORD.findall(name), key=len, default=name)


def unescape(text: str) -> str:
    decoded = _ESCAPE.sub(_character, text)
    # Two escapes of a surrogate pair are one character.
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _BLANKS.get(code, code)


_NEAR = 5

Kind = Literal["entity", "fact", "event", "thread", "scope", "range", "import"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is to be forgotten. `value` holds no content: an id, a channel, or the range as START/END."""

    kind: Kind
    value: str
    # Whether what names an entity goes too, and the names by which it is found.
    mentions: bool = False
    names: Names = field(default_factory=Names)
    # Whether some of its names are not searched for.
    skips_names: bool = False

    @property
    def range(self) -> tuple[str, str] | None:
        """The first moment of a range, and the first one after it."""
        start, _, end = self.value.partition("/")
        return (start, end) if self.kind == "range" else None


def entity(
    connection: apsw.Connection, wanted: str, *, mentions: bool = True, without: tuple[str, ...] = ()
) -> Target:
    """Return the entity with that id or name; a merged one stands for the one that it was merged into."""
    queries = sql.queries("forgetting")
    bindings = {"wanted": wanted.strip(), "folded": wanted.strip().casefold()}
    found = _texts(connection, queries["entities_called"], bindings)
    if not found:
        raise _unknown_entity(connection, wanted)
    roots = sorted({_texts(connection, queries["root_of_entity"], {"id": each})[0] for each in found})
    if len(roots) > 1:
        raise UsageError(
            f"{len(roots)} entities are called {wanted!r}: {', '.join(roots[:_NEAR])}",
            hint="Pass the id of one; `nexus memory show ID` describes it.",
        )
    if connection.execute(queries["is_owner"], {"id": roots[0]}).get:
        raise UsageError(
            f"{wanted!r} is the owner of this home",
            hint="Delete threads or time ranges, or the whole home.",
        )
    names = _texts(connection, queries["names_of_entity"], {"id": roots[0]}) if mentions else []
    return Target(
        kind="entity",
        value=roots[0],
        mentions=mentions,
        names=Names.of(names, without),
        skips_names=bool(without),
    )


def fact(connection: apsw.Connection, wanted: str) -> Target:
    """Return the fact with that id, and what was concluded from it. The message that it came from stays.

    A note that was recorded to be its source goes with it.
    """
    return Target(kind="fact", value=find_fact(connection, wanted))


def event(connection: apsw.Connection, wanted: str) -> Target:
    """Return the message with that id, and what was learned from it."""
    found = connection.execute("SELECT id FROM events.events WHERE id = ?", (wanted.strip(),)).get
    if not found:
        raise UsageError(f"Unknown message {wanted!r}", hint="It may have been forgotten already.")
    return Target(kind="event", value=cast("str", found))


def scope(channel: str) -> Target:
    """Return everything of one scope: what its channel recorded, what was learned from it, its entities."""
    return Target(kind="scope", value=channel)


def thread(connection: apsw.Connection, wanted: str) -> Target:
    """Return the thread with that id."""
    found = connection.execute("SELECT id FROM events.threads WHERE id = ?", (wanted.strip(),)).get
    if not found:
        raise UsageError(
            f"Unknown thread {wanted!r}",
            hint='See them with `nexus sql "SELECT id, channel, title FROM threads ORDER BY updated_at"`.',
        )
    return Target(kind="thread", value=cast("str", found))


def import_(connection: apsw.Connection, wanted: str) -> Target:
    """Return the import with that id: what it recorded, and what was learned from it."""
    found = connection.execute("SELECT id FROM events.imports WHERE id = ?", (wanted.strip(),)).get
    if not found:
        raise UsageError(f"No import has the id {wanted!r}", hint="List them with `nexus import --list`.")
    return Target(kind="import", value=cast("str", found))


def time_range(start: str, end: str) -> Target:
    """Return everything from `start` until just before `end`."""
    try:
        first, after = clock.parse(start), clock.parse(end)
    except ValueError as error:
        raise UsageError(
            f"Invalid time: {error}", hint="Use a form like 2026-02-13 or 2026-02-13T10:00:00Z."
        ) from error
    if first >= after:
        raise UsageError(
            f"The range from {clock.timestamp(first)} to {clock.timestamp(after)} is empty",
            hint="The end must be after the start; it is exclusive.",
        )
    return Target(kind="range", value=f"{clock.timestamp(first)}/{clock.timestamp(after)}")


def bounds(target: Target) -> dict[str, str | None]:
    """Return a range's limits for SQL: exact ones, and wider ones in text that an index can use.

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
        hint=f"Similar: {listed}." if listed else "List them with `nexus memory people`.",
    )


def _texts(connection: apsw.Connection, query: str, bindings: dict[str, str]) -> list[str]:
    return [cast("str", row[0]) for row in connection.execute(query, bindings)]


def seed(sets: Sets, names: Names) -> dict[str, int]:
    """Let everything go that names the entity; returns in how many indexed texts each name was found."""
    if not names.all:
        return {}

    def names_it(*text_and_which: Any) -> bool:
        return names.found(*text_and_which)

    sets.connection.create_scalar_function("names_it", names_it, 2, deterministic=True)
    found: dict[str, int] = {}
    for which, name in enumerate(names.all):
        found[name] = sum(
            _seed_indexed(sets, table, names, which) for table in TOUCHED.values() if table.indexed
        )
    for table in TOUCHED.values():
        for text in table.texts:
            _seed_text(sets, table, text)
    return found


def count_kept(sets: Sets, names: Names) -> dict[str, int]:
    """Count how many rows name the entity and stay, by `ledger.table.column`."""
    counts: dict[str, int] = {}
    for table in TOUCHED.values() if names.all else ():
        for text in table.texts:
            if text.then is Then.TELL:
                goes = gone_condition(table, "gone_{}".format)
                query = f"{table.path} WHERE names_it({text.column}, -1) AND NOT coalesce({goes}, FALSE)"
                counts[f"{table.path}.{text.column}"] = cast(
                    "int",
                    sets.connection.execute(f"SELECT count(*) FROM {query}").get,  # noqa: S608 - names are constants of the program, values are bound
                )
    return {place: count for place, count in counts.items() if count}


def _seed_indexed(sets: Sets, table: Table, names: Names, which: int) -> int:
    """Ask the full-text index first, where it can find the name: it is fast, and takes too many forms."""
    in_texts = " OR ".join(f"names_it({column}, {which})" for column in table.indexed)
    query = names.query(which)
    source = f"{table.path} WHERE ({in_texts})"
    if query is not None:
        source += (
            f" AND seq IN (SELECT rowid FROM {table.ledger}.{table.index} WHERE {table.index} MATCH :query)"  # noqa: S608 - names are constants of the program, values are bound
        )
    connection = sets.connection
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS hits (key TEXT NOT NULL)")
    connection.execute("DELETE FROM hits")
    connection.execute(f"INSERT INTO hits SELECT {table.key_sql} FROM {source}", {"query": query})  # noqa: S608 - names are constants of the program, values are bound
    sets.add(table.name, "SELECT key FROM hits")
    return cast("int", connection.execute("SELECT count(*) FROM hits").get)


def _seed_text(sets: Sets, table: Table, text: Text) -> None:
    where = f"{table.path} WHERE {text.when} AND {text.column} <> '{{}}' AND names_it({text.column}, -1)"
    if text.then is Then.CLEAR:
        sets.empty(table.name, text.column, f"SELECT {table.key_sql} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
    elif text.then is Then.OWNER:
        sets.add(table.owner_table, f"SELECT {table.owner} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
    elif text.then is Then.ROW:
        sets.add(table.name, f"SELECT {table.key_sql} FROM {where}")  # noqa: S608 - names are constants of the program, values are bound
