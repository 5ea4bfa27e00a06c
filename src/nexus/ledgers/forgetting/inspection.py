"""Looking for what was forgotten: by key in rows, by id in bytes, and by its words while they are known."""

import gzip
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import apsw

from nexus.errors import NexusError
from nexus.home import LEDGERS, Home
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.forgetting import traces
from nexus.ledgers.forgetting.receipts import Digests, KnownBackup, Place, Receipt
from nexus.ledgers.forgetting.sets import attach_all, key_condition, list_removal_conditions
from nexus.ledgers.forgetting.tables import TOUCHED
from nexus.ledgers.forgetting.traces import Patterns, Words

# A row's kind (a table, or `table.column` for a text that was emptied) and its key.
Item = tuple[str, str]

_DERIVED: Final = ("episodes", "analysis_runs", "mental_models", "owner_profiles")
_RECORDED: Final = (
    *("agent_turns", "agent_messages", "agent_tool_calls", "requests", "executions", "steps", "invocations"),
    *("injections", "dispatches", "approvals", "spans"),
)
_TRACED: Final = frozenset(
    {"events", "facts", "episodes", "analysis_runs", "mental_models", "agent_turns", "agent_messages"}
)
_ID: Final = re.compile(rb"([a-z]{2,4})_([0-9A-HJKMNP-TV-Z]{26})")
_MODELS: Final = frozenset({".gguf", ".onnx", ".safetensors"})
_URI: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """How much of the ledgers' files held no rows, and how much their logs held."""

    free_pages: int
    wal_bytes: int


def measure(home: Home) -> Sizes:
    """Measure the free pages and the logs of a home's ledgers."""
    with closing(attach_all(home)) as connection:
        pages = sum(cast("int", connection.execute(f"PRAGMA {name}.freelist_count").get) for name in LEDGERS)
    return Sizes(free_pages=pages, wal_bytes=sum(_size(_wal(home, name)) for name in LEDGERS))


def _wal(home: Home, name: str) -> Path:
    return home.data / f"{name}.db-wal"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def attach_at_rest(home: Home) -> apsw.Connection:
    """Return a connection that reads the ledgers of a backup or a copy, where it is, and changes nothing.

    The caller closes it.
    """
    connection = apsw.Connection(":memory:", flags=_URI)
    try:
        for name in LEDGERS:
            path = home.ledger(name)
            # Without a log, a file can be read as one that nobody changes: SQLite writes nothing beside it.
            how = "mode=ro" if _size(_wal(home, name)) else "immutable=1"
            with translate_errors(name, path):
                connection.execute(f"ATTACH DATABASE 'file:{quote(str(path.absolute()))}?{how}' AS {name}")
                connection.execute(f"SELECT 1 FROM {name}.sqlite_schema").fetchall()  # noqa: S608 - names are constants of the program
    except BaseException:
        connection.close()
        raise
    return connection


def count_rows(connection: apsw.Connection, items: Iterable[Item]) -> dict[str, int]:
    """Count the rows that items name, with all that goes with them, by `ledger.table`.

    For an emptied text, count the rows in which it stands again.
    """
    kinds: set[str] = set()
    for kind in TOUCHED:
        connection.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS sought_{kind} (key TEXT PRIMARY KEY) WITHOUT ROWID"
        )
        connection.execute(f"DELETE FROM sought_{kind}")  # noqa: S608 - names are constants of the program
    texts: dict[str, list[str]] = {}
    for kind, key in items:
        if kind in TOUCHED:
            kinds.add(kind)
            connection.execute(f"INSERT OR IGNORE INTO sought_{kind} VALUES (?)", (key,))  # noqa: S608 - names are constants of the program
        elif kind.partition(".")[0] in TOUCHED:
            texts.setdefault(kind, []).append(key)
    counts: dict[str, int] = {}
    for table in TOUCHED.values():
        where = [each for kind, each in list_removal_conditions(table, "sought_{}".format) if kind in kinds]
        if where and _has(connection, table.ledger, table.name):
            query = f"SELECT count(*) FROM {table.path} WHERE ({' OR '.join(f'({each})' for each in where)})"  # noqa: S608 - names are constants of the program
            if table.name == "bus_events":
                # Followers of the bus are told that something was forgotten: an id and counts.
                query += " AND type NOT LIKE '%.forgotten'"
            counts[table.path] = _count(connection, query)
    for kind, keys in texts.items():
        name, _, column = kind.partition(".")
        table = TOUCHED[name]
        blank = next((text.blank for text in table.texts if text.column == column), None)
        connection.execute(f"DELETE FROM sought_{name}")  # noqa: S608 - names are constants of the program
        connection.executemany(f"INSERT OR IGNORE INTO sought_{name} VALUES (?)", ((key,) for key in keys))  # noqa: S608 - names are constants of the program
        if _has(connection, table.ledger, name):
            query = (
                f"SELECT count(*) FROM {table.path} WHERE {key_condition(table, f'sought_{name}')} "  # noqa: S608 - names are constants of the program
                f"AND {column} IS NOT NULL AND {column} <> '' AND {column} IS NOT {_quote(blank)}"
            )
            counts[f"{table.path}.{column}"] = _count(connection, query)
    return {path: count for path, count in counts.items() if count}


