"""What the commands do that somebody sends as a message: on a channel, over the API or with `nexus run`."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Final

from nexus import clock, commands
from nexus.automations.context import Occasion
from nexus.automations.reminders import Reminders
from nexus.automations.runner import Runner
from nexus.automations.scheduling import find_place
from nexus.broker.broker import Broker
from nexus.config import Config
from nexus.errors import NexusError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.agents import sessions, turns
from nexus.ledgers.runtime import executions, requests, trace, usage
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.memory.recall.recall import Recall
from nexus.request import EVERYTHING, Request, Visibility

_SHOWN: Final = 5
_SHOWN_SESSIONS: Final = 15
_SHOWN_CHARACTERS: Final = 300
OpenRecall = Callable[[Visibility, frozenset[str]], Awaitable[Recall]]


class Commands:
    """Carries out the commands of one home."""

    def __init__(
        self,
        ledgers: Ledgers,
        config: Config,
        broker: Broker,
        runner: Runner,
        reminders: Reminders,
        open_recall: OpenRecall,
    ) -> None:
        self._ledgers = ledgers
        self._config = config
        self._broker = broker
        self._runner = runner
        self._reminders = reminders
        self._open_recall = open_recall

    async def answer(self, request: Request) -> str | None:
        """Carry out the command that a request is; None if it is a message for the agent."""
        found = commands.parse(request.event.content)
        if found is None:
            return None
        command, words = found
        is_owner = request.access.level == "owner"
        if not is_owner and not command.is_for_guests:
            return f"Only the owner can use /{command.name}."
        if is_owner and request.access.memory != "all" and not command.is_for_guests:
            return f"Others read along here. Use /{command.name} in a conversation of your own."
        try:
            return await self._run(command.name, words, request, is_owner=is_owner)
        except NexusError as error:
            return "\n\n".join(filter(None, (f"{error.message}.", error.hint)))

    async def _run(self, name: str, words: str, request: Request, *, is_owner: bool) -> str:
        label = request.agent.session_label
        match name:
            case "new":
                await self._runner.fire("command:new", Occasion(request=request))
                await self._ledgers.agents.write(
                    turns.start_over,
                    session_label=label,
                    request_id=request.request_id,
                    thread_id=request.event.thread_id,
                )
                return "Started a new session: the agent no longer sees the earlier messages."
            case "stop":
                return await self._stop(request)
            case "sessions":
                return await self._list_sessions()
            case "model":
                return self._list_models()
            case "memory":
                return await self._search(words, request)
            case "remind" if words:
                draft = await self._reminders.draft(words)
                place = await find_place(self._ledgers, request)
                await self._reminders.save(draft, place, key=request.event.id)
                return "\n\n".join(["Saved.", *draft.describe(self._reminders.now())])
            case "remind":
                return "Say when and what, for example: /remind in two hours call Anna"
            case "reminders":
                rows = [
                    f"- {each.when} ({each.state}): {each.text}" for each in await self._reminders.load_all()
                ]
                return "\n".join(rows) or "No reminders. /remind makes one."
            case "cost":
                spent = await self._ledgers.runtime.read(usage.of_session, session_label=label)
                calls = f"{spent.calls:,} call{'s' * (spent.calls != 1)}"
                return f"{calls}, {spent.tokens:,} tokens{spent.cost and f', {spent.cost}'}."
            case "trace":
                return await self._trace(label)
            case _:
                place = "dashboard" if request.event.channel == "web" else "message"
                found = commands.list_for(place, is_owner=is_owner)
                return "\n".join(f"- `{each.usage}`: {each.about}" for each in found)

    async def _stop(self, request: Request) -> str:
        """Cancel what runs and waits in the session; a guest only what they asked for themselves."""
        label, stopped = request.agent.session_label, 0
        for id_ in await self._ledgers.runtime.read(executions.list_unfinished_in, session_label=label):
            run = await self._ledgers.runtime.read(executions.get, execution_id=id_)
            asked = run and await self._ledgers.runtime.read(requests.get, request_id=run.request_id)
            if asked and request.may_know_all_of(asked):
                stopped += await self._broker.run(id_).cancel()
        return "Stopped." if stopped else "Nothing to stop."

    async def _list_sessions(self) -> str:
        found = await self._ledgers.agents.read(sessions.newest_of_people, limit=_SHOWN_SESSIONS)
        rows = [
            f"- {clock.minute(each.updated_at)} `{each.label}` {each.title or ''}".rstrip() for each in found
        ]
        return (
            "\n".join([*rows, "", "Continue one with `nexus chat --session NAME`."])
            if rows
            else "No sessions yet."
        )

    def _list_models(self) -> str:
        named = asdict(self._config.models).values()
        rows = [f"- {each}" for each in dict.fromkeys(each for names in named for each in names)]
        how = "Choose one in `nexus chat`, in the browser, or in config.toml."
        return "\n".join([*rows, "", how]) if rows else "No model is configured. Run `nexus init`."

    async def _search(self, words: str, request: Request) -> str:
        thread_id = request.event.thread_id
        if not words and thread_id:
            words = await self._ledgers.events.read(events.last_message, thread_id=thread_id) or ""
        if not words:
            return "Say something first, or add search words: /memory the boat trip"
        recall = await self._open_recall(EVERYTHING, frozenset(filter(None, [request.event.id])))
        found = await recall.find(Query(text=words, max_results=_SHOWN, deadline_ms=PATIENT_MS))
        rows = [
            f"- {each.item.at[:10]} {f'{each.item.speaker}: ' if each.item.speaker else ''}"
            f"{' '.join(each.item.text.split())[:_SHOWN_CHARACTERS]}"
            for each in found.results
        ]
        return "\n".join(rows) or "No matches."

    async def _trace(self, label: str) -> str:
        id_ = await self._ledgers.runtime.read(executions.newest_in, session_label=label)
        run = id_ and await self._ledgers.runtime.read(executions.get, execution_id=id_)
        if not run:
            return "No messages yet."
        node = await self._ledgers.runtime.read(trace.load, request_id=run.request_id)
        at = f"{clock.parse(node.started_at):%Y-%m-%d %H:%M} UTC" if node.started_at else ""
        rows = [f"- {each.name} {each.status} {each.duration_ms or 0:,.0f} ms" for each in node.children]
        return "\n".join([f"{node.id} {at} {node.status} {node.total.cost}".rstrip(), "", *rows])
