"""Sessions as a list, and the transcript of one."""

import json
from collections import defaultdict
from dataclasses import dataclass, replace

import apsw

from nexus.errors import MissingError
from nexus.gateway.views import names
from nexus.gateway.views.page import Page, begin, columns, loaded, named, page, position
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.agents import sessions as stored
from nexus.ledgers.agents.sessions import Session

# A transcript is read, not downloaded: what is longer is cut, and says so.
MOST_CHARACTERS = 6_000
_MOST_OF_A_CALL = 1_500
_LINE_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLine:
    """One session in a list."""

    id: str
    label: str
    role: str
    model: str | None
    parent_label: str | None
    created_at: str
    updated_at: str
    turns: int
    last_said: str | None
    """The beginning of what a person or an agent last said."""


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
    calls: tuple[ToolCall, ...] = ()
    said: str | None = None
    """What somebody said, where the message carries that: `content` is what the model was shown of it."""

    @property
    def is_cut(self) -> bool:
        return self.characters > len(self.content)


_STORED = columns(Message, before="calls")


async def listed(
    ledgers: Ledgers, *, role: str | None = None, cursor: str | None = None, limit: int = 50
) -> Page[SessionLine]:
    """List sessions by last use."""
    at, id_ = begin(cursor, 2)
    values = {"role": role, "at": at, "id": id_, "limit": limit + 1}
    query = sql.queries("agents")["listed_sessions"]
    found = await ledgers.agents.read(sql.rows, query, values)
    # A message that carries what somebody said is stored as sent to the model.
    said = await names.messages(ledgers, [row[-1] for row in found], _LINE_CHARACTERS)
    lines = [loaded(SessionLine, (*row[:-2], said.get(row[-1] or "", row[-2]))) for row in found]
    return page(lines, limit, lambda line: (line.updated_at, line.id))


async def roles(ledgers: Ledgers) -> tuple[str, ...]:
    """The roles that sessions have, for a filter."""
    found = await ledgers.agents.read(sql.rows, sql.queries("agents")["session_roles"])
    return tuple(row[0] for row in found)


async def get(ledgers: Ledgers, label: str) -> Session:
    """The session of a label."""
    found = await ledgers.agents.read(stored.get, label=label)
    if found is None:
        raise MissingError(f"Unknown session {label}", hint="See the sessions page.")
    return found


async def transcript(
    ledgers: Ledgers, session_id: str, *, cursor: str | None = None, limit: int = 30
) -> Page[Message]:
    """The newest messages of a session in the order in which they were said; the next page is older."""
    before = position(*begin(cursor, 1))
    found = await ledgers.agents.read(
        _transcript, session_id=session_id, before=before, limit=limit, most=MOST_CHARACTERS
    )
    said = await names.messages(ledgers, [each.event_id for each in found.items], MOST_CHARACTERS)
    items = tuple(replace(each, said=said.get(each.event_id or "")) for each in found.items)
    return Page(items=items, next=found.next)


async def message(ledgers: Ledgers, message_id: str) -> Message:
    """One message in its full length."""
    query = sql.queries("agents")["whole_message"]
    found = await ledgers.agents.read(sql.rows, query, (message_id,))
    if not found:
        raise MissingError(f"Unknown message {message_id}")
    return Message(**named(_STORED, found[0]))


def _transcript(
    connection: apsw.Connection, session_id: str, before: int, limit: int, most: int
) -> Page[Message]:
    values = {"session_id": session_id, "before": before, "limit": limit + 1, "most": most}
    found = sql.rows(connection, sql.queries("agents")["transcript"], values)
    messages = [Message(**named(_STORED, row)) for row in found]
    newest_first = page(messages, limit, lambda each: (str(each.position),))
    calls = _calls(connection, sorted({each.turn_id for each in newest_first.items}))
    shown = (
        replace(each, calls=tuple(calls[each.turn_id, each.position])) for each in newest_first.items[::-1]
    )
    return Page(items=tuple(shown), next=newest_first.next)


def _calls(connection: apsw.Connection, turn_ids: list[str]) -> dict[tuple[str, int | None], list[ToolCall]]:
    values = {"turns": json.dumps(turn_ids), "most": _MOST_OF_A_CALL}
    found: dict[tuple[str, int | None], list[ToolCall]] = defaultdict(list)
    for row in sql.rows(connection, sql.queries("agents")["calls_of_turns"], values):
        call = loaded(ToolCall, row)
        found[call.turn_id, call.position].append(call)
    return found
