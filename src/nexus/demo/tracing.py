"""The trace of a request of the month: spans and invocations, each taking its time on the calendar."""

from typing import Any

import apsw

from nexus import clock, ids
from nexus.demo.spending import Call, Caused
from nexus.demo.telling import Telling
from nexus.ledgers.runtime import invocations, spans, usage
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation, Status
from nexus.ledgers.runtime.spans import Span
from nexus.request import Request


class Tracing:
    """What is traced for one request."""

    def __init__(self, telling: Telling, request: Request, error_limit: int) -> None:
        self._telling = telling
        self._request = request
        self._error_limit = error_limit

    def of(self, request: Request) -> "Tracing":
        """The same for another request."""
        return Tracing(self._telling, request, self._error_limit)

    async def span(self, kind: str, name: str, duration_ms: float, **more: Any) -> str:
        """Record something that takes time, and let that time go by."""
        span = self._span(kind, name, duration_ms, **more)
        await self._telling.ledgers.runtime.write(spans.record, span=span)
        self._telling.calendar.spend(duration_ms)
        return span.id

    async def model(
        self, call: Call, execution_id: str, role: str, caused: Caused | None = None, error: str = ""
    ) -> None:
        """Record a request to a model with what it used."""
        told: dict[str, Any] = {"first_delta_ms": round(call.duration_ms * 0.3, 1)}
        if error:
            told = {"error": error}
        span = self._span(
            "model",
            f"{call.provider}/{call.model}",
            call.duration_ms,
            execution_id=execution_id,
            outcome="error" if error else "ok",
            attributes=told,
        )
        row = call.row(self._request, execution_id, span.id, role, caused)
        self._telling.calendar.spend(call.duration_ms)

        def record(connection: apsw.Connection) -> None:
            spans.record(connection, span)
            usage.record(connection, row)

        await self._telling.ledgers.runtime.write(record)

    async def invoke(
        self,
        automation: Automation,
        duration_ms: float,
        *,
        status: Status = "done",
        result: Any = None,
        error: str | None = None,
        output: str | None = None,
    ) -> str:
        """Record that an automation ran, which tells on its circuit."""
        began = clock.timestamp(self._telling.calendar.now())
        self._telling.calendar.spend(duration_ms)
        done = Invocation(
            id=ids.new("inv"),
            automation_id=automation.id,
            automation_version=automation.version,
            hook_point=automation.hook_point,
            request_id=self._request.request_id,
            root_request_id=self._request.root_request_id,
            blocking=automation.blocking,
            status=status,
            result=result,
            error=error,
            duration_ms=duration_ms,
            created_at=began,
            started_at=began,
            ended_at=clock.timestamp(self._telling.calendar.now()),
            output=output,
        )
        await self._telling.ledgers.runtime.write(
            invocations.record, ended=[done], error_limit=self._error_limit
        )
        return done.id

    def _span(self, kind: str, name: str, duration_ms: float, **more: Any) -> Span:
        return Span(
            id=ids.new("spn"),
            request_id=self._request.request_id,
            root_request_id=self._request.root_request_id,
            kind=kind,
            name=name,
            started_at=clock.timestamp(self._telling.calendar.now()),
            duration_ms=round(duration_ms, 3),
            outcome=more.pop("outcome", "ok"),
            **more,
        )
