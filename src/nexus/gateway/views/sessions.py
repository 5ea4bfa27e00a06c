"""Sessions as a list, and the transcript of one."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.agents import sessions as stored
from nexus.ledgers.agents.sessions import Session
from nexus.ledgers.events.search import search
from nexus.memory.views import names
from nexus.memory.views.names import like
from nexus.memory.views.page import (
    ALWAYS,
    Page,
    Period,
    list_columns,
    make_page,
    make_record,
    name_columns,
    parse_cursor,
    parse_position,
)
from nexus.text import join_lines

# A transcript is read, not downloaded: what is longer is cut, and says so.
MOST_CHARACTERS = 6_000
_MOST_OF_A_CALL = 1_500
_LINE_CHARACTERS = 200
_WHOLE = 1 << 30
_MADE_UP = re.compile(r"(?:run:|chat:)ses_|openai:[0-9A-Z]{26}$|(?:sub)?worker:")
_OF_AUTOMATION = re.compile(r"meeseeks:([^:]+)")
_MOST_HITS = 200

Kind = Literal["people", "runs", "workers", "automations", "imported"]
"""Whose session it is: a conversation of people, a single `nexus run`, a worker's, an automation's own, or
one that was imported from another program."""
_OWN: Final[tuple[Kind, ...]] = ("people", "runs", "workers", "automations")


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLine:
    """One session in a list."""

    id: str
    label: str
    role: str
    source: str
    """`nexus`, or the program that it was imported from."""
    model: str | None
    parent_label: str | None
    created_at: str
    updated_at: str
    archived_at: str | None
    turns: int
    last_said: str | None
    """The beginning of what a person or an agent last said."""
    title: str
    """The name you gave it, whom or which automation it is with, its first message, or its label."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    """A tool that was called by a message."""

    id: str
    turn_id: str
    position: int | None
    tool_name: str
    arguments: str
    result: str | None
    status: str
    error: str | None
    key: str | None
    """The call within its run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a transcript. `characters` is its whole length, of which `content` is the beginning."""

    id: str
    turn_id: str
    position: int
    role: str
    content: str
    characters: int
    model: str | None
    event_id: str | None
    created_at: str
    turn_kind: str
    turn_status: str
    turn_error: str | None
    request_id: str | None
    execution_id: str | None
    replaced: bool
    """Whether it was edited or regenerated: a later turn took its place."""
    calls: tuple[ToolCall, ...] = ()
    said: str | None = None
    """What somebody said, where the message carries that: `content` is what the model was shown of it."""
    stopped: bool = False
    """Whether this is the part of an answer that was written before the run was stopped."""

    @property
    def is_cut(self) -> bool:
        return self.characters > len(self.content)


_STORED = list_columns(Message, before="calls")


async def load_page(
    ledgers: Ledgers,
    *,
    role: str | None = None,
    matching: str | None = None,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
    kind: Kind | None = None,
    archived: bool | None = None,
) -> Page[SessionLine]:
    """List sessions by last use: Nexus's own, unless the kind asks for imported ones.

    With a text, those whose name holds it, or in which something was said that matches it best.
    """
    at, id_ = period.begin(cursor)
    values: dict[str, Any] = {
        "role": role, "at": at, "id": id_, "since": period.since, "limit": limit + 1,
        "archived": archived, "like": like(matching) if matching else None, "threads": "[]", "events": "[]",
    }  # fmt: skip
    if matching:
        hits = await ledgers.events.read(search, text=matching, limit=_MOST_HITS)
        values["events"] = json.dumps([hit.id for hit in hits])
        values["threads"] = json.dumps(sorted({hit.thread_id for hit in hits if hit.thread_id}))
    found = await ledgers.agents.read(_load_rows, kinds=(kind,) if kind else _OWN, values=values)
    # A message that carries what somebody said is stored as sent to the model.
    wanted = [id_ for row in found for id_ in (row[-1], row[-3])]
    said = await names.load_beginnings(ledgers, wanted, _LINE_CHARACTERS)
    people = await names.load_conversation_names(ledgers, [row[8] for row in found])
    lines = [_make_line(row, said, people) for row in found]
    return make_page(lines, limit, lambda line: (line.updated_at, line.id))


def _load_rows(
    connection: apsw.Connection, kinds: tuple[Kind, ...], values: dict[str, Any]
) -> list[tuple[Any, ...]]:
    query = sql.queries("agents")["listed_sessions"]
    found = [row for kind in kinds for row in sql.rows(connection, query, {**values, "kind": kind})]
    return sorted(found, key=lambda row: (row[7], row[0]), reverse=True)[: values["limit"]]


async def load_titles(ledgers: Ledgers, labels: Iterable[str | None]) -> dict[str, str]:
    """Load what the sessions of some labels are called."""
    wanted = sorted({label for label in labels if label})
    if not wanted:
        return {}
    query = sql.queries("agents")["titled_sessions"]
    found = await ledgers.agents.read(sql.rows, query, (json.dumps(wanted),))
    said = await names.load_beginnings(ledgers, [row[-1] for row in found], _LINE_CHARACTERS)
    people = await names.load_conversation_names(ledgers, [row[2] for row in found])
    return {
        label: _choose_title(label, source, title, people.get(label), said.get(event_id or "", first))
        for label, title, _, source, first, event_id in found
    }


async def load_title(ledgers: Ledgers, label: str) -> str:
    """Load what the session of a label is called."""
    return (await load_titles(ledgers, [label])).get(label, label)


async def load_threads(ledgers: Ledgers, session: Session) -> tuple[str, ...]:
    """Load the conversations that a session answers: they go when it is deleted."""
    query = sql.queries("agents")["events_of_session"]
    said = await ledgers.agents.read(sql.rows, query, (session.id,))
    wanted = (json.dumps([row[0] for row in said]),)
    rows = await ledgers.events.read(sql.rows, sql.queries("events")["threads_of_events"], wanted)
    return tuple(sorted({row[0] for row in rows} | {id_ for id_ in (session.thread_id,) if id_}))


def _make_line(row: tuple[Any, ...], said: Mapping[str, str], people: Mapping[str, str]) -> SessionLine:
    *stored, _, title, archived_at, turns, last, last_id, first, first_id = row
    label, source = cast("str", stored[1]), cast("str", stored[3])
    named = _choose_title(label, source, title, people.get(label), said.get(first_id or "", first))
    return make_record(SessionLine, (*stored, archived_at, turns, said.get(last_id or "", last), named))


def _choose_title(label: str, source: str, given: str | None, people: str | None, first: str | None) -> str:
    if given:
        return given
    if source != "nexus" or _MADE_UP.match(label):
        return join_lines(first or "") or label
    if automation := _OF_AUTOMATION.match(label):
        return automation[1]
    return people or label


async def get(ledgers: Ledgers, label: str) -> Session:
    """Load the session of a label."""
    found = await ledgers.agents.read(stored.get, label=label)
    if found is None:
        raise MissingError(f"Unknown session {label}", hint="See the sessions page.")
    return found


async def load_transcript(
    ledgers: Ledgers,
    session_id: str,
    *,
    cursor: str | None = None,
    limit: int = 30,
    most: int = MOST_CHARACTERS,
    replaced: bool = True,
) -> Page[Message]:
    """Load the newest messages of a session in the order in which they were said; the next page is older.

    Without `replaced`, what was edited or regenerated is left out.
    """
    before = parse_position(*parse_cursor(cursor, 1))
    found = await ledgers.agents.read(
        _load_transcript, session_id=session_id, before=before, limit=limit, most=most, replaced=replaced
    )
    # A message of another program's agent also names an event: a brief account of it.
    said = await names.load_beginnings(
        ledgers, [each.event_id for each in found.items if each.role == "user"], most
    )
    items = tuple(replace(each, said=said.get(each.event_id or "")) for each in found.items)
    return Page(items=items, next=found.next)


async def load_run(ledgers: Ledgers, execution_id: str, most: int = MOST_CHARACTERS) -> tuple[Message, ...]:
    """Load the messages of a run so far."""

    def read(connection: apsw.Connection) -> tuple[Message, ...]:
        values = {"execution_id": execution_id, "most": most}
        rows = sql.rows(connection, sql.queries("agents")["messages_of_run"], values)
        return _add_calls(connection, [Message(**name_columns(_STORED, row)) for row in rows])

    return await ledgers.agents.read(read)


async def load_partial(ledgers: Ledgers, execution_id: str) -> str | None:
    """Load what a stopped run had written of its answer."""
    said = await load_run(ledgers, execution_id, _WHOLE)
    return next((each.content for each in said if each.stopped and each.content), None)


async def get_message(ledgers: Ledgers, message_id: str) -> Message:
    """Load one message in its full length."""
    query = sql.queries("agents")["whole_message"]
    found = await ledgers.agents.read(sql.rows, query, (message_id,))
    if not found:
        raise MissingError(f"Unknown message {message_id}")
    return Message(**name_columns(_STORED, found[0]))


def _load_transcript(
    connection: apsw.Connection, session_id: str, before: int, limit: int, most: int, replaced: bool
) -> Page[Message]:
    values = {
        "session_id": session_id, "before": before, "limit": limit + 1, "most": most, "replaced": replaced
    }  # fmt: skip
    found = sql.rows(connection, sql.queries("agents")["transcript"], values)
    messages = [Message(**name_columns(_STORED, row)) for row in found]
    newest_first = make_page(messages, limit, lambda each: (str(each.position),))
    return Page(items=_add_calls(connection, newest_first.items[::-1]), next=newest_first.next)


def _add_calls(connection: apsw.Connection, messages: Sequence[Message]) -> tuple[Message, ...]:
    calls = _load_calls(connection, sorted({each.turn_id for each in messages}))
    # A turn ends with the answer, whole or, where it was stopped, in part.
    ends = {each.turn_id: each.id for each in messages if each.role == "assistant"}
    return tuple(
        replace(
            each,
            calls=tuple(calls[each.turn_id, each.position]),
            replaced=bool(each.replaced),
            stopped=each.turn_status == "cancelled" and ends.get(each.turn_id) == each.id,
        )
        for each in messages
    )


def _load_calls(
    connection: apsw.Connection, turn_ids: list[str]
) -> dict[tuple[str, int | None], list[ToolCall]]:
    values = {"turns": json.dumps(turn_ids), "most": _MOST_OF_A_CALL}
    found: dict[tuple[str, int | None], list[ToolCall]] = defaultdict(list)
    for row in sql.rows(connection, sql.queries("agents")["calls_of_turns"], values):
        call = make_record(ToolCall, row)
        found[call.turn_id, call.position].append(call)
    return found
