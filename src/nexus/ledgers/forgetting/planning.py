"""What a forgetting takes: the plan, its record in the runtime ledger, and the counts of a report."""

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol, cast

import apsw

from nexus.ledgers import events, sql
from nexus.ledgers.forgetting import targets
from nexus.ledgers.forgetting.rules import Table, Then, Time
from nexus.ledgers.forgetting.sets import FILES, Bindings, Sets, gone_condition, referring_condition
from nexus.ledgers.forgetting.tables import RECORDED, TOUCHED
from nexus.ledgers.forgetting.targets import Kind, Target, bounds

_QUERIES: Final = sql.queries("forgetting")
_SEEDED: Final = {
    "entity": "entities",
    "fact": "facts",
    "event": "events",
    "thread": "threads",
    "import": "imports",
}
# The tables of a plan, by the kind of what goes: all that is known to, and what the latest round found.
_GONE: Final = "gone_{}".format
_NEW: Final = "new_{}".format
# What nothing known is left about, once the rest is gone.
_ORPHANS: Final = {
    "threads": "orphan_threads",
    "agent_sessions": "orphan_sessions",
    "contacts": "orphan_contacts",
    "entities": "orphan_entities",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much went: rows by `ledger.table`, emptied columns by `ledger.table.column`, files."""

    removed: dict[str, int] = field(default_factory=dict[str, int])
    emptied: dict[str, int] = field(default_factory=dict[str, int])
    files: int = 0

    def and_those_of(self, plan: "Plan") -> "Counts":
        return Counts(
            removed=_sum(self.removed, plan.removed),
            emptied=_sum(self.emptied, plan.emptied),
            files=self.files + plan.files,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One forget, as it is recorded: no content, only an id or a range, and counts."""

    forget_id: str
    target: Target
    counts: Counts

    def begin(self, connection: apsw.Connection, sets: Sets, actor: str) -> None:
        """Write the plan down, whole or not at all."""
        values = (self.forget_id, self.target.kind, self.target.value, self._counts_json(), actor)
        connection.execute(_QUERIES["begin_forget"], values)
        self._add_items(connection, sets)

    def reopen(self, connection: apsw.Connection, items: Iterable[tuple[str, str]], actor: str) -> None:
        """Plan again what was forgotten before: these items of it are back."""
        values = (self.forget_id, self.target.kind, self.target.value, self._counts_json(), actor)
        connection.execute(_QUERIES["reopen_forget"], values)
        rows = ((self.forget_id, kind, key) for kind, key in items)
        connection.executemany(_QUERIES["plan_item"], rows)

    def extend(self, connection: apsw.Connection, sets: Sets) -> None:
        """Write down what a later pass found."""
        connection.execute(_QUERIES["update_counts"], (self._counts_json(), self.forget_id))
        self._add_items(connection, sets)

    def kinds(self, connection: apsw.Connection) -> set[str]:
        """Return the kinds of things that the plan holds."""
        return {str(row[0]) for row in connection.execute(_QUERIES["planned_kinds"], (self.forget_id,))}

    def files(self, connection: apsw.Connection) -> list[str]:
        """Return the files that go, as paths below the home."""
        return [str(row[0]) for row in connection.execute(_QUERIES["planned_files"], (self.forget_id,))]

    def executions(self, connection: apsw.Connection) -> list[str]:
        """Return the runs that go or lose a text, by id."""
        rows = connection.execute(_QUERIES["planned_executions"], (self.forget_id,))
        return [str(row[0]) for row in rows]

    def publish(self, connection: apsw.Connection) -> None:
        """Tell followers of the bus, once."""
        type_ = f"{self.target.kind}.forgotten"
        if connection.execute(_QUERIES["is_published"], {"type": type_, "id": self.forget_id}).get:
            return
        payload: dict[str, Any] = {"forget_id": self.forget_id, **asdict(self.counts)}
        events.publish(connection, type_, (self.target.kind, self.target.value), payload)

    def drop_items(self, connection: apsw.Connection) -> None:
        """Let the plan go; every ledger has followed it."""
        connection.execute(_QUERIES["drop_items"], (self.forget_id,))

    def complete(self, connection: apsw.Connection) -> None:
        connection.execute(_QUERIES["complete_forget"], (self.forget_id,))

    def _add_items(self, connection: apsw.Connection, sets: Sets) -> None:
        rows = ((self.forget_id, kind, key) for kind, key in sets.items())
        connection.executemany(_QUERIES["plan_item"], rows)

    def _counts_json(self) -> str:
        return json.dumps(asdict(self.counts))


def list_unfinished(connection: apsw.Connection) -> list[Entry]:
    """Return every forget that was begun and is not complete."""
    rows = connection.execute(_QUERIES["unfinished_forgets"]).fetchall()
    return [
        Entry(
            forget_id=str(forget_id),
            target=Target(kind=cast("Kind", kind), value=str(value)),
            counts=Counts(**cast("dict[str, Any]", json.loads(str(counts)))),
        )
        for forget_id, kind, value, counts in rows
    ]


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in dict.fromkeys((*one, *other))}


