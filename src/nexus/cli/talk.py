"""What a conversation needs of a home, wherever that is open."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict, Unpack, cast

from nexus.attachments import File
from nexus.cli.place import note, user_name
from nexus.client import Client
from nexus.config import Config
from nexus.home import Home
from nexus.results import TraceStep, WaitingCall
from nexus.runs import Receipt, Run, Totals
from nexus.serving import serving

if TYPE_CHECKING:
    from nexus.app import App
    from nexus.automations.reminders import Draft, Reminder
    from nexus.broker.approvals import Decision
    from nexus.gateway.views.answers import LastMessage
    from nexus.gateway.views.sessions import Message
    from nexus.ledgers.events import Unasked
    from nexus.ledgers.runtime.trace import Node, NodeKind
    from nexus.memory.recall.item import Item
    from nexus.memory.views.page import Page

CHANNEL: Final = "cli"
MOST_RECALLED: Final = 8


class PromptChanges(TypedDict, total=False):
    """How a prompt is changed before it is asked again."""

    without: Sequence[str]
    memories: str
    profile: str


@dataclass(frozen=True, kw_only=True)
class SessionLine:
    """A session in a list."""

    label: str
    updated_at: str
    title: str


class Talk(ABC):
    """What a conversation needs of a home, whether this process or another one has it open."""

    where = ""
    """Who serves it; empty where it is opened here."""

    def __init__(self, home: "App | Client") -> None:
        self._home = home

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
        return await self._home.receive(
            text,
            session_label=session_label,
            channel=CHANNEL,
            model=model,
            mode="interrupt" if replaces else "followup",
            files=files,
            replaces=replaces,
        )

    async def regenerate(self, execution_id: str, model: str) -> Run:
        return await self._home.regenerate(execution_id, model)

    async def experiment(self, execution_id: str, **changed: Unpack[PromptChanges]) -> Run:
        """Ask for a finished answer once more with other memories."""
        return await self._home.experiment(execution_id, **changed)

    async def correct(self, fact_id: str, text: str) -> None:
        await self._home.correct(fact_id, text, by=user_name(), channel=CHANNEL)

    async def new_session(self, session_label: str) -> None:
        await self._home.new_session(session_label, channel=CHANNEL)

    async def active_runs(self, session_label: str) -> Sequence[Run]:
        return await self._home.active_runs(session_label)

    async def runs_after(self, session_label: str, execution_id: str) -> Sequence[Run]:
        return await self._home.runs_after(session_label, execution_id)

    async def draft(self, words: str) -> "Draft":
        """The reminder that words ask for; nothing is saved."""
        return await self._home.draft_reminder(words)

    async def remind(self, new: "Draft", session_label: str) -> "Reminder":
        return await self._home.remind(new, session_label=session_label, channel=CHANNEL)

    async def reminders(self) -> "list[Reminder]":
        return await self._home.list_reminders()

    async def recall(self, text: str) -> "list[Item]":
        return [match.item for match in (await self._home.recall(text, limit=MOST_RECALLED)).results]

    async def cost(self, session_label: str) -> Totals:
        return await self._home.cost(session_label)

    @abstractmethod
    async def sessions(self, limit: int, cursor: str | None = None) -> tuple[list[SessionLine], str | None]:
        """The sessions of people, most recently used first, and where the next ones begin."""

    @abstractmethod
    async def transcript(self, session_label: str, limit: int, cursor: str | None = None) -> "Page[Message]":
        """The newest messages of a session, in order; the next page is older."""

    @abstractmethod
    async def newest_run(self, session_label: str) -> str | None: ...

    @abstractmethod
    async def last_message(self, session_label: str) -> "LastMessage | None": ...

    @abstractmethod
    async def sent_messages(self, session_label: str, limit: int) -> list[str]: ...

    @abstractmethod
    async def scheduled_messages(self, session_label: str, after: int | None) -> "list[Unasked]": ...

    @abstractmethod
    async def waiting_call(self, approval_id: str) -> WaitingCall | None:
        """A call that waits; None if it was decided."""

    @abstractmethod
    async def decide(self, approval_id: str, decision: "Decision", call_hash: str) -> None: ...

    @abstractmethod
    async def workers_at_work(self, execution_id: str) -> int: ...

    @abstractmethod
    async def count_unwritten(self, request_id: str) -> int:
        """Count the turns of a request that this process has yet to write to the memory."""

    @abstractmethod
    async def trace(self, request_id: str) -> "Node": ...


class There(Talk):
    """A home that another process serves."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._client = client
        self.where = client.url

    async def sessions(self, limit: int, cursor: str | None = None) -> tuple[list[SessionLine], str | None]:
        page = await self._client.sessions(kind="people", limit=limit, cursor=cursor)
        listed = [
            SessionLine(label=each.label, updated_at=each.updated_at, title=each.title) for each in page.items
        ]
        return listed, page.next

    async def transcript(self, session_label: str, limit: int, cursor: str | None = None) -> "Page[Message]":
        return await self._client.transcript(session_label, limit=limit, cursor=cursor)

    async def newest_run(self, session_label: str) -> str | None:
        return await self._client.newest_run(session_label)

    async def last_message(self, session_label: str) -> "LastMessage | None":
        return await self._client.last_message(session_label)

    async def sent_messages(self, session_label: str, limit: int) -> list[str]:
        return await self._client.sent_messages(session_label, channel=CHANNEL, limit=limit)

    async def scheduled_messages(self, session_label: str, after: int | None) -> "list[Unasked]":
        return await self._client.scheduled_messages(session_label, channel=CHANNEL, after=after)

    async def waiting_call(self, approval_id: str) -> WaitingCall | None:
        waiting = await self._client.waiting_calls()
        return next((each for each in waiting if each.id == approval_id), None)

    async def decide(self, approval_id: str, decision: "Decision", call_hash: str) -> None:
        await self._client.decide(approval_id, decision, call_hash)

    async def workers_at_work(self, execution_id: str) -> int:
        return (await self._client.execution(execution_id)).workers_at_work

    async def count_unwritten(self, request_id: str) -> int:
        return 0  # the process that serves the home writes them

    async def trace(self, request_id: str) -> "Node":
        return _make_node((await self._client.request(request_id)).trace)


_OWN_KINDS: Final = frozenset({"request", "execution", "automation", "memory"})


def _make_node(step: TraceStep) -> "Node":
    from nexus.ledgers.runtime.trace import Node

    kind = step.kind if step.kind in _OWN_KINDS else "span"
    return Node(
        kind=cast("NodeKind", kind),
        id=step.id,
        name=step.name,
        status=step.status,
        started_at=step.started_at or "",
        duration_ms=step.duration_ms,
        error=step.error,
        detail=step.detail if kind == step.kind else {"kind": step.kind, **step.detail},
        usage=step.usage,
        children=[_make_node(child) for child in step.children],
    )


@asynccontextmanager
async def open_talk(
    home: Home, settings: Config, model: str, *, needs_model: bool = True
) -> AsyncGenerator[Talk]:
    """The home, ready to be talked with; an error that says what to do where no model could answer."""
    service = serving(home)
    if service is not None and service.url:
        async with Client(service.url, home.token(), service=service, notify=note) as client:
            yield There(client)
        return
    # Imported here: a home that is served needs nothing of what serving it takes.
    from nexus.cli.talk_here import open_here

    async with open_here(home, settings, model, needs_model=needs_model) as opened:
        yield opened
