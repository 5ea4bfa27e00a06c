"""A ledger of agents to talk into: turns by the text of their messages."""

import apsw

from nexus.ledgers import sql
from nexus.ledgers.agents import history, messages, turns
from nexus.ledgers.agents.messages import NewMessage, Role
from nexus.ledgers.agents.turns import End, OpenTurn

_ROLES: dict[str, Role] = {"u": "user", "a": "assistant", "t": "tool"}


def said(line: str) -> NewMessage:
    """A message such as `u:hello`: who says it (user, assistant, tool), and what."""
    who, _, text = line.partition(":")
    event_id = f"evt_{text}" if who == "u" else None
    return NewMessage(role=_ROLES[who], content=text, parts_json=f'["{line}"]', event_id=event_id)


class Conversation:
    """One agents ledger, in memory or in a file."""

    def __init__(self, file: str = ":memory:") -> None:
        self.connection = apsw.Connection(file)
        self.connection.execute(sql.text("agents", "schema.sql"))
        self._runs = 0

    def begin(
        self, label: str = "main", *, run: str = "", fork_of: str | None = None, replaces: str | None = None
    ) -> OpenTurn:
        self._runs += 1
        return turns.begin(
            self.connection,
            session_label=label,
            execution_id=run or f"exe_{self._runs}",
            request_id="req_1",
            role="manager",
            fork_of=fork_of,
            replaces=replaces,
        )

    def append(self, turn: OpenTurn, offset: int, *lines: str) -> list[str]:
        return messages.append(self.connection, turn, offset, [said(line) for line in lines])

    def turn(
        self,
        *lines: str,
        label: str = "main",
        end: End | None = "done",
        error: str | None = None,
        fork_of: str | None = None,
    ) -> OpenTurn:
        """A whole turn; without `end` it stays under way."""
        turn = self.begin(label, fork_of=fork_of)
        self.append(turn, 0, *lines)
        if end is not None:
            turns.end(self.connection, turn.id, end, error=error)
        return turn

    def summary(self, line: str, through: int, label: str = "main", *, end: End = "done") -> OpenTurn:
        self._runs += 1
        turn = turns.begin_summary(
            self.connection,
            session_label=label,
            execution_id=f"exe_{self._runs}",
            request_id="req_1",
            role="manager",
            summarises_through=through,
        )
        self.append(turn, 0, line)
        turns.end(self.connection, turn.id, end)
        return turn

    def history(self, label: str = "main") -> list[str]:
        return self._lines(label, None)

    def before(self, turn: OpenTurn) -> list[str]:
        return self._lines("", turn)

    def count(self, table: str) -> int:
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").get)  # pyright: ignore[reportArgumentType]

    def _lines(self, label: str, before: OpenTurn | None) -> list[str]:
        found = history.load(self.connection, label, before=before, ledger=self)
        whole = history.load(self.connection, label, before=before)
        assert found == whole, "what is kept is what the ledger holds"
        # What was said exactly stands in the parts; a note has only words.
        return [
            message.content if message.parts_json is None else message.parts_json[2:-2]
            for message in found.messages
        ]
