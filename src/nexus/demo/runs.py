"""Runs of agents in the month: the execution, its turn with messages and tool calls, workers below it."""

import json
from dataclasses import dataclass
from typing import Literal

from nexus import clock, ids
from nexus.broker.agent.messages import exchange
from nexus.broker.agent.records import ToolCall
from nexus.broker.budgets import Spender, Standing, hit, refusal
from nexus.broker.running import WORK
from nexus.context import AssembledContext
from nexus.demo.narration import Telling
from nexus.demo.tracing import MANAGER, WORKER, Call, Caused, Tracing
from nexus.ledgers.agents import messages, tool_calls, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.runtime import budgets, dispatches, executions, requests, usage
from nexus.ledgers.runtime.dispatches import NewDispatch
from nexus.ledgers.runtime.executions import NewExecution
from nexus.request import Agent, Request
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
Ended = Literal["done", "failed", "cancelled"]


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


class Runs:
    """Writes the runs of one request."""

    def __init__(self, telling: Telling, request: Request, tracing: Tracing) -> None:
        self._telling = telling
        self._request = request
        self._tracing = tracing

    async def run(self, run: Run, status: Ended = "done", execution_id: str = "") -> str:
        """Write a run from its place in the queue to its end; returns the execution's id."""
        runtime, calendar = self._telling.ledgers.runtime, self._telling.calendar
        new = self._new(run, execution_id or ids.new("exe"))
        await runtime.write(executions.enqueue, execution=new)
        calendar.spend(self._telling.draw.uniform(8, 60))
        await runtime.write(executions.begin, execution_id=new.id)
        turn = await self._turn(run, new.id)
        await self._talk(run, new.id, turn)
        if run.refused:
            run.error = await self._refused(new.id)
        await self._telling.ledgers.agents.write(turns.end, turn_id=turn.id, status=status, error=run.error)
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
            work=WORK,
            mode="followup",
            input={"context": context.to_json()},
        )

    async def _turn(self, run: Run, execution_id: str) -> OpenTurn:
        return await self._telling.ledgers.agents.write(
            turns.begin,
            session_label=run.label,
            execution_id=execution_id,
            request_id=self._request.request_id,
            role=run.role,
            thread_id=self._request.event.thread_id,
        )

    async def _talk(self, run: Run, execution_id: str, turn: OpenTurn) -> None:
        """The messages of the turn, each at its time."""
        steps = self._steps(run)
        forms = exchange(run.said, steps, run.answer, self._telling.calendar.now())
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

    async def _refused(self, execution_id: str) -> str:
        """What the budget of a message says when it is used up, to the cent."""
        runtime, root = self._telling.ledgers.runtime, self._request.root_request_id
        total = await runtime.read(usage.of_root, root_request_id=root)
        used = total.cost_microusd / MICRO
        spender = Spender(
            request_id=self._request.request_id, root_request_id=root, execution_id=execution_id
        )
        standing = Standing(budget="request", unit="usd", most=int(used * 100) / 100, used=used)
        await runtime.write(budgets.record, hit=hit(standing, spender))
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
        await self._telling.ledgers.agents.write(
            messages.append, turn=turn, offset=offset, messages=[message]
        )

    async def _model(self, run: Run, execution_id: str, number: int, output: int) -> None:
        """A request to the model: the prefix is written to its cache once, and read from it later."""
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
        agents = self._telling.ledgers.agents
        begun = await agents.write(
            tool_calls.begin,
            turn=turn,
            offset=offset,
            call_id=call.call_id,
            tool_name=call.tool,
            arguments_json=call.arguments_json,
        )
        if call.tool == "agent_send":
            began = self._telling.calendar.now()
            await self._dispatch(run, execution_id, call)
            took_ms = (self._telling.calendar.now() - began).total_seconds() * 1000
            await self._tracing.span(
                "tool", call.tool, 3, execution_id=execution_id, attributes={"waited_ms": took_ms}
            )
        else:
            duration_ms = self._telling.draw.uniform(4, 900 if call.tool == "web_search" else 60)
            await self._tracing.span("tool", call.tool, duration_ms, execution_id=execution_id)
        await agents.write(tool_calls.end, tool_call_id=begun.id, status="done", result=result)

    async def _dispatch(self, run: Run, execution_id: str, call: ToolCall) -> None:
        """A worker with a request and a session of its own, whose result goes back to this run."""
        runtime, task = self._telling.ledgers.runtime, json.loads(call.arguments_json)["text"]
        label, worker_execution = ids.new("worker").replace("_", ":", 1), ids.new("exe")
        child = self._request.child(content=task, agent=Agent(role="worker", session_label=label))
        child.created_at = clock.timestamp(self._telling.calendar.now())
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
        await Runs(self._telling, child, self._tracing.of(child)).run(work, execution_id=worker_execution)
        await runtime.write(requests.end, request_id=child.request_id, status="done")
        await runtime.write(dispatches.end, dispatch_id=given.id, status="done")
        await runtime.write(
            dispatches.claim, dispatch_id=given.id, execution_id=execution_id, call_id=call.call_id
        )

    async def _result(self, run: Run, execution_id: str) -> dict[str, object]:
        used = await self._telling.ledgers.runtime.read(usage.of_execution, execution_id=execution_id)
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
