"""What a conversation needs of a home, wherever that is open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from nexus import clock
from nexus.attachments import File
from nexus.cli.place import user_name
from nexus.client import Client
from nexus.runs import Receipt, Run, Totals

# Imported where they are made: few conversations set a reminder.
if TYPE_CHECKING:
    from nexus.automations.reminders import Draft, Reminder
    from nexus.broker.approvals import Decision
    from nexus.gateway.views.answers import LastMessage
    from nexus.ledgers.events import Unasked
    from nexus.ledgers.runtime.trace import Node

CHANNEL: Final = "cli"
MOST_RECALLED: Final = 8


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """Something that the memory holds."""

    kind: str
    id: str
    at: str
    speaker: str | None
    text: str


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A session in a list."""

    label: str
    updated_at: str
    title: str


class Talk(Protocol):
    """What a conversation needs of a home."""

    where: str
    """Who serves it; empty where it is opened here."""

    async def receive(
        self,
        text: str,
        *,
        session_label: str,
        model: str,
        files: Sequence[File] = (),
        replaces: str | None = None,
    ) -> Receipt:
        """Send a message; with `replaces`, a run's id, in the place of that run's message."""
        ...

    async def regenerate(self, execution_id: str, model: str) -> Run: ...

    async def correct(self, fact_id: str, text: str) -> None: ...

    async def new_session(self, session_label: str) -> None: ...

    async def sessions(self, limit: int) -> list[Listed]: ...

    async def active_runs(self, session_label: str) -> Sequence[Run]: ...

    async def runs_after(self, session_label: str, execution_id: str) -> Sequence[Run]: ...

    async def newest_run(self, session_label: str) -> str | None: ...

    async def last_message(self, session_label: str) -> "LastMessage | None": ...

    async def sent_messages(self, session_label: str, limit: int) -> list[str]: ...

    async def scheduled_messages(self, session_label: str, after: int | None) -> "list[Unasked]": ...

    async def draft(self, words: str) -> "Draft":
        """The reminder that words ask for; nothing is saved."""
        ...

    async def remind(self, new: "Draft", session_label: str) -> "Reminder": ...

    async def reminders(self) -> "list[Reminder]": ...

    async def decide(self, approval_id: str, decision: "Decision", call_hash: str) -> None: ...

    async def workers_at_work(self, execution_id: str) -> int: ...

    async def count_unwritten(self, request_id: str) -> int:
        """Count the turns of a request that this process has yet to write to the memory."""
        ...

    async def recall(self, text: str) -> list[Recalled]: ...

    async def cost(self, session_label: str) -> Totals: ...

    async def trace(self, request_id: str) -> "Node": ...


class There:
    """A home that another process serves."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.where = client.url

    async def receive(
        self,
        text: str,
        *,
        session_label: str,
        model: str,
        files: Sequence[File] = (),
        replaces: str | None = None,
    ) -> Receipt:
        return await self._client.submit(
            text,
            session_label=session_label,
            channel=CHANNEL,
            model=model,
            mode="interrupt" if replaces else "followup",
            files=files,
            replaces=replaces,
        )

    async def regenerate(self, execution_id: str, model: str) -> Run:
        return await self._client.regenerate(execution_id, model)

    async def correct(self, fact_id: str, text: str) -> None:
        await self._client.correct(fact_id, text, by=user_name(), channel=CHANNEL)

    async def new_session(self, session_label: str) -> None:
        await self._client.new_session(session_label, channel=CHANNEL)

    async def sessions(self, limit: int) -> list[Listed]:
        found = (await self._client.sessions(kind="people", limit=limit))["items"]
        return [
            Listed(label=each["label"], updated_at=each["updated_at"], title=each["title"]) for each in found
        ]

    async def active_runs(self, session_label: str) -> Sequence[Run]:
        return await self._client.active_runs(session_label)

    async def runs_after(self, session_label: str, execution_id: str) -> Sequence[Run]:
        return await self._client.runs_after(session_label, execution_id)

    async def newest_run(self, session_label: str) -> str | None:
        return await self._client.newest_run(session_label)

    async def last_message(self, session_label: str) -> "LastMessage | None":
        from nexus.gateway.views.answers import LastMessage

        found = await self._client.last_message(session_label)
        return None if found is None else LastMessage(**found)

    async def sent_messages(self, session_label: str, limit: int) -> list[str]:
        return await self._client.sent_messages(session_label, channel=CHANNEL, limit=limit)

    async def scheduled_messages(self, session_label: str, after: int | None) -> "list[Unasked]":
        from nexus.ledgers.events import Unasked

        sent = await self._client.scheduled_messages(session_label, channel=CHANNEL, after=after)
        return [Unasked(**each) for each in sent]

    async def draft(self, words: str) -> "Draft":
        from nexus.automations.reminders import Draft
        from nexus.automations.when import When

        told = await self._client.draft_reminder(words)
        at = None if told["at"] is None else clock.parse(told["at"])
        return Draft(
            text=told["text"], asks=told["asks"], when=When(zone=told["zone"], at=at, cron=told["cron"])
        )

    async def remind(self, new: "Draft", session_label: str) -> "Reminder":
        from nexus.automations.reminders import Reminder

        told = {"text": new.text, "asks": new.asks, **new.when.triggers}
        return Reminder(**await self._client.remind(told, session_label=session_label, channel=CHANNEL))

    async def reminders(self) -> "list[Reminder]":
        from nexus.automations.reminders import Reminder

        return [Reminder(**each) for each in await self._client.reminders()]

    async def decide(self, approval_id: str, decision: "Decision", call_hash: str) -> None:
        await self._client.decide(approval_id, decision, call_hash)

    async def workers_at_work(self, execution_id: str) -> int:
        return (await self._client.execution(execution_id))["workers_at_work"]

    async def count_unwritten(self, request_id: str) -> int:
        return 0  # the process that serves the home writes them

    async def recall(self, text: str) -> list[Recalled]:
        answer = await self._client.recall(text, limit=MOST_RECALLED)
        items = [result["item"] for result in answer["results"]]
        return [Recalled(**{key: i[key] for key in ("kind", "id", "at", "speaker", "text")}) for i in items]

    async def cost(self, session_label: str) -> Totals:
        return await self._client.cost(session_label)

    async def trace(self, request_id: str) -> "Node":
        return _parse_node((await self._client.request(request_id))["trace"])


_OWN_KINDS: Final = frozenset({"request", "execution", "automation", "memory"})


def _parse_node(step: dict[str, Any]) -> "Node":
    from nexus.ledgers.runtime.trace import Node

    kind = step["kind"] if step["kind"] in _OWN_KINDS else "span"
    return Node(
        kind=kind,
        id=step["id"],
        name=step["name"],
        status=step["status"],
        started_at=step["started_at"] or "",
        duration_ms=step["duration_ms"],
        error=step["error"],
        detail=step["detail"] if kind == step["kind"] else {"kind": step["kind"], **step["detail"]},
        usage=Totals(**step["usage"]),
        children=[_parse_node(child) for child in step["children"]],
    )
