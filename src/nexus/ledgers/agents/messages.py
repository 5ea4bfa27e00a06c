"""Messages in the agents ledger. `parts_json` is in the agent library's own form, and opaque here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import apsw

from nexus import ids
from nexus.errors import LedgerError
from nexus.ledgers import sql
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.text import storable

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewMessage:
    """A message, before it is recorded."""

    role: Role
    content: str
    """What a person reads."""
    parts_json: str | None
    """What the model was shown or said, exactly. None where only the text is known."""
    model: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredMessage:
    """A recorded message. One that was not said but stands for what is missing has no id."""

    id: str
    turn_id: str
    position: int
    role: Role
    content: str
    parts_json: str | None
    model: str | None
    event_id: str | None
    created_at: str


def append(
    connection: apsw.Connection, turn: OpenTurn, offset: int, messages: Sequence[NewMessage]
) -> list[str]:
    """Record messages of a turn from its `offset`-th place on; returns their ids.

    Repeating it changes nothing. If a resumed run has a different message at a place, the new one replaces
    the old, unless the old one is a model's answer.
    """
    return [
        _append(connection, turn, turn.first_position + offset + number, message)
        for number, message in enumerate(messages)
    ]


def of_turn(connection: apsw.Connection, turn: OpenTurn) -> list[StoredMessage]:
    """Return the messages of a turn so far, in order."""
    rows = connection.execute(sql.queries("agents")["messages_of_turn"], (turn.id,))
    return [sql.make(StoredMessage, row) for row in rows]


def parts_at(connection: apsw.Connection, turn: OpenTurn, offset: int) -> str | None:
    """Return the exact message at a place of a turn; None where there is none yet."""
    values = (turn.session_id, turn.first_position + offset, turn.id)
    return cast("str | None", connection.execute(sql.queries("agents")["parts_at"], values).get)


def _append(connection: apsw.Connection, turn: OpenTurn, position: int, message: NewMessage) -> str:
    queries = sql.queries("agents")
    connection.execute(
        queries["append_message"],
        {
            "id": ids.new("msg"),
            "session_id": turn.session_id,
            "turn_id": turn.id,
            "position": position,
            "role": message.role,
            "content": storable(message.content),
            "parts_json": message.parts_json,
            "model": message.model,
            "event_id": message.event_id,
        },
    )
    found = connection.execute(queries["message_at"], (turn.session_id, position)).fetchone()
    id_, of_turn = cast("tuple[str, str]", found)
    if of_turn != turn.id:
        raise LedgerError(
            f"Message {position} of the session {turn.session_id} belongs to another turn, {of_turn}",
            hint="Two runs of one session overlapped. Nothing changed.",
        )
    return id_