def _quote(blank: str | None) -> str:
    return "NULL" if blank is None else f"'{blank}'"


def _count(connection: apsw.Connection, query: str) -> int:
    try:
        return cast("int", connection.execute(query).get)
    except apsw.SQLError:
        # A backup of an older version has no such column: its rows go with those that they belong to.
        return 0


def _has(connection: apsw.Connection, ledger: str, table: str) -> bool:
    query = f"SELECT 1 FROM {ledger}.sqlite_schema WHERE type = 'table' AND name = ?"  # noqa: S608 - names are constants of the program
    return bool(connection.execute(query, (table,)).get)


def find_items(
    connection: apsw.Connection, receipts: Sequence[Receipt], digests: Digests, *, with_texts: Collection[str]
) -> dict[str, list[Item]]:
    """Find the rows that receipts name, by receipt: all keys are digested once.

    `with_texts` are the receipts whose emptied texts count: elsewhere, the rows may have new ones by now.
    """
    sought: dict[str, dict[str, list[str]]] = {}
    for receipt in receipts:
        for kind, of_kind in receipt.digests.items():
            if "." in kind and receipt.id not in with_texts:
                continue
            by_digest = sought.setdefault(kind, {})
            for digest in of_kind:
                by_digest.setdefault(digest, []).append(receipt.id)
    found: dict[str, list[Item]] = {}
    for kind, by_digest in sought.items():
        table = TOUCHED.get(kind.partition(".")[0])
        if table is None or not _has(connection, table.ledger, table.name):
            continue
        for (key,) in connection.execute(f"SELECT {table.key_sql} FROM {table.path}"):  # noqa: S608 - names are constants of the program
            for receipt_id in by_digest.get(digests.of(key), ()):
                found.setdefault(receipt_id, []).append((kind, str(key)))
    return found


# While something is forgotten: the places of its receipt.


def describe_places(
    home: Home,
    items: Sequence[Item],
    words: Words | None,
    counts: Mapping[str, int],
    before: Sizes,
    sources_kept: int,
) -> dict[str, Place]:
    """Look through a home from which something was removed; say for each place what is left there."""
    after = measure(home)
    patterns = words.patterns() if words is not None else None
    with closing(attach_all(home)) as connection:
        left = count_rows(connection, items)
        in_rows = (
            {name: traces.find_in_rows(connection, name, patterns) for name in LEDGERS} if patterns else {}
        )
        in_indexes = (
            {name: traces.find_in_indexes(connection, name, patterns) for name in LEDGERS} if patterns else {}
        )
    live = {pattern for found in in_rows.values() for pattern in found}
    kept = len(patterns.whole & live) if patterns else 0

    def of(*names: str) -> int:
        return sum(count for path, count in counts.items() if path.partition(".")[2] in names)

    def left_of(*names: str) -> int:
        return sum(count for path, count in left.items() if path.split(".")[1] in names)

    def judge(rest: int, searched: bool = True) -> str:
        return "found" if rest else "clean" if searched else "unsearched"

    is_searched = patterns is not None
    places: dict[str, Place] = {}
    rows_left = sum(left.values())
    status = "found" if rows_left else "kept" if kept or sources_kept else judge(0, is_searched)
    places["rows"] = Place(
        status=status,
        counts={
            "removed": sum(counts.values()),
            "left": rows_left,
            "texts_kept": kept,
            "sources_kept": sources_kept,
        },
    )
    indexed = [table.name for table in TOUCHED.values() if table.index]
    index_traces = len({pattern for found in in_indexes.values() for pattern in found} - live)
    places["indexes"] = Place(
        status=judge(index_traces, is_searched), counts={"removed": of(*indexed), "left": index_traces}
    )
    in_files = 0
    in_logs = 0
    if patterns:
        for name in LEDGERS:
            in_files += len(patterns.find_in_file(home.ledger(name)) - live - in_indexes[name])
            in_logs += len(patterns.find_in_file(_wal(home, name)) - live)
    places["free_pages"] = Place(
        status=judge(in_files, is_searched),
        counts={"before": before.free_pages, "after": after.free_pages, "left": in_files},
    )
    places["wal"] = Place(
        status=judge(in_logs, is_searched or not after.wal_bytes),
        counts={"bytes_before": before.wal_bytes, "bytes_after": after.wal_bytes, "left": in_logs},
    )
    for name, tables in (("derived", _DERIVED), ("vectors", ("embeddings",)), ("recordings", _RECORDED)):
        rest = left_of(*tables)
        places[name] = Place(status=judge(rest), counts={"removed": of(*tables), "left": rest})
    paths = [key for kind, key in items if kind == "files"]
    rest = sum(1 for path in paths if (home.root / path).is_file())
    places["attachments"] = Place(status=judge(rest), counts={"removed": len(paths), "left": rest})
    places["engine"] = _describe_engine(home, items, patterns, live)
    places["files"] = _describe_files(home, patterns, live)
    return places


