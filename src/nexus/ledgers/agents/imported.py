"""Sessions of other programs' agents in the agents ledger, beside Nexus's own and never continued by it.

A message's id follows from what its program calls it and its time, so recording it again adds nothing. A
turn is a message of a person and what followed it. No turn has a run: what looks for runs passes them by.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import apsw

from nexus import clock, ids
from nexus.ledgers import sql
from nexus.ledgers.text import storable


@dataclass(frozen=True, kw_only=True, slots=True)
class PastCall:
    """A tool that another program's agent called. Its result names it by `call_id`."""

    call_id: str | None
    tool_name: str
    arguments_json: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PastResult:
    """What a tool gave to another program's agent, for a call of the same session."""

    call_id: str | None
    content: str
    is_error: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PastMessage:
    """A message of another program's session, ready to be recorded."""

    key: str
    """What tells it from all others of its program."""
    session: str
    """The label of its session."""
    parent: str | None
    """The label of the session that started it."""
    project: str | None
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    model: str | None
    event_id: str
    thread_id: str | None
    at: str
    calls: tuple[PastCall, ...] = ()
    results: tuple[PastResult, ...] = ()

    @property
    def id(self) -> str:
        return ids.of_past("msg", clock.parse(self.at), self.key)


def record(connection: apsw.Connection, *, source: str, messages: Sequence[PastMessage]) -> int:
    """Record the messages that are new, in the order in which they were said; returns how many those are."""
    wanted = (json.dumps([each.id for each in messages]),)
    rows = connection.execute(sql.queries("agents")["imported_messages"], wanted).fetchall()
    known = {id_: (session, turn) for id_, session, turn in cast("list[tuple[str, str, str]]", rows)}
    of_session: dict[str, list[PastMessage]] = {}
    for each in messages:
        of_session.setdefault(each.session, []).append(each)
    added = 0
    for said in of_session.values():
        first = next((each for each in said if each.id not in known), None)
        if first is not None:
            added += _Recording(connection, source, first).add(said, known)
    return added


class _Recording:
    """The messages of one session, as they are added to it."""

    def __init__(self, connection: apsw.Connection, source: str, first: PastMessage) -> None:
        self._connection = connection
        self._queries = sql.queries("agents")
        self._session_id = self._ensure_session(source, first)
        self._position = self._next("next_position", (self._session_id,))
        self._turn_position = self._next("next_turn_position", {"session_id": self._session_id})
        self._turn: str | None = connection.execute(self._queries["last_turn"], (self._session_id,)).get  # type: ignore[assignment]
        # Calls of these messages, which most results are for.
        self._calls: dict[str, str] = {}

    def add(self, messages: Sequence[PastMessage], known: dict[str, tuple[str, str]]) -> int:
        """Add those that are not known, which are added to `known`."""
        added, ends = 0, dict[str, str]()
        for message in messages:
            if message.id in known:
                # A session that goes on with another one repeats its messages: they stay with that one.
                session, turn = known[message.id]
                self._turn = turn if session == self._session_id else self._turn
                continue
            turn = self._open_turn(message)
            self._add_message(message, turn)
            known[message.id] = (self._session_id, turn)
            ends[turn] = max(message.at, ends.get(turn, ""))
            added += 1
        for turn, at in ends.items():
            self._run("end_imported_turn", {"id": turn, "at": at})
        if added:
            last = max(ends.values())
            models = [each.model for each in messages if each.model is not None]
            project = next((each.project for each in messages if each.project is not None), None)
            values = {"id": self._session_id, "at": last, "model": storable(models[-1]) if models else None}
            self._run("extend_imported_session", {**values, "project": project and storable(project)})
        return added

    def _ensure_session(self, source: str, first: PastMessage) -> str:
        label, known = self._find_session(source, first.session)
        if known is not None:
            return known
        id_ = ids.of_past("ses", clock.parse(first.at), label)
        values = {
            "id": id_,
            "label": label,
            "source": source,
            "role": "manager" if first.parent is None else "worker",
            "model": first.model and storable(first.model),
            "project": first.project and storable(first.project),
            "thread_id": first.thread_id,
            "parent_id": first.parent and self._find_session(source, first.parent)[1],
            "at": first.at,
        }
        self._run("add_imported_session", values)
        self._run("adopt_imported_sessions", {**values, "label": storable(first.session)})
        return id_

    def _find_session(self, source: str, name: str) -> tuple[str, str | None]:
        """Return the label of a program's session and its id, if there is one.

        A label that a session of Nexus or of another program has is left to that one.
        """
        label = storable(name)
        while (found := self._connection.execute(self._queries["session"], (label,)).fetchone()) is not None:
            if found[-1] == source:
                return label, cast("str", found[0])
            label += "~"
        return label, None

    def _open_turn(self, message: PastMessage) -> str:
        """Find the turn of a message: a person's begins one, unless only the program has spoken."""
        is_open = self._turn is not None
        if is_open and message.role == "user":
            is_open = not self._connection.execute(self._queries["has_begun"], (self._turn,)).get
        if not is_open:
            self._turn = ids.derived("trn", message.id, self._session_id)
            values = {"id": self._turn, "session_id": self._session_id, "at": message.at}
            self._run("add_imported_turn", {**values, "position": self._turn_position})
            self._turn_position += 1
        return cast("str", self._turn)

    def _add_message(self, message: PastMessage, turn: str) -> None:
        place: dict[str, Any] = {
            "session_id": self._session_id,
            "turn_id": turn,
            "position": self._position,
            "at": message.at,
        }
        said = {
            "role": message.role,
            "content": storable(message.content),
            "model": message.model and storable(message.model),
        }
        self._run("add_imported_message", {**place, **said, "id": message.id, "event_id": message.event_id})
        self._position += 1
        for number, call in enumerate(message.calls):
            values: dict[str, Any] = {
                "id": ids.derived("tcl", message.id, str(number)),
                "message_id": message.id,
                "call_id": call.call_id and storable(call.call_id),
                "tool_name": storable(call.tool_name),
                "arguments": storable(call.arguments_json),
            }
            # Without a result it counts as cancelled: nothing here is under way.
            self._run("add_imported_call", {**place, **values})
            if call.call_id is not None:
                self._calls[call.call_id] = values["id"]
        for result in message.results:
            if result.call_id is not None:
                content = storable(result.content)
                values = {
                    "id": self._calls.get(result.call_id),
                    "session_id": self._session_id,
                    "call_id": storable(result.call_id),
                    "status": "failed" if result.is_error else "done",
                    "result": None if result.is_error else content,
                    "error": content if result.is_error else None,
                    "at": message.at,
                }
                self._run("end_imported_call", values)

    def _next(self, query: str, values: Any) -> int:
        return cast("int", self._connection.execute(self._queries[query], values).get)

    def _run(self, query: str, values: dict[str, Any]) -> None:
        self._connection.execute(self._queries[query], values)