class Beside(Protocol):
    """Handed in by whoever knows the ledgers and the store."""

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        """Remove all copies that belong to these runs. It may be repeated."""
        ...

    async def scrub(self) -> str:
        """Take the removed bytes out of its files; returns what could not be done."""
        ...

    @property
    def renews_copies(self) -> bool:
        """Whether leaving `elsewhere` replaces the copies that a host has of the home."""
        ...

    def elsewhere(self) -> AbstractAsyncContextManager[None]:
        """Entered once the plan is written down. When it is left, copies elsewhere have lost it, too."""
        ...


class Nothing:
    """Where the ledgers are all there is."""

    renews_copies = False

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        pass

    async def scrub(self) -> str:
        return ""

    def elsewhere(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How much goes: counts and dates, and the names that the caller knows already."""

    target: Target
    # Rows that go, by `ledger.table`.
    removed: dict[str, int]
    # Rows that stay and lose a text, by `ledger.table.column`.
    emptied: dict[str, int]
    # Rows that name the target and stay all the same, by `ledger.table.column`.
    kept: dict[str, int]
    files: int
    first_event: str | None
    last_event: str | None
    # How many events and facts each name is found in.
    mentions: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.emptied or self.files)


def make(sets: Sets, target: Target, forget_id: str | None = None) -> Plan:
    """Fill the sets with all that goes with a target, and with what an earlier pass of a forget found."""
    limits = bounds(target)
    _seed(sets, target, limits)
    if forget_id is not None:
        _seed_again(sets, forget_id)
    found = targets.seed(sets, target.names)
    while sets.advance() or (_add_orphans(sets, limits) and sets.advance()):
        _follow_references(sets, target)
        _follow_meaning(sets)
    _finish(sets)
    return _count_plan(sets, target, found)


def _seed(sets: Sets, target: Target, limits: Bindings) -> None:
    if target.kind in _SEEDED:
        sets.add(_SEEDED[target.kind], "SELECT :id", {"id": target.value})
        if target.kind == "fact":
            sets.add("events", _QUERIES["note_of_fact"], {"id": target.value})
        return
    if target.kind == "scope":
        for kind in ("events", "threads", "entities"):
            sets.add(kind, _QUERIES[f"{kind}_of_scope"], {"channel": target.value})
        return
    for table in TOUCHED.values():
        if table.time is not None:
            sets.add(table.name, _in_range(table, table.time), limits)


def _in_range(table: Table, time: Time) -> str:
    if time.end:
        when = (
            f"{time.start} < :high AND julianday({time.start}) < julianday(:end) "
            f"AND julianday(coalesce({time.end}, {time.start})) >= julianday(:start)"
        )
    else:
        when = (
            f"{time.start} >= :low AND {time.start} < :high "
            f"AND julianday({time.start}) >= julianday(:start) AND julianday({time.start}) < julianday(:end)"
        )
    return f"SELECT {table.key_sql} FROM {table.path} WHERE {when} AND NOT coalesce({time.unless}, FALSE)"  # noqa: S608 - names are constants of the program, values are bound


def _seed_again(sets: Sets, forget_id: str) -> None:
    for kind in TOUCHED:
        sets.add(
            kind,
            f"SELECT item_id FROM runtime.forget_items WHERE forget_id = :id AND kind = '{kind}'",  # noqa: S608 - names are constants of the program, values are bound
            {"id": forget_id},
        )


def _follow_references(sets: Sets, target: Target) -> None:
    for table in TOUCHED.values():
        for ref in table.refs:
            if ref.table not in sets.new or ref.implied or ref.then is Then.CLEAR:
                continue
            where = f"{referring_condition(ref, _NEW)} AND NOT coalesce({ref.unless or 'FALSE'}, FALSE)"
            if table.name in RECORDED:
                sets.add(table.name, f"SELECT {table.key_sql} FROM {table.path} WHERE {where}")  # noqa: S608 - names are constants of the program, values are bound
            if ref.then is Then.OWNER or (ref.then is Then.NAMED and target.mentions):
                owner = ref.owner or table.owner
                sets.add(table.referred_table(owner), f"SELECT {owner} FROM {table.path} WHERE {where}")  # noqa: S608 - names are constants of the program, values are bound


def _follow_meaning(sets: Sets) -> None:
    queries = sql.queries("forgetting")
    if sets.new & {"entities", "contacts", "event_participants"}:
        sets.add("events", queries["said_by_it_or_to_it_alone"])
    if "imports" in sets.new:
        sets.add("events", queries["events_of_imports"])
    if "entities" in sets.new:
        sets.add("contacts", queries["contacts_without_an_entity"])
    if "events" in sets.new:
        sets.add("agent_turns", queries["turns_of_tool_events"])
        sets.add("events", queries["recordings_and_transcripts"])
    if "agent_turns" in sets.new:
        sets.add("agent_turns", queries["turns_with_results_of_turns"])
        sets.add("agent_turns", queries["summaries_of_turns"])


def _add_orphans(sets: Sets, limits: Bindings) -> bool:
    queries = sql.queries("forgetting")
    added = [sets.add(kind, queries[name], limits) for kind, name in _ORPHANS.items()]
    return any(added)


def _finish(sets: Sets) -> None:
    """Add what follows from the whole: nothing else refers to these."""
    queries = sql.queries("forgetting")
    sets.add("processing_log", queries["work_on_remaining_events"])
    sets.add("processing_log", queries["work_on_remaining_facts"])
    sets.add(FILES, queries["files"])
    sets.empty("entities", "summary", queries["summaries_of_entities"])
    sets.empty("automations", "last_error", queries["last_errors"])
    for kind, _ in _count_emptied(sets):
        table = TOUCHED[kind.partition(".")[0]]
        going = f"SELECT {table.key_sql} FROM {table.path} WHERE {gone_condition(table, _GONE)}"  # noqa: S608 - names are constants of the program, values are bound
        sets.connection.execute(f"DELETE FROM emptied WHERE kind = '{kind}' AND key IN ({going})")  # noqa: S608 - names are constants of the program, values are bound
    sets.add("embeddings", queries["vectors_of_summaries"])
    sets.advance()


def _count_plan(sets: Sets, target: Target, found: dict[str, int]) -> Plan:
    first, last = cast(
        "tuple[str | None, str | None]",
        sets.connection.execute(sql.queries("forgetting")["span_of_events"]).fetchone(),
    )
    removed: dict[str, int] = {}
    for table in TOUCHED.values():
        query = f"SELECT count(*) FROM {table.path} WHERE {gone_condition(table, _GONE)}"  # noqa: S608 - names are constants of the program, values are bound
        removed[table.path] = cast("int", sets.connection.execute(query).get)
    return Plan(
        target=target,
        removed={path: count for path, count in removed.items() if count},
        emptied={
            f"{TOUCHED[kind.partition('.')[0]].ledger}.{kind}": count for kind, count in _count_emptied(sets)
        },
        kept=targets.count_kept(sets, target.names),
        files=sets.count(FILES),
        first_event=first,
        last_event=last,
        mentions=found,
    )


def _count_emptied(sets: Sets) -> list[tuple[str, int]]:
    counts = sets.connection.execute("SELECT kind, count(*) FROM emptied GROUP BY kind")
    return cast("list[tuple[str, int]]", counts.fetchall())
