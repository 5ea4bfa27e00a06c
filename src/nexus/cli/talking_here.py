"""Talking with a home that this process opens itself."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from nexus.app import App
from nexus.attachments import File
from nexus.automations.reminders import Draft, Reminder
from nexus.broker.approvals import Decision
from nexus.cli.memory_views import person
from nexus.cli.talk import CHANNEL, MOST_RECALLED, Listed, Recalled
from nexus.config import Config
from nexus.gateway.views import sessions
from nexus.gateway.views.answers import LastMessage, load_last_message
from nexus.home import Home
from nexus.ledgers import events
from nexus.ledgers.events import Unasked
from nexus.ledgers.runtime import executions, invocations, usage
from nexus.ledgers.runtime import trace as traces
from nexus.ledgers.runtime.trace import Node
from nexus.memory.recall.item import Query
from nexus.roles.memory_writer import NAME as WRITER
from nexus.runs import Receipt, Run, Totals


@asynccontextmanager
async def here(
    home: Home, settings: Config, model: str, *, needs_model: bool = True
) -> AsyncGenerator["Here"]:
    """The home, opened; an error that says what to do where no model could answer."""
    async with App(home, settings) as app:
        if needs_model:
            await app.broker.check_models("manager", model)
        yield Here(app)


class Here:
    """A home that this process has open."""

    where = ""

    def __init__(self, app: App) -> None:
        self._app = app

    async def receive(
        self,
        text: str,
        *,
        session_label: str,
        model: str,
        files: Sequence[File] = (),
        replaces: str | None = None,
    ) -> Receipt:
        return await self._app.receive(
            text,
            session_label=session_label,
            channel=CHANNEL,
            model=model,
            mode="interrupt" if replaces else "followup",
            files=files,
            replaces=replaces,
        )

    async def regenerate(self, execution_id: str, model: str) -> Run:
        return await self._app.regenerate(execution_id, model)

    async def correct(self, fact_id: str, text: str) -> None:
        await self._app.memory.correct(fact_id, text, person())

    async def new_session(self, session_label: str) -> None:
        await self._app.new_session(session_label, channel=CHANNEL)

    async def sessions(self, limit: int) -> list[Listed]:
        found = (await sessions.load_page(self._app.ledgers, kind="people", limit=limit)).items
        return [Listed(label=each.label, updated_at=each.updated_at, title=each.title) for each in found]

    async def active_runs(self, session_label: str) -> Sequence[Run]:
        return await self._app.active_runs(session_label)

    async def runs_after(self, session_label: str, execution_id: str) -> Sequence[Run]:
        return await self._app.runs_after(session_label, execution_id)

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

    async def draft(self, words: str) -> Draft:
        return await self._app.reminders.draft(words)

    async def remind(self, new: Draft, session_label: str) -> Reminder:
        return await self._app.remind(new, session_label=session_label, channel=CHANNEL)

    async def reminders(self) -> list[Reminder]:
        return await self._app.reminders.load_all()

    async def decide(self, approval_id: str, decision: Decision, call_hash: str) -> None:
        await self._app.broker.approvals.decide(approval_id, decision, call_hash)

    async def workers_at_work(self, execution_id: str) -> int:
        return await self._app.broker.workers.at_work(execution_id)

    async def count_unwritten(self, request_id: str) -> int:
        return await self._app.ledgers.runtime.read(
            invocations.count_unfinished_of, automation=WRITER, root_request_id=request_id
        )

    async def recall(self, text: str) -> list[Recalled]:
        answer = await (await self._app.open_recall()).find(Query(text=text, max_results=MOST_RECALLED))
        items = [result.item for result in answer.results]
        return [Recalled(kind=i.kind, id=i.id, at=i.at, speaker=i.speaker, text=i.text) for i in items]

    async def cost(self, session_label: str) -> Totals:
        return await self._app.ledgers.runtime.read(usage.of_session, session_label=session_label)

    async def trace(self, request_id: str) -> Node:
        return await self._app.ledgers.runtime.read(traces.load, request_id=request_id)