def _describe_engine(home: Home, items: Sequence[Item], patterns: Patterns | None, live: set[bytes]) -> Place:
    executions = sum(1 for kind, _ in items if kind == "executions")
    if not home.engine_file.is_file():
        # One in Postgres is another program's file: its rows are gone, and its free space is unknown.
        return Place(status="none" if not executions else "unsearched", counts={"removed": executions})
    if patterns is None:
        return Place(status="unsearched", counts={"removed": executions})
    wal = home.engine_file.with_name(f"{home.engine_file.name}-wal")
    found = (patterns.find_in_file(home.engine_file) | patterns.find_in_file(wal)) - live
    found = without_own_words(found, patterns)
    return Place(status="found" if found else "clean", counts={"removed": executions, "left": len(found)})


def _describe_files(home: Home, patterns: Patterns | None, live: set[bytes]) -> Place:
    """Search everything in the home but its databases and receipts."""
    if patterns is None:
        return Place(status="unsearched")
    searched = holding = unreadable = 0
    for path in list_files(home):
        try:
            found = without_own_words(patterns.find_in_file(path) - live, patterns)
        except OSError:
            unreadable += 1
            continue
        searched += 1
        holding += bool(found)
    counts = {"searched": searched, "holding": holding, "unreadable": unreadable}
    return Place(status="found" if holding else "unsearched" if unreadable else "clean", counts=counts)


