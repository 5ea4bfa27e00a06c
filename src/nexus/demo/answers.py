"""What the agent was asked in the month: each message as a request with its stages, hooks and runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from nexus import clock, ids
from nexus.broker.agent.records import AGENT_WORK, ToolCall
from nexus.broker.budgets import Spender, Standing, hit, refusal
from nexus.context import AssembledContext
from nexus.demo import conversations
from nexus.demo.month import Scene
from nexus.demo.narration import Narrator
from nexus.demo.people import OWNER_SENDER
from nexus.demo.programs import mark_used, remind
from nexus.demo.tracing import LOCAL, MANAGER, WORKER, Call, Caused, Tracing
from nexus.ledgers import events
from nexus.ledgers.agents import messages, tool_calls, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.events import NewEvent, Participant
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import dispatches, executions, requests, usage
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.dispatches import NewDispatch
from nexus.ledgers.runtime.executions import NewExecution
from nexus.request import Access, Agent, Event, Request
from nexus.runs import MICRO, Response, Result

_PROMPT_TOKENS = 9_640
_LANES = {"manager": "chat", "worker": "workers", "background": "background"}
_RESULTS = {
    "recall": "3 memories were found; the first fits.",
    "web_search": "4 results; the first one answers it.",
    "read": "Read.",
    "write": "Written.",
    "bash": "548",
}
_NAMES = {
    "recall": "query",
    "web_search": "query",
    "bash": "command",
    "read": "path",
    "write": "path",
}
Status = Literal["done", "failed", "cancelled"]


@dataclass(kw_only=True)
class Run:
    """What an agent is asked and does."""

    label: str
    role: str
    said: str
    answer: str
    tools: tuple[tuple[str, str], ...] = ()
    workers: tuple[str, ...] = ()
    event_id: str | None = None
    model: str = MANAGER
    caused: Caused | None = None
    error: str | None = None
    """Where it fails: why."""
    refused: bool = False
    """Whether it ends because it may not spend more."""
    turns_before: int = 0


class RunWriter:
    """Writes the runs of one request."""

    def __init__(self, narrator: Narrator, request: Request, tracing: Tracing) -> None:
        self._narrator = narrator
        self._request = request
        self._tracing = tracing

    async def run(self, run: Run, status: Status = "done", execution_id: str = "") -> str:
        """Write a run from its place in the queue to its end; returns the execution's id."""
        runtime, calendar = self._narrator.ledgers.runtime, self._narrator.calendar
        new = self._new(run, execution_id or ids.new("exe"))
        await runtime.write(executions.enqueue, execution=new)
        calendar.spend(self._narrator.draw.uniform(8, 60))
        await runtime.write(executions.begin, execution_id=new.id)
        turn = await self._turn(run, new.id)
        await self._talk(run, new.id, turn)
        if run.refused:
            run.error = await self._refuse(new.id)
        await self._narrator.ledgers.agents.write(turns.end, turn_id=turn.id, status=status, error=run.error)
        result = await self._result(run, new.id) if status == "done" else None
        await runtime.write(
            executions.end, execution_id=new.id, status=status, result=result, error=run.error
        )
        return new.id

    def _new(self, run: Run, execution_id: str) -> NewExecution:
        context = AssembledContext(
            session_label=run.label,
            role=run.role,
            system_prompt="",
            tools=("bash", "read", "write", "recall", "agent_send"),
            current_message=run.said,
            event_id=run.event_id,
        )
        return NewExecution(
            id=execution_id,
            request_id=self._request.request_id,
            session_label=run.label,
            lane=_LANES["background" if run.caused else run.role],
            work=AGENT_WORK,
            mode="followup",
            input={"context": context.to_json()},
        )

    async def _turn(self, run: Run, execution_id: str) -> OpenTurn:
        return await self._narrator.ledgers.agents.write(
            turns.begin,
            session_label=run.label,
            execution_id=execution_id,
            request_id=self._request.request_id,
            role=run.role,
            thread_id=self._request.event.thread_id,
        )

    async def _talk(self, run: Run, execution_id: str, turn: OpenTurn) -> None:
        """Write the messages of the turn, each at its time."""
        steps = self._steps(run)
        forms = dump_turn(run.said, steps, run.answer, self._narrator.calendar.now())
        await self._append(
            turn, 0, NewMessage(role="user", content=run.said, parts_json=forms[0], event_id=run.event_id)
        )
        for number, (call, result) in enumerate(steps):
            offset = 2 * number + 1
            await self._model(run, execution_id, number, 40 + len(call.arguments_json) // 4)
            await self._append(
                turn,
                offset,
                NewMessage(role="assistant", content="", parts_json=forms[offset], model=run.model),
            )
            await self._call(run, execution_id, turn, offset, call, result)
            await self._append(
                turn, offset + 1, NewMessage(role="tool", content=result, parts_json=forms[offset + 1])
            )
        if run.refused:
            return
        await self._model(run, execution_id, len(steps), 30 + len(run.answer) // 4)
        if run.error is None:
            await self._append(
                turn,
                2 * len(steps) + 1,
                NewMessage(role="assistant", content=run.answer, parts_json=forms[-1], model=run.model),
            )

    async def _refuse(self, execution_id: str) -> str:
        """Record that the budget of a message is used up, to the cent; returns what it says."""
        runtime, root = self._narrator.ledgers.runtime, self._request.root_request_id
        total = await runtime.read(usage.of_root, root_request_id=root)
        used = total.cost_microusd / MICRO
        spender = Spender(
            request_id=self._request.request_id, root_request_id=root, execution_id=execution_id
        )
        standing = Standing(budget="request", unit="usd", most=int(used * 100) / 100, used=used)
        await runtime.write(usage.record_hit, hit=hit(standing, spender))
        return f"BudgetError: {refusal(standing)}"

    def _steps(self, run: Run) -> list[tuple[ToolCall, str]]:
        tasks = [("agent_send", task) for task in run.workers]
        return [
            (
                ToolCall(call_id=f"call_{number}", tool=tool, arguments_json=_arguments(tool, asked)),
                _RESULTS.get(tool, "The worker has answered."),
            )
            for number, (tool, asked) in enumerate((*run.tools, *tasks))
        ]

    async def _append(self, turn: OpenTurn, offset: int, message: NewMessage) -> None:
        await self._narrator.ledgers.agents.write(
            messages.append, turn=turn, offset=offset, messages=[message]
        )

    async def _model(self, run: Run, execution_id: str, number: int, output: int) -> None:
        """Write a request to the model: its prefix is written to the cache once, and read from it later."""
        history = 310 * run.turns_before + 540 * number
        warm = run.turns_before > 0 or number > 0
        call = Call(
            model=run.model,
            fresh=60 + len(run.said) // 4,
            cached=_PROMPT_TOKENS + history if warm else 0,
            written=230 if warm else _PROMPT_TOKENS,
            output=output,
        )
        error = run.error if number == len(run.tools) + len(run.workers) else None
        await self._tracing.model(call, execution_id, run.role, run.caused, error or "")

    async def _call(
        self, run: Run, execution_id: str, turn: OpenTurn, offset: int, call: ToolCall, result: str
    ) -> None:
        agents = self._narrator.ledgers.agents
        begun = await agents.write(
            tool_calls.begin,
            turn=turn,
            offset=offset,
            call_id=call.call_id,
            tool_name=call.tool,
            arguments_json=call.arguments_json,
        )
        if call.tool == "agent_send":
            began = self._narrator.calendar.now()
            await self._dispatch(run, execution_id, call)
            took_ms = (self._narrator.calendar.now() - began).total_seconds() * 1000
            await self._tracing.span(
                "tool", call.tool, 3, execution_id=execution_id, attributes={"waited_ms": took_ms}
            )
        else:
            duration_ms = self._narrator.draw.uniform(4, 900 if call.tool == "web_search" else 60)
            await self._tracing.span("tool", call.tool, duration_ms, execution_id=execution_id)
        await agents.write(tool_calls.end, tool_call_id=begun.id, status="done", result=result)

    async def _dispatch(self, run: Run, execution_id: str, call: ToolCall) -> None:
        """Write a worker with a request and a session of its own, whose result goes back to this run."""
        runtime, task = self._narrator.ledgers.runtime, json.loads(call.arguments_json)["text"]
        label, worker_execution = ids.new("worker").replace("_", ":", 1), ids.new("exe")
        child = self._request.child(content=task, agent=Agent(role="worker", session_label=label))
        child.created_at = clock.timestamp(self._narrator.calendar.now())
        await runtime.write(requests.create, request=child)
        given = NewDispatch(
            id=ids.new("dsp"),
            parent_request_id=self._request.request_id,
            root_request_id=self._request.root_request_id,
            parent_session_label=run.label,
            parent_execution_id=execution_id,
            call_id=call.call_id,
            worker_request_id=child.request_id,
            worker_session_label=label,
            execution_id=worker_execution,
            task=task,
        )
        await runtime.write(dispatches.create, dispatch=given)
        work = Run(
            label=label,
            role="worker",
            said=task,
            answer=f"Done: {task}",
            tools=(("recall", task), ("read", "notes.md")),
            model=WORKER,
        )
        await RunWriter(self._narrator, child, self._tracing.of(child)).run(
            work, execution_id=worker_execution
        )
        await runtime.write(requests.end, request_id=child.request_id, status="done")
        await runtime.write(dispatches.end, dispatch_id=given.id, status="done")
        await runtime.write(
            dispatches.claim, dispatch_id=given.id, execution_id=execution_id, call_id=call.call_id
        )

    async def _result(self, run: Run, execution_id: str) -> dict[str, object]:
        used = await self._narrator.ledgers.runtime.read(usage.of_execution, execution_id=execution_id)
        return Result(
            execution_id=execution_id,
            request_id=self._request.request_id,
            session_label=run.label,
            response=Response(content=run.answer, model=run.model),
            usage=used,
        ).to_json()


def _arguments(tool: str, asked: str) -> str:
    if tool == "agent_send":
        return json.dumps({"op": "dispatch", "text": asked}, ensure_ascii=False)
    return json.dumps({_NAMES[tool]: asked}, ensure_ascii=False)


_OWNER_ACCESS = Access(level="owner", tools=None, network=True, memory="all", sessions=("*",))
_GONE = "ScriptError: https://parcels.example/open answered 410 Gone"
_OVERLOADED = "529 The provider is overloaded"


@dataclass(kw_only=True)
class RequestWriter:
    """Writes the requests of the month."""

    narrator: Narrator
    programs: dict[str, Automation]
    error_limit: int
    spoken: dict[str, int]
    """For each session: how many turns it has had."""
    parcels_are_gone: bool = False
    """Whether the site that the parcel tracker asks has been shut down by now."""
    failures: int = 0

    async def converse(self, scene: Scene) -> None:
        """Let the owner talk with the agent, message by message."""
        pairs = list(zip(scene.lines[::2], scene.lines[1::2], strict=True))
        event_ids: list[str] = []
        request_id = None
        for number, ((_, text), (_, answer)) in enumerate(pairs):
            new_events, request_id = await self.answer(scene, text, answer, work=number == 0)
            self.narrator.request_id = request_id
            event_ids += new_events
            self.narrator.calendar.spend(self.narrator.draw.uniform(15_000, 120_000))
        await conversations.learn(self.narrator, scene, event_ids, request_id)

    async def answer(
        self,
        scene: Scene,
        text: str,
        answer: str,
        *,
        work: bool,
        status: Status = "done",
        refused: bool = False,
    ) -> tuple[list[str], str]:
        """Write one message and its answer; returns the ids of their events, and of the request."""
        request = await self._receive(scene, text)
        tracing = Tracing(self.narrator, request, self.error_limit)
        await self._before(request, tracing, scene if work else None)
        error = _OVERLOADED if status == "failed" and not refused else None
        run = Run(
            label=scene.thread,
            role="manager",
            said=text,
            answer=answer,
            tools=scene.work.tools if work else (),
            workers=scene.work.workers if work else (),
            event_id=request.event.id,
            model=self._model(scene),
            error="Canceled." if status == "cancelled" else error,
            refused=refused,
            turns_before=self.spoken.get(scene.thread, 0),
        )
        runs = RunWriter(self.narrator, request, tracing)
        execution_id = await runs.run(run, status)
        self.spoken[scene.thread] = run.turns_before + 1
        event_ids = [str(request.event.id)]
        if status == "done" and work:
            await mark_used(self.narrator, request, scene.work.memories)
        if status == "done":
            event_ids.append(await self._after(request, tracing, runs, run, execution_id))
        await tracing.span("stage", "finalize", self.narrator.draw.uniform(1, 6))
        await self._end(request, status, run.error)
        return event_ids, request.request_id

    async def deny(self, seen: Seen, text: str) -> None:
        """Write a message of somebody who may not talk to the agent."""
        scene = Scene(at=self.narrator.calendar.now(), channel=seen.channel, thread=seen.identifier, lines=())
        request = await self._receive(scene, text, seen.identifier)
        tracing = Tracing(self.narrator, request, self.error_limit)
        for name in ("receiveEvent", "resolveIdentity", "resolveAccess"):
            outcome = "denied" if name == "resolveAccess" else "ok"
            await tracing.span("stage", name, self.narrator.draw.uniform(0.6, 5), outcome=outcome)
        await self.narrator.ledgers.runtime.write(
            requests.end, request_id=request.request_id, status="denied", error="an unknown sender"
        )

    def _model(self, scene: Scene) -> str:
        """Small talk goes to a small model, some of it to one of one's own."""
        if scene.summary or not scene.lines:
            return MANAGER
        return LOCAL if self.narrator.draw.random() < 0.08 else WORKER

    async def _receive(self, scene: Scene, text: str, sender: str = OWNER_SENDER) -> Request:
        thread_id = await conversations.ensure_thread(self.narrator, scene)
        new = NewEvent(
            channel=scene.channel,
            content=text,
            thread_id=thread_id,
            sender=sender,
            participants=(Participant(role="sender", identifier=sender),),
        )
        event_id = (
            await self.narrator.ledgers.events.write(
                events.append, events=[new], now=self.narrator.calendar.now
            )
        )[0]
        event = Event(content=text, id=event_id, thread_id=thread_id, channel=scene.channel, sender_id=sender)
        request = Request(
            event=event,
            agent=Agent(session_label=scene.thread),
            principal_id=self.narrator.owner_id if sender == OWNER_SENDER else None,
            access=_OWNER_ACCESS if sender == OWNER_SENDER else Access(),
            created_at=clock.timestamp(self.narrator.calendar.now()),
        )
        await self.narrator.ledgers.runtime.write(requests.create, request=request)
        return request

    async def _before(self, request: Request, tracing: Tracing, scene: Scene | None) -> None:
        """Write the stages up to the run, with what automations add on the way."""
        draw = self.narrator.draw
        for name in ("receiveEvent", "resolveIdentity", "resolveAccess"):
            await tracing.span("stage", name, draw.uniform(0.6, 5))
        tag = _tag(request.event.content)
        await tracing.invoke(
            self.programs["tag-errands"], draw.uniform(9, 35), result={"enrich": {"tag": tag}}
        )
        request.enrichment["tag"] = tag
        await tracing.span("stage", "runAutomations", draw.uniform(10, 40))
        await tracing.span("stage", "assembleContext", draw.uniform(2, 12))
        if scene and scene.work.memories:
            await remind(self.narrator, tracing, self.programs["remind"], request, scene.work.memories)
        await self.narrator.ledgers.runtime.write(requests.update, request=request)
        await tracing.span("stage", "runAgent", draw.uniform(3, 15))

    async def _after(
        self, request: Request, tracing: Tracing, runs: RunWriter, run: Run, execution_id: str
    ) -> str:
        """Write the answer, and run what listens for answers."""
        answer = NewEvent(
            channel=request.event.channel or "cli",
            content=run.answer,
            direction="outbound",
            thread_id=request.event.thread_id,
            external_id=execution_id,
            sender="nexus",
            reply_to_event_id=request.event.id,
            request_id=request.request_id,
        )
        event_id = (
            await self.narrator.ledgers.events.write(
                events.append, events=[answer], now=self.narrator.calendar.now
            )
        )[0]
        await tracing.span("stage", "deliverResponse", self.narrator.draw.uniform(2, 9))
        if run.tools or run.workers:
            await self._note(tracing, runs, run)
        await self._track(tracing)
        return event_id

    async def _note(self, tracing: Tracing, runs: RunWriter, run: Run) -> None:
        """Let the automation that keeps notes ask a model of its own."""
        notes = self.programs["evening-notes"]
        invocation_id = await tracing.invoke(notes, self.narrator.draw.uniform(900, 2_400), result={})
        label = f"meeseeks:evening-notes:{run.label}"
        work = Run(
            label=label,
            role="worker",
            said=f"Write down in one line what this was about: {run.said}",
            answer=f"Asked: {run.said[:60]}",
            model=WORKER,
            caused=Caused(automation=notes.name, invocation_id=invocation_id),
            turns_before=self.spoken.get(label, 0),
        )
        await runs.run(work)
        self.spoken[label] = work.turns_before + 1

    async def _track(self, tracing: Tracing) -> None:
        """Run the automation that follows parcels, until the site that it asks is gone."""
        tracker, took_ms = self.programs["parcel-tracker"], self.narrator.draw.uniform(120, 700)
        if not self.parcels_are_gone:
            await tracing.invoke(tracker, took_ms, result={}, output="GET /open\n0 parcels\n")
        elif self.failures < self.error_limit:
            self.failures += 1
            await tracing.invoke(tracker, took_ms, status="failed", error=_GONE, output="GET /open\n")

    async def _end(self, request: Request, status: Status, error: str | None) -> None:
        runtime, id_ = self.narrator.ledgers.runtime, request.request_id
        await runtime.write(requests.enter_stage, request_id=id_, stage="finalize")
        await runtime.write(requests.end, request_id=id_, status=status, error=error)


def _tag(text: str) -> str:
    words = {
        "list": "shopping",
        "weather": "weather",
        "exercises": "health",
        "Tidal": "work",
        "kitchen": "home",
    }
    return next((tag for word, tag in words.items() if word in text), "other")


def dump_turn(said: str, steps: Sequence[tuple[ToolCall, str]], answer: str, at: datetime) -> list[str]:
    """Write the messages of a turn as the agents' ledger keeps them: question, calls and results, answer.

    Written by hand, because the library that makes them takes longer to import than the month to write.
    """

    def dump(kind: str, part_kind: str, **part: str) -> str:
        return json.dumps({"kind": kind, "timestamp": written, "parts": [{"part_kind": part_kind, **part}]})

    written = at.isoformat()
    forms = [dump("request", "user-prompt", content=said, timestamp=written)]
    for call, result in steps:
        named = {"tool_name": call.tool, "tool_call_id": call.call_id}
        forms.append(dump("response", "tool-call", **named, args=call.arguments_json))
        forms.append(dump("request", "tool-return", **named, content=result, timestamp=written))
    return [*forms, dump("response", "text", content=answer)]
