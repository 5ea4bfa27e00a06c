"""Workers: dispatched once, however often their dispatcher is resumed, and reported once.

Who gets a worker's result is decided in one place, the dispatch's row: the call that waits for it, or,
where nobody waits, a message in the session that dispatched it.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import Literal, Protocol

import apsw

from nexus import ids
from nexus.broker.queue import REFLECTION, SessionQueue
from nexus.broker.tools import AGENT_SEND, SANDBOXED, Call, Worker, skill, web
from nexus.broker.tools.agent_send import result_text
from nexus.config import AgentsConfig
from nexus.engine.errors import EndedError
from nexus.errors import ToolError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import dispatches, executions, requests
from nexus.ledgers.runtime.dispatches import Dispatch, NewDispatch
from nexus.ledgers.runtime.executions import FINAL, Mode
from nexus.ledgers.runtime.executions import Status as ExecutionStatus
from nexus.request import Access, Agent, Grant, Request
from nexus.runs import Result

_FORGOTTEN = "Its subject was deleted."
_LOOK_S = 0.02
_LOOKS = 50
_END_MS = 10_000
# What the others do, such as those of MCP servers, no sandbox keeps from writing.
_READING = frozenset({*(tool.name for tool in SANDBOXED), AGENT_SEND.name, "recall", skill.NAME, *web.NAMES})


class Start(Protocol):
    """Assemble a context and ask for its run; the same id again finds the first."""

    def __call__(
        self, request: Request, *, session_label: str, task: str, execution_id: str, mode: Mode
    ) -> Awaitable[object]: ...


class Dispatcher:
    """The workers of one home, for the `agent_send` tool and for the runs themselves."""

    def __init__(self, ledgers: Ledgers, queue: SessionQueue, limits: AgentsConfig, start: Start) -> None:
        self._ledgers = ledgers
        self._queue = queue
        self._limits = limits
        self._start = start

    async def dispatch(self, call: Call, task: str, *, read_only: bool) -> Worker:
        """Give a task to a new worker. The same call again finds the worker that it made."""
        made = await self._ledgers.runtime.write(
            self._record_dispatch, call=call, task=task, read_only=read_only
        )
        request = await requests.restore(self._ledgers, made.worker_request_id)
        if request is None:
            raise ToolError(_FORGOTTEN)
        await self._start(
            request,
            session_label=made.worker_session_label,
            task=made.task,
            execution_id=made.execution_id,
            mode="followup",
        )
        return Worker(id=made.id, task=made.task, status=made.status)

    async def status(self, call: Call, worker: str | None) -> list[Worker]:
        """The caller's workers in this session as they stand, the newest first."""
        if worker is None:
            found = await self._ledgers.runtime.read(_own, call=call)
        else:
            found = [await self._find_worker(call, worker)]
        return [Worker(id=one.id, task=one.task, status=one.status) for one in found]

    async def wait(self, call: Call, worker: str | None, timeout_ms: int) -> list[Worker]:
        """Wait until they have ended, at most for a time, and get their results.

        One that is named may be asked for again, also where its result went elsewhere.
        """
        found = await self._claim_workers(call, worker)
        await self._wait_for_ends([one for one in found if worker or _is_for(one, call)], timeout_ms)
        told = [await self._load_result(one, again=worker is not None or _is_for(one, call)) for one in found]
        await self._ledgers.runtime.write(
            dispatches.release, execution_id=call.execution_id, call_id=call.key
        )
        return told

    async def cancel(self, call: Call, worker: str | None) -> list[Worker]:
        """Stop them. Nobody hears of what they would have said."""
        found = await self._claim_workers(call, worker)
        for one in found:
            await self._queue.run(one.execution_id).cancel()
        await self._wait_for_ends(found, self._limits.timeout_ms)
        return [await self._load_result(one, again=True) for one in found]

    # For the runs themselves

    async def deliver(self, worker_request_id: str, status: ExecutionStatus, text: str) -> None:
        """A worker has ended: tell the session that dispatched it, unless a call waits for it."""
        assert status != "queued"  # noqa: S101 - an invariant, for the reader and the type checker
        assert status != "running"  # noqa: S101 - an invariant, for the reader and the type checker

        def settle(connection: apsw.Connection) -> Dispatch | None:
            found = dispatches.of_worker(connection, worker_request_id)
            if found is None:
                return None
            dispatches.end(connection, found.id, status)
            if found.delivered_to is None:
                dispatches.claim(connection, found.id, ids.new("exe"))
            return dispatches.get(connection, found.id)

        settled = await self._ledgers.runtime.write(settle)
        if settled is None or settled.delivered_to is None:
            return
        known = await self._ledgers.runtime.read(executions.get, execution_id=settled.delivered_to)
        parent = await requests.restore(self._ledgers, settled.parent_request_id)
        if known is None and parent is not None:
            await self._start(
                parent,
                session_label=settled.parent_session_label,
                task=result_text(Worker(id=settled.id, task=settled.task, status=status, result=text)),
                execution_id=settled.delivered_to,
                mode="steer",
            )

    async def abandon(self, execution_id: str) -> None:
        """Stop the workers of a run that has ended and will not hear of them."""
        given = await self._ledgers.runtime.read(dispatches.of_execution, execution_id=execution_id)
        for one in given:
            if one.status == "running":
                await self._ledgers.runtime.write(
                    dispatches.claim, dispatch_id=one.id, execution_id=execution_id
                )
                with suppress(EndedError):
                    if await self._queue.run(one.execution_id).cancel():
                        # Not left to the worker: one that never began would not tell.
                        await self._ledgers.runtime.write(
                            dispatches.end, dispatch_id=one.id, status="cancelled"
                        )

    async def stop_reflections(self, execution_id: str) -> None:
        """Stop the reflections that a run waited for, which has ended without them."""
        label = f"{REFLECTION}{execution_id}:"
        for id_ in await self._ledgers.runtime.read(executions.list_unfinished_below, label):
            with suppress(EndedError):
                await self._queue.run(id_).cancel()

    async def release(self, execution_id: str, told: set[str]) -> None:
        """A run failed: what it waited for comes as a message, unless one of the calls `told` gave it."""

        def take_back(connection: apsw.Connection) -> list[Dispatch]:
            dispatches.release(connection, execution_id)
            claimed = dispatches.list_claimed_by(connection, execution_id)
            untold = [one for one in claimed if one.delivered_call_id not in told]
            for one in untold:
                dispatches.take_back(connection, one.id)
            return untold

        untold = await self._ledgers.runtime.write(take_back)
        # A worker says that it has ended just before its run does.
        await self._wait_for_ends(untold, _END_MS)
        for one in untold:
            await self._tell(one)

    async def at_work(self, execution_id: str) -> int:
        """How many workers of a run are still at work, or have ended and are just telling so."""

        def count(connection: apsw.Connection) -> int:
            given = dispatches.of_execution(connection, execution_id)
            return sum(one.status == "running" or _on_its_way(connection, one) for one in given)

        return await self._ledgers.runtime.read(count)

    async def end_request(self, request: Request, status: Literal["failed", "cancelled"], error: str) -> None:
        """End a request, unless workers are at work for it, whichever of its runs dispatched them."""
        id_ = request.request_id

        def end(connection: apsw.Connection) -> None:
            given = dispatches.of_root(connection, root_request_id=request.root_request_id)
            if not any(one.status == "running" and one.parent_request_id == id_ for one in given):
                requests.end(connection, id_, status, error=error)

        await self._ledgers.runtime.write(end)

    async def tell_of_lost(self) -> None:
        """Tell of workers that ended without telling, because the engine gave up on them."""
        for one in await self._ledgers.runtime.read(dispatches.list_undelivered):
            await self._tell(one)

    # Parts

    async def _tell(self, one: Dispatch) -> None:
        run = await self._ledgers.runtime.read(executions.get, execution_id=one.execution_id)
        if run is not None and run.status in FINAL:
            await self.deliver(one.worker_request_id, run.status, _answer_of(run))

    def _record_dispatch(
        self, connection: apsw.Connection, call: Call, task: str, read_only: bool
    ) -> Dispatch:
        known = dispatches.of_call(connection, call.execution_id, call.key)
        if known is not None:
            return known
        self._check(connection, call)
        id_ = ids.new("dsp")
        child = call.request.child(
            content=task,
            agent=Agent(role="worker", session_label=f"{_kind(call.request)}:{id_}"),
            access=_only_reading(call.request.access) if read_only else None,
        )
        requests.create(connection, child)
        return dispatches.create(
            connection,
            NewDispatch(
                id=id_,
                parent_request_id=call.request.request_id,
                root_request_id=child.root_request_id,
                parent_session_label=call.session_label,
                parent_execution_id=call.execution_id,
                call_id=call.key,
                worker_request_id=child.request_id,
                worker_session_label=child.agent.session_label,
                execution_id=ids.new("exe"),
                task=task,
            ),
        )

    def _check(self, connection: apsw.Connection, call: Call) -> None:
        if call.request.depth >= self._limits.max_depth:
            raise ToolError(
                f"Workers may not be dispatched here: the limit of depth is {self._limits.max_depth}",
                hint="Do it yourself.",
            )
        given = dispatches.of_execution(connection, call.execution_id)
        if sum(one.status == "running" for one in given) >= self._limits.max_workers:
            raise ToolError(
                f"{self._limits.max_workers} workers are at work, which is the limit",
                hint="Wait for one of them first.",
            )

    async def _find_worker(self, call: Call, worker: str) -> Dispatch:
        found = await self._ledgers.runtime.read(_own, call=call, worker=worker)
        if not found:
            raise ToolError(f"You have no worker {worker}", hint="List them with op=status.")
        return found[0]

    async def _claim_workers(self, call: Call, worker: str | None) -> list[Dispatch]:
        """The workers that are meant, claimed for this call as far as nobody else has heard of them."""
        named = None if worker is None else await self._find_worker(call, worker)

        def claim(connection: apsw.Connection) -> tuple[list[Dispatch], bool]:
            asked = [named] if named else _own(connection, call)
            meant = [one for one in reversed(asked) if _can_be_told(connection, one, call) or named]
            for one in meant:
                dispatches.claim(connection, one.id, call.execution_id, call.key)
            found = [dispatches.get(connection, one.id) for one in meant]
            return [one for one in found if one is not None], any(
                _on_its_way(connection, one) for one in asked
            )

        found: list[Dispatch] = []
        for _ in range(_LOOKS):
            found, on_its_way = await self._ledgers.runtime.write(claim)
            if not on_its_way:
                break
            # Once it is there it can be called back: otherwise it would be heard of after this call.
            await asyncio.sleep(_LOOK_S)
        return found

    async def _wait_for_ends(self, found: Iterable[Dispatch], timeout_ms: int) -> None:
        waits = [asyncio.ensure_future(self._end_of(one)) for one in found]
        try:
            if waits:
                await asyncio.wait(waits, timeout=timeout_ms / 1000)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _end_of(self, one: Dispatch) -> None:
        with suppress(EndedError):
            await self._queue.run(one.execution_id).result()

    async def _load_result(self, one: Dispatch, *, again: bool) -> Worker:
        """A worker with its result, where it has one for this call."""
        run = await self._ledgers.runtime.read(executions.get, execution_id=one.execution_id)
        if run is None:
            return Worker(id=one.id, task=one.task, status="failed", result=_FORGOTTEN)
        if run.status == "queued" or run.status == "running":
            return Worker(id=one.id, task=one.task, status="running", delivered=not again)
        await self._ledgers.runtime.write(dispatches.end, dispatch_id=one.id, status=run.status)
        if not again:
            return Worker(id=one.id, task=one.task, status=run.status, delivered=True)
        return Worker(id=one.id, task=one.task, status=run.status, result=_answer_of(run))


