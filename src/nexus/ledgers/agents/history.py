"""The history of a session, as a model is to see it: forks and summaries resolved, nothing left dangling."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.agents import sessions
from nexus.ledgers.agents.messages import StoredMessage
from nexus.ledgers.agents.turns import OpenTurn

_NOTE_CHARACTERS = 300
_EVERYTHING = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """A turn of a history, with the messages that a model sees of it."""

    position: int
    status: str
    messages: tuple[StoredMessage, ...]
    request_id: str | None = None
    execution_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """What was said before: a summary of the older part, where there is one, then turns in full."""

    summary: tuple[StoredMessage, ...] = ()
    turns: tuple[Turn, ...] = ()
    taken_back: frozenset[str] = frozenset()
    """The events of messages that were edited and sent again: what was said instead is in the turns."""

    @property
    def messages(self) -> list[StoredMessage]:
        """All messages in order."""
        return [*self.summary, *(message for turn in self.turns for message in turn.messages)]


@dataclass(frozen=True, slots=True)
class _Row:
    status: str
    error: str | None
    turn_position: int
    request_id: str | None
    execution_id: str | None
    message: StoredMessage


def before(connection: apsw.Connection, turn: OpenTurn, made_by: Sequence[str] | None = None) -> History:
    """What a turn builds on. It is the same whenever it is asked for again.

    Only summaries that were made for the requests `made_by` stand in for older turns; None: any.
    """
    return _load(connection, turn.session_id, turn.first_position, made_by, own=turn.id)


def load(connection: apsw.Connection, session_label: str, made_by: Sequence[str] | None = None) -> History:
    """All of a session so far, as `before`; empty for one that is not known."""
    session = sessions.get(connection, session_label)
    return History() if session is None else _load(connection, session.id, _EVERYTHING, made_by)


def summarisers(connection: apsw.Connection, session_label: str) -> list[str]:
    """The requests for which a session, or one that it was forked from, was summed up."""
    session = sessions.get(connection, session_label)
    if session is None:
        return []
    rows = connection.execute(sql.queries("agents")["summarisers"], {"session_id": session.id})
    return [cast("str", row[0]) for row in rows]


def _load(
    connection: apsw.Connection,
    session_id: str,
    until: int,
    made_by: Sequence[str] | None,
    own: str | None = None,
) -> History:
    queries = sql.queries("agents")
    bounds: dict[str, Any] = {"session_id": session_id, "before": until}
    rows = connection.execute(queries["replaced_turns"], {**bounds, "own": own})
    replaced = cast("list[tuple[int, int, str]]", rows.fetchall())
    bounds["replaced"] = json.dumps(replaced)
    summary, after = (), -1
    makers = None if made_by is None else json.dumps(list(made_by))
    newest = connection.execute(queries["newest_summary"], {**bounds, "made_by": makers}).fetchone()
    if newest is not None:
        turn_id, after = cast("tuple[str, int]", newest)
        rows = connection.execute(queries["messages_of_turn"], (turn_id,))
        said = [_message(row) for row in rows]
        # The question and the answer: what a model tried with tools in between is not part of the summary.
        summary = (said[0], said[-1]) if len(said) > 1 else tuple(said)
    rows = connection.execute(queries["history"], {**bounds, "after": after})
    found = [_Row(row[0], row[1], row[2], row[3], row[4], _message(row[5:])) for row in cast("Any", rows)]
    return History(
        summary=summary,
        turns=tuple(
            turn
            for _, group in groupby(found, key=attrgetter("message.turn_id"))
            if (turn := _turn(list(group))).messages
        ),
        taken_back=frozenset(event_id for *_, events in replaced for event_id in json.loads(events)),
    )


def _turn(rows: Sequence[_Row]) -> Turn:
    first, messages = rows[0], [row.message for row in rows]
    if first.status != "done":
        messages = _mended(messages, first.status, _note(first.status, first.error))
    return Turn(
        position=first.turn_position,
        status=first.status,
        messages=tuple(messages),
        request_id=first.request_id,
        execution_id=first.execution_id,
    )


def _mended(messages: list[StoredMessage], status: str, note: str) -> list[StoredMessage]:
    """What an unfinished turn leaves: up to the last message to the model, and a note in the model's place.

    An answer at the end may call tools that never gave a result, and a provider refuses a history with
    such a call in it. Of one that was stopped, the text is kept.
    """
    said = ""
    while messages and messages[-1].role == "assistant":
        said = messages.pop().content
    if not messages:
        return []
    last = messages[-1]
    stand_in = StoredMessage(
        id="",
        turn_id=last.turn_id,
        position=last.position + 1,
        role="assistant",
        content=f"{said}\n\n{note}" if said and status == "cancelled" else note,
        parts_json=None,
        model=None,
        event_id=None,
        created_at=last.created_at,
    )
    return [*messages, stand_in]


def _note(status: str, error: str | None) -> str:
    if status == "cancelled":
        return "(This turn was cancelled before it was finished.)"
    if status == "running":
        return "(This turn was interrupted and not finished.)"
    reason = (error or "").strip().partition("\n")[0][:_NOTE_CHARACTERS]
    return f"(This turn failed: {reason})" if reason else "(This turn failed.)"


def _message(row: Any) -> StoredMessage:
    return StoredMessage(**dict(zip(StoredMessage.__slots__, cast("tuple[Any, ...]", row), strict=True)))
