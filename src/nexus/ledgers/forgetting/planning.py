"""What goes with a target: from what it names, along the rules, until nothing new is found."""

from dataclasses import dataclass, field
from typing import Final, cast

from nexus.ledgers import sql
from nexus.ledgers.forgetting import rows, targets
from nexus.ledgers.forgetting.rules import Ref, Table, Then, Time
from nexus.ledgers.forgetting.sets import FILES, Bindings, Sets
from nexus.ledgers.forgetting.tables import RECORDED, TOUCHED
from nexus.ledgers.forgetting.targets import Target, bounds

_SEEDED: Final = {"entity": "entities", "thread": "threads", "import": "imports"}
# What nothing known is left about, once the rest is gone.
_ORPHANS: Final = {
    "threads": "orphan_threads",
    "agent_sessions": "orphan_sessions",
    "contacts": "orphan_contacts",
    "entities": "orphan_entities",
}


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
    return _counted(sets, target, found)


def _seed(sets: Sets, target: Target, limits: Bindings) -> None:
    if target.kind in _SEEDED:
        sets.add(_SEEDED[target.kind], "SELECT :id", {"id": target.value})
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
            if ref.table in sets.new and not ref.implied and ref.then is not Then.CLEAR:
                _follow(sets, table, ref, named=target.mentions)


def _follow(sets: Sets, table: Table, ref: Ref, *, named: bool) -> None:
    where = f"{rows.referring(ref, _new)} AND NOT coalesce({ref.unless or 'FALSE'}, FALSE)"
    if table.name in RECORDED:
        sets.add(table.name, f"SELECT {table.key_sql} FROM {table.path} WHERE {where}")  # noqa: S608 - names are constants of the program, values are bound
    if ref.then is Then.OWNER or (ref.then is Then.NAMED and named):
        owner = ref.owner or table.owner
        sets.add(table.referred(owner), f"SELECT {owner} FROM {table.path} WHERE {where}")  # noqa: S608 - names are constants of the program, values are bound


def _follow_meaning(sets: Sets) -> None:
    queries = sql.queries("forgetting")
    if sets.new & {"entities", "contacts", "event_participants"}:
        sets.add("events", queries["said_by_it_or_to_it_alone"])
    if "imports" in sets.new:
        sets.add("events", queries["events_of_imports"])
    if "entities" in sets.new:
        sets.add("contacts", queries["contacts_without_an_entity"])
    if "agent_turns" in sets.new:
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
    for kind, _ in _emptied(sets):
        table = TOUCHED[kind.partition(".")[0]]
        going = f"SELECT {table.key_sql} FROM {table.path} WHERE {rows.any_gone(table, _gone)}"  # noqa: S608 - names are constants of the program, values are bound
        sets.connection.execute(f"DELETE FROM emptied WHERE kind = '{kind}' AND key IN ({going})")  # noqa: S608 - names are constants of the program, values are bound
    sets.add("embeddings", queries["vectors_of_summaries"])
    sets.advance()


def _counted(sets: Sets, target: Target, found: dict[str, int]) -> Plan:
    first, last = cast(
        "tuple[str | None, str | None]",
        sets.connection.execute(sql.queries("forgetting")["span_of_events"]).fetchone(),
    )
    removed = {
        table.path: _count(sets, f"SELECT count(*) FROM {table.path} WHERE {rows.any_gone(table, _gone)}")  # noqa: S608 - names are constants of the program, values are bound
        for table in TOUCHED.values()
    }
    return Plan(
        target=target,
        removed={path: count for path, count in removed.items() if count},
        emptied={f"{TOUCHED[kind.partition('.')[0]].ledger}.{kind}": count for kind, count in _emptied(sets)},
        kept=targets.kept(sets, target.names),
        files=sets.count(FILES),
        first_event=first,
        last_event=last,
        mentions=found,
    )


def _emptied(sets: Sets) -> list[tuple[str, int]]:
    counts = sets.connection.execute("SELECT kind, count(*) FROM emptied GROUP BY kind")
    return cast("list[tuple[str, int]]", counts.fetchall())


def _count(sets: Sets, query: str) -> int:
    return cast("int", sets.connection.execute(query).get)


def _gone(kind: str) -> str:
    return f"gone_{kind}"


def _new(kind: str) -> str:
    return f"new_{kind}"
