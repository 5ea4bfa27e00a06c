"""A lineage in a runtime ledger: a message, its manager's run, a worker, a meeseeks, and what they cost."""

import apsw

from nexus.ledgers.runtime import dispatches, executions, requests, trace, usage
from nexus.ledgers.runtime.executions import NewExecution, Status
from nexus.ledgers.runtime.trace import Span
from nexus.ledgers.runtime.usage import UsageRow
from nexus.request import Agent, Event, Request

ROOT, WORKER = "req_ROOT1", "req_WORKER1"
START = "2026-05-01T10:00:"


class Lineage:
    """Writes the rows of one lineage, whose ids the tests know."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def write(self) -> None:
        """A manager asks a model, dispatches a worker, and asks again; a meeseeks shares its request."""
        root = Request(
            request_id=ROOT,
            event=Event(content="", id="evt_1", channel="cli"),
            agent=Agent(session_label="main"),
            created_at=f"{START}00.000Z",
        )
        requests.create(self._connection, root)
        self.execution("exe_1", ROOT, "main")
        self.model("spn_1", "exe_1", at="01.000", tokens=(10, 0, 100, 5), microusd=1_000)
        self.span("spn_2", "exe_1", kind="tool", name="agent_send", at="02.000")
        self._dispatch(root)
        self.execution("exe_2", WORKER, "worker:1")
        self.model("spn_3", "exe_2", at="03.000", tokens=(20, 50, 0, 7), microusd=None, request=WORKER)
        self.model("spn_4", "exe_1", at="05.000", tokens=(1, 110, 0, 3), microusd=500)
        self.execution("exe_3", ROOT, "meeseeks:memory-writer:main")
        # A call whose span was lost.
        lost = (4, 0, 0, 1)
        self.use("use_lost", "exe_3", ROOT, lost, 40, span=None, automation="memory-writer")
        self.end("exe_2", "failed", "ModelError: no model answered")
        self.end("exe_1")
        requests.end(self._connection, WORKER, "failed", error="ModelError: no model answered")
        requests.end(self._connection, ROOT, "done")

    def execution(self, id_: str, request_id: str, label: str) -> None:
        new = NewExecution(
            id=id_,
            request_id=request_id,
            session_label=label,
            lane="chat",
            work="agent",
            mode="followup",
            input=None,
        )
        executions.enqueue(self._connection, new)
        executions.begin(self._connection, id_)
        # Runs in this order, whatever the clock says.
        moment = f"{START}0{id_[-1]}.500Z"
        self._connection.execute(
            "UPDATE executions SET enqueued_at = ?1, started_at = ?1 WHERE id = ?2", (moment, id_)
        )

    def end(self, id_: str, status: Status = "done", error: str | None = None) -> None:
        executions.end(self._connection, id_, status, error=error)

    def span(
        self, id_: str, execution_id: str, *, kind: str, name: str, at: str, request: str = ROOT
    ) -> None:
        trace.record_span(
            self._connection,
            Span(
                id=id_,
                request_id=request,
                root_request_id=ROOT,
                execution_id=execution_id,
                kind=kind,
                name=name,
                started_at=f"{START}{at}Z",
                duration_ms=250.0,
                outcome="ok",
            ),
        )

    def model(
        self,
        id_: str,
        execution_id: str,
        *,
        at: str,
        tokens: tuple[int, int, int, int],
        microusd: int | None,
        request: str = ROOT,
    ) -> None:
        self.span(id_, execution_id, kind="model", name="p/m", at=at, request=request)
        self.use(id_.replace("spn", "use"), execution_id, request, tokens, microusd, span=id_)

    def use(
        self,
        id_: str,
        execution_id: str,
        request: str,
        tokens: tuple[int, int, int, int],
        microusd: int | None,
        *,
        span: str | None,
        automation: str | None = None,
    ) -> None:
        fresh, read, written, out = tokens
        row = UsageRow(
            id=id_,
            request_id=request,
            root_request_id=ROOT,
            execution_id=execution_id,
            span_id=span,
            provider="p",
            model="m",
            input_tokens=fresh,
            cache_read_tokens=read,
            cache_write_tokens=written,
            output_tokens=out,
            cost_microusd=microusd,
            automation=automation,
        )
        usage.record(self._connection, row)

    def _dispatch(self, root: Request) -> None:
        worker = root.child(content="", agent=Agent(role="worker", session_label="worker:1"))
        worker.request_id, worker.created_at = WORKER, f"{START}02.100Z"
        requests.create(self._connection, worker)
        given = dispatches.NewDispatch(
            id="dsp_1",
            parent_request_id=ROOT,
            root_request_id=ROOT,
            parent_session_label="main",
            parent_execution_id="exe_1",
            call_id="call_1",
            worker_request_id=WORKER,
            worker_session_label="worker:1",
            execution_id="exe_2",
            task="Find the date",
        )
        dispatches.create(self._connection, given)
