"""Follow-ups in the memory ledger: promises that were made, and whether they were raised and kept."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import apsw

from nexus.errors import MissingError, UsageError
from nexus.ledgers import sql
from nexus.ledgers.text import storable, storable_or_none

Promiser = Literal["owner", "other", "agent"]
Status = Literal["open", "done", "wrong"]
_SHORT_ID: Final = 6
_MOST_AT_ONCE: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFollowUp:
    """A promise before it is recorded."""

    id: str
    event_id: str
    reply_thread_id: str | None
    source_request_id: str | None
    promiser: Promiser
    promiser_entity_id: str | None
    promiser_name: str | None
    recipient_entity_id: str | None
    recipient_name: str | None
    promise: str
    due_at: str | None
    raise_at: str | None
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowUp:
    """A promise, as it is on record."""

    id: str
    event_id: str
    reply_thread_id: str | None
    source_request_id: str | None
    promiser: Promiser
    promiser_entity_id: str | None
    promiser_name: str | None
    recipient_entity_id: str | None
    recipient_name: str | None
    promise: str
    due_at: str | None
    raise_at: str | None
    status: Status
    closed_at: str | None
    closed_by_event_id: str | None
    raised_at: str | None
    raised_by: str | None
    created_at: str


def add(connection: apsw.Connection, found: Iterable[NewFollowUp]) -> int:
    """Record promises; returns how many are new. One that is on record stays as it is."""
    before = connection.total_changes()
    for each in found:
        values = {
            name: storable(value) if isinstance(value, str) else value for name, value in asdict(each).items()
        }
        sql.run(connection, sql.queries("memory")["add_follow_up"], values)
    return connection.total_changes() - before


def load_all(connection: apsw.Connection, *, status: Status | None = None, limit: int) -> list[FollowUp]:
    """Load follow-ups: the open ones first, by when they are due."""
    return _load(connection, "follow_ups", {"status": status or "", "limit": limit})


def find(connection: apsw.Connection, reference: str) -> FollowUp:
    """Load the follow-up that an id means, whole or shortened to its last characters."""
    wanted = reference.strip().upper().replace("FUP_", "fup_")
    found = _load(connection, "follow_ups_ending_in", {"ending": wanted}) if len(wanted) >= _SHORT_ID else []
    if not found:
        hint = "List them with `nexus followups`."
        raise MissingError(f"Unknown follow-up {reference!r:.80}", hint=hint)
    if len(found) > 1:
        several = ", ".join(each.id for each in found)
        raise UsageError(f"{reference!r:.80} is the end of several ids", hint=f"Pass one of these: {several}")
    return found[0]


def of_requests(connection: apsw.Connection, request_ids: Iterable[str]) -> list[FollowUp]:
    """Load the follow-ups of some messages and their answers, by their requests."""
    return _load(connection, "follow_ups_of_requests", {"requests": json.dumps(list(request_ids))})


def take_due(connection: apsw.Connection, *, by: str, now: str) -> list[FollowUp]:
    """Load what is to be raised now and mark it; what the same invocation took before comes again."""
    values = {"by": by, "now": now, "limit": _MOST_AT_ONCE}
    return _take(connection, _load(connection, "follow_ups_to_raise", values), by=by, now=now)


def take_of_person(
    connection: apsw.Connection, *, by: str, entity_id: str, before: str, until: str, now: str
) -> list[FollowUp]:
    """Take what is open with a person, made before a moment and due until another, or at no time."""
    values = {"by": by, "entity": entity_id, "before": before, "until": until, "limit": _MOST_AT_ONCE}
    return _take(connection, _load(connection, "follow_ups_of_person", values), by=by, now=now)


def take_for_brief(connection: apsw.Connection, *, by: str, until: str, now: str) -> list[FollowUp]:
    """Take what a daily brief lists: what wasn't raised and is due until a moment, or at no time."""
    values = {"by": by, "until": until, "limit": _MOST_AT_ONCE}
    return _take(connection, _load(connection, "follow_ups_for_brief", values), by=by, now=now)


def find_next(connection: apsw.Connection) -> str | None:
    """Return when the next one is to be raised."""
    found = sql.value(connection, sql.queries("memory")["next_follow_up_at"])
    return None if found is None else str(found)


def count_messages(connection: apsw.Connection, *, since: str, by: str) -> int:
    """Count the messages that raised follow-ups since a moment, without briefs and those of an invocation."""
    values = {"since": since, "by": by}
    return int(sql.value(connection, sql.queries("memory")["count_follow_up_messages"], values))


def close(
    connection: apsw.Connection, ids: Iterable[str], status: Status, *, now: str, event_id: str | None = None
) -> None:
    """Close open follow-ups. `event_id` is the message that shows that they are done."""
    rows = [{"id": id_, "status": status, "now": now, "event_id": event_id} for id_ in ids]
    sql.run_each(connection, sql.queries("memory")["close_follow_up"], rows)


def postpone(connection: apsw.Connection, id_: str, *, due_at: str, raise_at: str) -> None:
    """Give a follow-up another time. It is open from then on, and is raised again."""
    values = {"id": id_, "due_at": storable_or_none(due_at), "raise_at": storable_or_none(raise_at)}
    sql.run(connection, sql.queries("memory")["postpone_follow_up"], values)


def _take(connection: apsw.Connection, found: list[FollowUp], *, by: str, now: str) -> list[FollowUp]:
    values = {"ids": json.dumps([each.id for each in found]), "by": by, "now": now}
    sql.run(connection, sql.queries("memory")["mark_follow_ups_raised"], values)
    return found


def _load(connection: apsw.Connection, query: str, values: dict[str, Any]) -> list[FollowUp]:
    queries = sql.queries("memory")
    statement = queries[query].replace("{columns}", queries["follow_up_columns"])
    return [sql.make(FollowUp, row) for row in sql.rows(connection, statement, values)]