def list_files(home: Home) -> Iterator[Path]:
    """Yield every file of a home but its databases, its receipts, its keys and its models."""
    own = {f"{home.ledger(name)}{end}" for name in LEDGERS for end in ("", "-wal", "-shm")}
    own |= {f"{home.engine_file}{end}" for end in ("", "-wal", "-shm")}
    receipts = home.state / "receipts"
    for path in sorted(home.root.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.suffix in _MODELS:
            continue
        if str(path) not in own and not path.is_relative_to(receipts):
            yield path


def without_own_words(found: set[bytes], patterns: Patterns) -> set[bytes]:
    """Leave out single words that Nexus itself says: in its settings, its skills and its logs."""
    rest = found - patterns.whole
    for path in _own_files() if rest else ():
        rest -= patterns.find_in_file(path)
        if not rest:
            break
    return rest | (found & patterns.whole)


@cache
def _own_files() -> tuple[Path, ...]:
    folders: list[Path] = [Path(__file__).parents[2]]
    for name in ("dbos", "uvicorn"):
        spec = find_spec(name)
        folders += [Path(place) for place in (spec.submodule_search_locations or ()) if spec] if spec else []
    kinds = {".py", ".md", ".sql", ".sh", ".html", ".toml"}
    return tuple(path for folder in folders for path in folder.rglob("*") if path.suffix in kinds)


def describe_backup(folder: Path, created_at: str, items: Sequence[Item]) -> KnownBackup:
    """Count what a backup, or a home that a restore put aside, still has of some items."""
    if not folder.is_dir():
        return KnownBackup(created_at=created_at, status="missing")
    try:
        with closing(attach_at_rest(Home(folder))) as connection:
            rows = sum(count_rows(connection, items).values())
    except (NexusError, apsw.Error, OSError):
        return KnownBackup(created_at=created_at, status="unreadable")
    return KnownBackup(created_at=created_at, status="found" if rows else "clean", rows=rows)


# Later: what a receipt finds again.


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a place still has of what a receipt names."""

    rows: dict[str, int] = field(default_factory=dict[str, int])
    """Rows by `ledger.table`, and emptied texts by `ledger.table.column`."""
    ids: dict[str, int] = field(default_factory=dict[str, int])
    """Ids in bytes that no row accounts for, by file."""

    @property
    def is_clean(self) -> bool:
        return not (self.rows or self.ids)


def inspect(home: Home, receipt: Receipt, digests: Digests, *, with_texts: bool, at_rest: bool) -> Found:
    """Look in a home, a backup or a copy for what a receipt names."""
    with closing(attach_at_rest(home) if at_rest else attach_all(home)) as connection:
        texts = {receipt.id} if with_texts else set[str]()
        items = find_items(connection, [receipt], digests, with_texts=texts).get(receipt.id, [])
        rows = count_rows(connection, items)
        sought = _traced(receipt, digests)
        ids: dict[str, int] = {}
        accounted: set[str] | None = None
        databases = [home.data / f"{name}.db{end}" for name in LEDGERS for end in ("", "-wal")]
        for path in databases:
            found = _find_ids(_chunks(path), digests, sought) if path.is_file() else set[str]()
            if found and accounted is None:
                accounted = {each for name in LEDGERS for each in _ids_in_rows(connection, name)}
            if rest := found - (accounted or set[str]()):
                ids[path.name] = len(rest)
    engine = [home.engine_file, home.engine_file.with_name(f"{home.engine_file.name}-wal")]
    for path in (*engine, *list_files(home)):
        try:
            found = _find_ids(_chunks(path), digests, sought)
        except OSError:
            continue
        if found:
            ids[str(path.relative_to(home.root))] = len(found)
    return Found(rows=rows, ids=ids)


def inspect_file(path: Path, receipt: Receipt, digests: Digests) -> Found:
    """Look in one file, such as an export, for the ids that a receipt names."""
    found = _find_ids(_chunks(path), digests, _traced(receipt, digests))
    return Found(ids={path.name: len(found)} if found else {})


def _traced(receipt: Receipt, digests: Digests) -> set[str]:
    """Return the digests that stand for content: the record of a forget, and what it cost, name other ids."""
    sought = {each for kind, of_kind in receipt.digests.items() if kind in _TRACED for each in of_kind}
    return sought - {digests.of(receipt.target)}


def _chunks(path: Path) -> Iterator[bytes]:
    if path.suffix != ".gz":
        yield from traces.chunks(path)
        return
    before = b""
    with gzip.open(path, "rb") as stream:
        while chunk := stream.read(1024 * 1024):
            yield before + chunk
            before = chunk[-64:]


def _find_ids(chunks: Iterable[bytes], digests: Digests, sought: Collection[str]) -> set[str]:
    found: set[str] = set()
    if not sought:
        return found
    seen: set[bytes] = set()
    for chunk in chunks:
        for match in _ID.finditer(chunk):
            if match[0] in seen:
                continue
            seen.add(match[0])
            # In a database, what stands before may touch the id.
            for letters in range(2, len(match[1]) + 1):
                id_ = f"{match[1][-letters:].decode()}_{match[2].decode()}"
                if digests.of(id_) in sought:
                    found.add(id_)
    return found


def _ids_in_rows(connection: apsw.Connection, ledger: str) -> Iterator[str]:
    """Yield the ids that stand in the rows of a ledger, with their every beginning."""
    tables = connection.execute(
        f"SELECT name FROM {ledger}.sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"  # noqa: S608 - names are constants of the program
    ).fetchall()
    for (name,) in tables:
        for row in connection.execute(f'SELECT * FROM {ledger}."{name}"'):  # noqa: S608 - the ledger's own names
            for value in cast("tuple[Any, ...]", row):
                if isinstance(value, str) and "_" in value:
                    for match in _ID.finditer(value.encode("utf-8", "replace")):
                        for letters in range(2, len(match[1]) + 1):
                            yield f"{match[1][-letters:].decode()}_{match[2].decode()}"