def _own(connection: apsw.Connection, call: Call, worker: str | None = None) -> list[Dispatch]:
    """The workers that a caller may know of: others who use the session have their own."""
    return dispatches.of_session(
        connection, call.session_label, request_id=call.request.request_id, dispatch_id=worker
    )


def _can_be_told(connection: apsw.Connection, one: Dispatch, call: Call) -> bool:
    """Whether nobody has the result; a message with it that no run has read is called back."""
    message = executions.get(connection, one.delivered_to) if one.delivered_to else None
    if message is not None and message.status == "queued" and message.taken_by is None:
        executions.end(connection, message.id, "cancelled", error="A call got the result first.")
        dispatches.take_back(connection, one.id)
        return True
    return one.delivered_to is None or _is_for(one, call)


def _on_its_way(connection: apsw.Connection, one: Dispatch) -> bool:
    """Whether a message with the result is just being sent."""
    now = dispatches.get(connection, one.id)
    return (
        now is not None
        and now.delivered_to is not None
        and executions.get(connection, now.delivered_to) is None
    )


def _kind(parent: Request) -> str:
    """How the label of a worker's session begins, which decides its lane."""
    return "worker" if parent.depth == 0 else "subworker"


def _answer_of(run: executions.Execution) -> str:
    if run.status == "done" and run.result is not None:
        return Result.from_json(run.result).response.content
    return run.error or f"It ended as {run.status}."


def _is_for(one: Dispatch, call: Call) -> bool:
    return one.delivered_to == call.execution_id and one.delivered_call_id == call.key


def _only_reading(access: Access) -> Access:
    """What is held, without the right to write anywhere or to call what might."""
    return Access(
        tools=_READING,
        directories=tuple(Grant(path=grant.path) for grant in access.directories),
        network=access.network,
    )
