"""The journal of a run: its messages, tool calls, usage and trace, in the ledgers of its home.

Whatever is written has a key, so that a run that is resumed writes it once. What a model
call used is the exception: a call whose step was lost was paid for all the same, and is counted.
"""

import time
from dataclasses import replace
from typing import Any

import apsw

from nexus import clock
from nexus.broker.agent.records import Attempt, BegunCall, Estimate, Message, ToolCall
from nexus.broker.budgets import Budgets, Spender, make_usage_row
from nexus.ledgers import Ledgers
from nexus.ledgers.agents import messages, tool_calls
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.agents.turns import OpenTurn
from nexus.ledgers.runtime import executions, reservations, trace, usage
from nexus.ledgers.runtime.trace import Span
from nexus.request import Request
from nexus.runs import Totals


class LedgerJournal:
    """Where one run keeps what it does."""

    def __init__(
        self,
        ledgers: Ledgers,
        request: Request,
        turn: OpenTurn,
        *,
        budgets: Budgets,
        spender: Spender,
        event_id: str | None = None,
        waiting: bool = False,
    ) -> None:
        self._ledgers = ledgers
        self._request = request
        self._turn = turn
        self._execution_id = spender.execution_id
        self._budgets = budgets
        self._spender = spender
        self._event_id = event_id
        self._waiting = waiting
        self._waiting_from: float | None = None
        # The place of the message read or written last. A resumed run reads the answers that it has, and then
        # makes the calls of the last one: their keys have its place.
        self._last_offset = 0
        self._calls: dict[str, tuple[str, Span]] = {}

    async def message(self, offset: int) -> str | None:
        """The exact message at a place of this run; None where there is none yet."""
        self._last_offset = offset
        return await self._ledgers.agents.read_now(messages.parts_at, turn=self._turn, offset=offset)

    async def append(self, offset: int, *given: Message) -> None:
        """Keep messages from a place on, in one transaction.

        A model's answer that is there already stays; anything else is replaced.
        """
        self._last_offset = offset + len(given) - 1
        new = [
            NewMessage(
                role=message.role,
                content=message.content,
                parts_json=message.parts_json,
                model=message.model,
                event_id=self._event_id if place == 0 else None,
            )
            for place, message in enumerate(given, start=offset)
        ]
        await self._ledgers.agents.write(messages.append, turn=self._turn, offset=offset, messages=new)

    def key(self, call_id: str) -> str:
        """The key of a call within the run: some servers use the same ids in every answer."""
        return key_of(self._last_offset, call_id)

    async def begin_call(self, call: ToolCall) -> BegunCall:
        """Record that a call is about to be made, and tell what is known of it."""
        begun = await self._ledgers.agents.write(
            tool_calls.begin,
            turn=self._turn,
            offset=self._last_offset,
            call_id=call.call_id,
            tool_name=call.tool,
            arguments_json=call.arguments_json,
        )
        span = self._span(begun.id.replace("tcl_", "spn_"), "tool", call.tool)
        self._calls[call.call_id] = (begun.id, span)
        if begun.status in {"done", "failed"} or begun.error is not None:
            return BegunCall(state="ended", result=begun.result, error=begun.error)
        await self._ledgers.runtime.write(trace.record_span, span=span)
        return BegunCall(state="interrupted" if begun.is_interrupted else "new")

    async def end_call(
        self, call_id: str, *, result: str | None, error: str | None, is_refused: bool = False
    ) -> None:
        """Record what came of a call; one that was refused was never made."""
        id_, span = self._calls[call_id]
        status = "done" if error is None else "cancelled" if is_refused else "failed"
        await self._ledgers.agents.write(
            tool_calls.end, tool_call_id=id_, status=status, result=result, error=error
        )
        ended = _end_span(span, "ok" if error is None else "error")
        await self._ledgers.runtime.write(trace.record_span, span=ended)

    async def spend(self, attempt: Attempt) -> None:
        """Record a request to a model and what it used, in the place of what was reserved for it."""
        span = Span(
            id=attempt.id.replace("use_", "spn_"),
            request_id=self._request.request_id,
            root_request_id=self._request.root_request_id,
            execution_id=self._execution_id,
            kind="model",
            name=f"{attempt.provider}/{attempt.model}",
            started_at=attempt.started_at,
            duration_ms=attempt.duration_ms,
            outcome="ok" if attempt.error is None else "error",
            attributes=_describe_attempt(attempt),
        )

        def record(connection: apsw.Connection) -> None:
            trace.record_span(connection, span)
            if attempt.reached:  # else nobody was asked: a long outage must not use up `max_requests`
                usage.record(connection, make_usage_row(attempt, self._spender, span.id))
            reservations.release(connection, attempt.id)

        await self._ledgers.runtime.write(record)

    async def count_requests(self) -> int:
        """How many requests to models the message at the root and all that it led to have made."""
        total = await self._ledgers.runtime.read_now(
            usage.of_root, root_request_id=self._request.root_request_id
        )
        return total.calls

    async def wait(self, reason: str) -> float:
        """Record that the run waits for a provider; returns for how many seconds it has."""
        self._waiting = True
        since = await self._ledgers.runtime.write(
            executions.wait_for_provider, execution_id=self._execution_id, reason=reason
        )
        if self._waiting_from is None:
            # Only the start of the wait is read from the clock, which may be set while it lasts.
            before_s = (clock.now() - clock.parse(since)).total_seconds() if since else 0.0
            self._waiting_from = time.monotonic() - max(0.0, before_s)
        return time.monotonic() - self._waiting_from

    async def go_on(self) -> None:
        """Record that a provider has answered."""
        if self._waiting:
            self._waiting, self._waiting_from = False, None
            await self._ledgers.runtime.write(executions.provider_answers, execution_id=self._execution_id)

    async def afford(self, estimate: Estimate) -> None:
        """Reserve what a request may come to; BudgetError where a budget is used up."""
        await self._budgets.reserve(self._spender, estimate)

    async def release(self, attempt_id: str) -> None:
        """Give back what was reserved for a request that is not to be paid for."""
        await self._ledgers.runtime.write(reservations.release, attempt_id)

    async def used(self) -> Totals:
        """What this run has used."""
        return await self._ledgers.runtime.read_now(usage.of_execution, execution_id=self._execution_id)

    def _span(self, id_: str, kind: str, name: str) -> Span:
        return Span(
            id=id_,
            request_id=self._request.request_id,
            root_request_id=self._request.root_request_id,
            execution_id=self._execution_id,
            kind=kind,
            name=name,
            started_at=clock.timestamp(clock.now()),
        )


def key_of(offset: int, call_id: str) -> str:
    """The key of a call that the message at a place of a run asked for."""
    return f"{offset}:{call_id}"


def _end_span(span: Span, outcome: str) -> Span:
    began = clock.parse(span.started_at)
    duration_ms = (clock.now() - began).total_seconds() * 1000
    return replace(span, duration_ms=duration_ms, outcome=outcome)


def _describe_attempt(attempt: Attempt) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if attempt.first_delta_ms is not None:
        told["first_delta_ms"] = attempt.first_delta_ms
    if attempt.estimated:
        told["estimated"] = True
    if attempt.error is not None:
        told["error"] = attempt.error
    return told
