"""Talking with a home that this process opens itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from nexus.app import App
from nexus.broker.approvals import Decision
from nexus.broker.questions import describe_rule
from nexus.cli.talk import CHANNEL, SessionLine, Talk
from nexus.config import Config
from nexus.gateway.views import sessions
from nexus.gateway.views.answers import LastMessage, load_last_message
from nexus.gateway.views.sessions import Message
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.events import Unasked
from nexus.ledgers.runtime import executions, invocations
from nexus.ledgers.runtime import trace as traces
from nexus.ledgers.runtime.trace import Node
from nexus.memory.views.page import Page
from nexus.results import WaitingCall
from nexus.roles.memory_writer import NAME as WRITER


@asynccontextmanager
async def open_here(
    home: Home, settings: Config, model: str, *, needs_model: bool = True
) -> AsyncGenerator["Here"]:
    """The home, opened; an error that says what to do where no model could answer."""
    async with App(home, settings) as app:
        if needs_model:
            await app.broker.check_models("manager", model)
        yield Here(app)


class Here(Talk):
    """A home that this process has open."""

    def __init__(self, app: App) -> None:
        super().__init__(app)
        self._app = app

    async def sessions(self, limit: int, cursor: str | None = None) -> tuple[list[SessionLine], str | None]:
        page = await sessions.load_page(self._app.ledgers, kind="people", limit=limit, cursor=cursor)
        listed = [
            SessionLine(label=each.label, updated_at=each.updated_at, title=each.title) for each in page.items
        ]
        return listed, page.next

    async def transcript(self, session_label: str, limit: int, cursor: str | None = None) -> Page[Message]:
        session = await sessions.get(self._app.ledgers, session_label)
        return await sessions.load_transcript(self._app.ledgers, session.id, cursor=cursor, limit=limit)

    async def newest_run(self, session_label: str) -> str | None:
        return await self._app.ledgers.runtime.read(executions.newest_in, session_label=session_label)

    async def last_message(self, session_label: str) -> LastMessage | None:
        return await load_last_message(self._app.ledgers, session_label)

    async def sent_messages(self, session_label: str, limit: int) -> list[str]:
        return await self._app.ledgers.events.read(
            events.list_said, channel=CHANNEL, external_id=session_label, limit=limit
        )

    async def scheduled_messages(self, session_label: str, after: int | None) -> list[Unasked]:
        return await self._app.ledgers.events.read(
            events.list_unasked, channel=CHANNEL, external_id=session_label, after=after
        )

    async def waiting_call(self, approval_id: str) -> WaitingCall | None:
        found = next(
            (each for each in await self._app.broker.approvals.waiting() if each.id == approval_id), None
        )
        return found and WaitingCall(
            id=found.id,
            tool=found.tool,
            arguments=dict(found.arguments),
            call_hash=found.call_hash,
            always=describe_rule(found) if found.may_become_rule else None,
        )

    async def decide(self, approval_id: str, decision: Decision, call_hash: str) -> None:
        await self._app.broker.approvals.decide(approval_id, decision, call_hash)

    async def workers_at_work(self, execution_id: str) -> int:
        return await self._app.broker.workers.at_work(execution_id)

    async def count_unwritten(self, request_id: str) -> int:
        return await self._app.ledgers.runtime.read(
            invocations.count_unfinished_of, automation=WRITER, root_request_id=request_id
        )

    async def trace(self, request_id: str) -> Node:
        return await self._app.ledgers.runtime.read(traces.load, request_id=request_id)
