"""What a conversation needs of a home, wherever that is open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from nexus.ledgers.events import Unasked
from nexus.ledgers.runtime.trace import Node
from nexus.runs import Receipt, Run, Totals

CHANNEL: Final = "cli"
MOST_RECALLED: Final = 8


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """Something that the memory holds."""

    kind: str
    at: str
    speaker: str | None
    text: str


class Talk(Protocol):
    """What a conversation needs of a home."""

    where: str
    """Who serves it; empty where it is opened here."""

    async def receive(self, text: str, *, session_label: str, model: str) -> Receipt: ...

    async def new_session(self, session_label: str) -> None: ...

    async def active_runs(self, session_label: str) -> Sequence[Run]: ...

    async def runs_after(self, session_label: str, execution_id: str) -> Sequence[Run]: ...

    async def sent_messages(self, session_label: str, limit: int) -> list[str]: ...

    async def scheduled_messages(self, session_label: str, after: int | None) -> list[Unasked]: ...

    async def workers_at_work(self, execution_id: str) -> int: ...

    async def unwritten(self, request_id: str) -> int:
        """How many turns of a request this process has yet to write to the memory."""
        ...

    async def recalled(self, text: str) -> list[Recalled]: ...

    async def cost(self, session_label: str) -> Totals: ...

    async def trace(self, request_id: str) -> Node: ...
