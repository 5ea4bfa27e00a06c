"""The session queue: every agent run goes through here, in order and one at a time for each session.

A run is recorded in the home's runtime ledger, then handed to the engine under the same id; the engine's
database holds ids and keys only. Its way from there: `Engine.start` records and wakes, a sweep claims it
(`engine/claims.py`), DBOS calls `Engine._execute`, which calls `SessionQueue._execute`, the one work that is
registered there. That calls the body of its kind: for agents `AgentRuns.run` in `broker/agent_run.py`.

Every message is a run of its own. Where one run answers for others as well
(collected or steered into it), those end as taken by it, so none is lost if it fails.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast
from weakref import WeakValueDictionary

import apsw

from nexus import clock, ids
from nexus.broker.run_handle import OUTAGE, QueuedRun, record_engine_end
from nexus.engine import Engine, WorkContext, WorkRecord, serializer
from nexus.engine.errors import FINAL as ENDED
from nexus.engine.errors import EngineStateError, UnknownWorkError
from nexus.errors import TEMPORARY_LEDGER_ERRORS, NexusError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.executions import FINAL, Execution, Mode, NewExecution, Step, find_steps
from nexus.request import check_label
from nexus.watch import finish, wait_at_most

T = TypeVar("T")
# Which lane a session runs in, by how its label begins. Order and exclusion hold within a lane, so a run
# joins those that its session has already: a session in two lanes could run twice at once.
REFLECTION: Final = "reflection:"
"""How the sessions of reflections begin that a run waits for; the id of that run follows."""
LANES = (
    ("meeseeks:", "background"),
    ("worker:", "workers"),
    ("subworker:", "subworkers"),
    (REFLECTION, "reflections"),
    ("", "chat"),
)
WORK: Final = "broker.execution"
"""What the engine knows every run as."""
_END: Final = "end"
"""The step that holds how a run is about to end."""
_DEBOUNCE_MS = 1_500
_log = logging.getLogger(__name__)
# How often the outbox is looked through, and how soon after something could not be handed over.
_EVERY_S = 30.0
_AGAIN_S = 1.0
Record = Callable[[apsw.Connection], None]
"""Writes to the runtime ledger, in a transaction that is under way."""


class Steps:
    """The steps of one run. Those of one name are numbered as they begin: a resumed run begins them alike."""

    def __init__(self, context: WorkContext, ledgers: Ledgers, recorded: Iterable[Step]) -> None:
        """`recorded`: those that an earlier attempt has recorded."""
        self._context = context
        self._ledgers = ledgers
        self._known = {(step.name, step.number): step for step in recorded}
        self._begun = Counter[str]()

    async def run(
        self,
        name: str,
        function: Callable[..., Awaitable[T]],
        *arguments: Any,
        keeps_own_record: bool = False,
    ) -> T:
        """Run a part of the work once; after a crash what it gave is used instead.

        With `keeps_own_record` the function records its own result (the agent's journal), so only a failure
        is recorded here. The engine is told of the step: an executor that lost the run can't go on after it.
        """
        number = self._begun[name]
        self._begun[name] += 1
        key = (name, number)
        raised: list[Exception] = []

        async def run_and_record() -> None:
            # Recorded here rather than by the engine: a crash can come between the two records.
            if key in self._known:
                return
            try:
                try:
                    outcome = serializer.dumps(await function(*arguments))
                except TEMPORARY_LEDGER_ERRORS:
                    raise
                except Exception as error:
                    raised.append(error)
                    outcome = serializer.dumps(error)
                if raised or not keeps_own_record:
                    step = Step(
                        execution_id=self._context.id,
                        name=name,
                        number=number,
                        failed=bool(raised),
                        outcome=outcome,
                    )
                    self._known[key] = await self._ledgers.runtime.write(executions.record_step, step=step)
            except TEMPORARY_LEDGER_ERRORS:
                # Not the step's outcome: the run goes on when the ledger can be written again.
                raise self._context.put_back() from None

        await self._context.step(name, run_and_record)
        if raised:
            raise raised[0]
        step = self._known.get(key)
        if step is None and keeps_own_record:
            return cast("T", None)
        if step is None:
            raise self._context.start_over(f"what its step {name} gave was deleted")
        try:
            outcome = serializer.loads(step.outcome)
        except serializer.UnreadableError as error:
            await self._ledgers.runtime.write(executions.drop_steps, execution_id=self._context.id)
            raise self._context.start_over(f"what its step {name} gave can't be read: {error}") from None
        if step.failed:
            raise outcome
        return outcome

    @property
    def end(self) -> tuple[str, str] | None:
        """The end that was recorded before a crash: `failed` or `cancelled`, and the error."""
        known = self._known.get((_END, 0))
        if known is None:
            return None
        status, _, error = known.outcome.partition(":")
        return status, error

    async def record_end(self, status: Literal["failed", "cancelled"], error: str = "") -> None:
        """Record how the run is about to end, before anybody is told: resumed, it must not end otherwise."""
        if self.end is None:
            step = Step(
                execution_id=self._context.id, name=_END, number=0, failed=True, outcome=f"{status}:{error}"
            )
            self._known[_END, 0] = await self._ledgers.runtime.write(executions.record_step, step=step)


class RunFailedError(NexusError):
    """A run failed. What was said is in the home's ledger; the engine hears only where it was."""


def lane_of(session_label: str, channels: Container[str] = ()) -> str:
    """The lane of a session. Those of channels have one of their own, so that a flood keeps nobody out."""
    lane = next(lane for prefix, lane in LANES if session_label.startswith(prefix))
    return "channels" if lane == "chat" and session_label.partition(":")[0] in channels else lane


@dataclass(kw_only=True)
class ActiveRun:
    """One run, as its own code sees it."""

    execution: Execution
    collected: list[Execution]
    """Those that were collected into it, in order."""
    context: WorkContext
    ledgers: Ledgers
    steps: Steps
    _steered_so_far: int = field(default=0, init=False)

    async def load_steered(self, recorded: int | None = None) -> list[Execution]:
        """What was said into this run since the last call. Ask between two calls of the model.

        `recorded`: how many of them an earlier attempt has passed on here. It gets those, and nothing new.
        """
        self.context.require()
        runtime, after = self.ledgers.runtime, self._steered_so_far
        if recorded is None:
            ids_ = (await runtime.write(executions.take, taker=self.execution, mode="steer"))[after:]
        else:
            taken = await runtime.read_now(executions.list_taken, taker=self.execution, mode="steer")
            ids_ = taken[after : after + recorded]
        self._steered_so_far += len(ids_)
        return await _load_taken(self.ledgers, ids_)


Body = Callable[[ActiveRun], Awaitable[Any]]
"""What a run does. It returns what JSON can hold."""

AfterLoss = Callable[[Execution, Literal["cancelled", "lost"]], Awaitable[None]]
"""What is done for a run that ended while its code did not run, before its end is recorded.

The engine gave up on it, or it was cancelled while it waited, perhaps to go on after a restart. It may be
called again.
"""


class SessionQueue:
    """The runs of one home."""

    def __init__(
        self,
        engine: Engine,
        ledgers: Ledgers,
        *,
        note_late: Callable[[], None] = lambda: None,
        debounce_ms: int = _DEBOUNCE_MS,
    ) -> None:
        """`note_late` is called when a run could not be handed over: `hand_over_missing` is due."""
        self._engine = engine
        self._ledgers = ledgers
        self._debounce_s = debounce_ms / 1000
        self._bodies: dict[str, Body] = {}
        self._after_loss: dict[str, AfterLoss] = {}
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._note_late = note_late
        engine.register(WORK, self._execute)

    def register(self, work: str, body: Body, after_loss: AfterLoss | None = None) -> None:
        """Make a kind of run known. Names are stored: they must outlive an upgrade.

        Agents: `AgentRuns.run`, registered in `app/building.py`.
        """
        self._bodies[work] = body
        if after_loss is not None:
            self._after_loss[work] = after_loss

    async def start_execution(
        self,
        work: str,
        input_: Any,
        *,
        session_label: str,
        request_id: str,
        mode: Mode = "followup",
        timeout_ms: int | None = None,
        execution_id: str | None = None,
        record: Record | None = None,
        lane: str | None = None,
    ) -> QueuedRun:
        """Ask for a run and return it immediately, while it waits for its turn.

        `record` writes to the runtime ledger what is to be recorded in one transaction with the run.
        `lane` is where it runs, unless its session has unfinished runs: it follows those. None: as the
        label says.

        A caller that may call twice for the same run, as after a crash, gives an id that it has made
        with `ids.new("exe")` and recorded: the second call finds the first one's run.

        While its session is busy, a `followup` waits; a `collect` joins what is said within the
        debounce into one run; a `steer` is offered to the run under way, and waits if that doesn't
        take it; an `interrupt` cancels what runs and waits in the session. Only runs that act for the
        same principal with the same access join or cancel each other; the owner may cancel any.
        """
        if self._bodies and work not in self._bodies:  # a command that only hands over knows none
            raise UnknownWorkError(
                f"No run is registered as `{work}`", hint=f"Known: {', '.join(self._bodies)}."
            )
        check_label(session_label)
        new = NewExecution(
            id=execution_id or ids.new("exe"),
            request_id=request_id,
            session_label=session_label,
            lane=lane or lane_of(session_label),
            work=work,
            mode=mode,
            input=input_,
            timeout_ms=timeout_ms,
        )
        # Under the lock the ledger and the engine see the runs of a session in the same order.
        async with self._lock(session_label):
            # To its end, also if the caller leaves: what is on record is the engine's, too.
            await finish(self._record(new, record))
        return self.run(new.id)

    async def retry(self, execution_id: str, *, changed: Callable[[Any], Any] | None = None) -> QueuedRun:
        """Run a finished run again, at the end of its session's queue; `changed` may change its input."""
        ended = await self.run(execution_id).state()
        if ended.status not in FINAL and await self._record_lost_end(execution_id):
            ended = await self.run(execution_id).state()
        if ended.status not in FINAL:
            raise EngineStateError(
                f"{execution_id} is {ended.status}; only finished runs can be retried",
                hint=f"Cancel it first with `nexus engine cancel {execution_id}`.",
            )
        started = await self.start_execution(
            ended.work,
            ended.input if changed is None else changed(ended.input),
            session_label=ended.session_label,
            request_id=ended.request_id,
            timeout_ms=ended.timeout_ms,
            record=partial(requests.reopen, request_id=ended.request_id),
            lane=ended.lane,
        )
        await self._engine.close_letter(execution_id)
        return started

    def run(self, execution_id: str) -> QueuedRun:
        """A run that was asked for before, here or elsewhere."""
        return QueuedRun(self._engine, self._ledgers, execution_id, self._record_engine_end)

    async def hand_over_missing(self) -> int:
        """Hand over what the engine has not got, in order, and record ends that only the engine knows.

        Returns how many runs that were. Call it when a home is opened to be served, and now and then: the
        ledger is the outbox of the engine, which may have been out of reach.
        """
        unfinished = await self._ledgers.runtime.read(executions.list_unfinished)
        known = await self._engine.states(unfinished) if unfinished else {}
        count = 0
        for id_ in unfinished:
            try:
                if id_ not in known:
                    found = await self._ledgers.runtime.read(executions.get, execution_id=id_)
                    if found is not None:
                        async with self._lock(found.session_label):
                            count += await self._hand_over_recorded(id_)
                elif known[id_] in ENDED:
                    count += await self._record_engine_end(await self._engine.show(id_))
            except OUTAGE:
                raise
            except Exception:  # Whatever it is, the others must not wait for it.
                _log.exception("%s could not be handed over, and is tried again", id_)
        return count

    async def _record_engine_end(self, known: WorkRecord) -> bool:
        """Record an end that only the engine knows of, and before it do what the run's code would have."""
        if known.state == "failed" or known.state == "timeout" or known.state == "cancelled":
            lost = await self._ledgers.runtime.read_now(executions.get, execution_id=known.id)
            after_loss = lost and self._after_loss.get(lost.work)
            if lost and after_loss and lost.status not in FINAL and lost.taken_by is None:
                await after_loss(lost, "cancelled" if known.state == "cancelled" else "lost")
        return await record_engine_end(self._ledgers, known)

    async def _record(self, new: NewExecution, record: Record | None) -> None:
        recorded, before = await self._ledgers.runtime.write(_enqueue, execution=new, record=record)
        if recorded.status in FINAL:
            return
        try:
            if before is None or await self._hand_over_earlier(recorded, before):
                await self._hand_over(recorded)
        except OUTAGE as error:
            _log.warning("%s waits until the engine is back: %s", new.id, error)
            self._note_late()
        except Exception:
            await self._ledgers.runtime.write(executions.withdraw, execution_id=new.id)
            raise

    async def _hand_over_earlier(self, execution: Execution, before: str) -> bool:
        """Hand over what its session has before it, in whichever process that was held up.

        False: it was cancelled meanwhile, such as a result that a waiting call took.
        """
        if await self._engine.states([before]):
            return True
        waiting = await self._ledgers.runtime.read(
            executions.list_unfinished_in, session_label=execution.session_label
        )
        if execution.id not in waiting:
            return False
        earlier = waiting[: waiting.index(execution.id)]
        known = await self._engine.states(earlier)
        for id_ in earlier:
            if id_ not in known:
                await self._hand_over_recorded(id_)
        return True

    async def _hand_over_recorded(self, id_: str) -> bool:
        recorded = await self._ledgers.runtime.read(executions.get, execution_id=id_)
        if recorded is None or recorded.status in FINAL:
            return False
        await self._hand_over(recorded)
        return True

    def _lock(self, session_label: str) -> asyncio.Lock:
        return self._starting.setdefault(session_label, asyncio.Lock())

    async def _hand_over(self, execution: Execution) -> None:
        if execution.mode == "interrupt":
            earlier = await self._ledgers.runtime.read(
                executions.list_interrupted_by, execution_id=execution.id
            )
            # From the back, so that none that waits begins because the one before it was cancelled.
            for id_ in reversed(earlier):
                await self.run(id_).cancel()
        await self._engine.start(
            WORK,
            None,
            key=execution.session_label,
            lane=execution.lane,
            timeout_ms=execution.timeout_ms,
            execution_id=execution.id,
        )

    async def _execute(self, context: WorkContext, payload: Any) -> None:
        """The engine's body for every run. What came of it is in the ledger."""
        id_, runtime = context.id, self._ledgers.runtime
        try:
            try:
                execution, recorded, is_resumed = await runtime.write(_begin, execution_id=id_)
                if execution is None or execution.status in FINAL:
                    return
                if execution.taken_by is not None and await self._record_lost_end(execution.taken_by):
                    # It was taken on, and not answered: it is free again.
                    execution = await runtime.read_now(executions.get, execution_id=id_) or execution
                result = None
                if execution.taken_by is None:
                    run_steps = Steps(context, self._ledgers, recorded)
                    active = ActiveRun(
                        execution=execution,
                        collected=await self._collect(context, execution, is_resumed=is_resumed),
                        context=context,
                        ledgers=self._ledgers,
                        steps=run_steps,
                    )
                    result = await self._bodies[execution.work](active)
                context.require()
                await runtime.write(executions.end, execution_id=id_, status="done", result=result)
            except asyncio.CancelledError:
                reason = context.entry.reason
                if reason == "cancelled" or reason == "timeout":
                    await finish(runtime.write(executions.end, execution_id=id_, status=reason))
                raise
            except TEMPORARY_LEDGER_ERRORS:
                raise
            except Exception as error:
                message = f"{type(error).__name__}: {error}"
                await runtime.write(executions.end, execution_id=id_, status="failed", error=message)
                raise _wordless(error) from None
        except TEMPORARY_LEDGER_ERRORS as reason:
            # The disk is full, or another process holds the ledger, as one that is frozen does.
            _log.warning("%s goes back to its queue: %s", id_, reason)
            raise context.put_back() from None

    async def _record_lost_end(self, execution_id: str) -> bool:
        """See to it that the end of a run is on record that the engine gave up on. False: it did not."""
        known = (await self._engine.states([execution_id])).get(execution_id)
        if known != "failed" and known != "timeout":
            return False
        await self._record_engine_end(await self._engine.show(execution_id))
        return True

    async def _collect(
        self, context: WorkContext, execution: Execution, *, is_resumed: bool
    ) -> list[Execution]:
        """Wait until the debounce is over, then take what was said meanwhile.

        A resumed run has what it took the first time and takes nothing new: it may have its answer already.
        """
        if execution.mode != "collect":
            return []
        if is_resumed:
            taken = await self._ledgers.runtime.read_now(
                executions.list_taken, taker=execution, mode="collect"
            )
            return await _load_taken(self._ledgers, taken)
        waited_s = (clock.now() - clock.parse(execution.enqueued_at)).total_seconds()
        # Said in the future, when the clock was set back since: not a reason to wait until then.
        await asyncio.sleep(max(0.0, self._debounce_s - max(0.0, waited_s)))
        context.require()
        taken = await self._ledgers.runtime.write(executions.take, taker=execution, mode="collect")
        return await _load_taken(self._ledgers, taken)


async def _load_taken(ledgers: Ledgers, ids_: list[str]) -> list[Execution]:
    """What a run has taken, as it stands, without what was forgotten since."""
    found = [await ledgers.runtime.read_now(executions.get, execution_id=id_) for id_ in ids_]
    return [each for each in found if each is not None and each.input is not None]


def _enqueue(
    connection: apsw.Connection, execution: NewExecution, record: Record | None
) -> tuple[Execution, str | None]:
    """Record a run; returns it with the one that its session has before it."""
    if record is not None:
        record(connection)
    return executions.enqueue(connection, execution), executions.predecessor(connection, execution.id)


def _begin(connection: apsw.Connection, execution_id: str) -> tuple[Execution | None, list[Step], bool]:
    """Mark a run as running; returns it with its recorded steps, and whether it had begun before."""
    before = executions.get(connection, execution_id)
    is_resumed = before is not None and before.started_at is not None
    return executions.begin(connection, execution_id), find_steps(connection, execution_id), is_resumed


def _wordless(error: Exception) -> RunFailedError:
    """What the engine keeps of a failure: where it was, not what it says, which may be somebody's words."""
    name = type(error).__qualname__
    return RunFailedError(f"{name}: what it says is in the home").with_traceback(error.__traceback__)


class Outbox:
    """A task that hands over what is late. Start it when a home is served."""

    def __init__(self) -> None:
        self._late = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_recovering = False

    def note_late(self) -> None:
        """Something could not be handed over: try again soon."""
        self._late.set()

    @property
    def is_late(self) -> bool:
        """Whether something waits to be handed over."""
        return self._late.is_set() or self._is_recovering

    def start(self, *recoveries: Callable[[], Awaitable[object]]) -> None:
        """Call these now and then, and soon after something was late."""
        self._task = asyncio.create_task(self._recover(recoveries), name="outbox")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _recover(self, recoveries: tuple[Callable[[], Awaitable[object]], ...]) -> None:
        while True:
            if await wait_at_most(self._late.wait(), _EVERY_S):
                # The engine was out of reach just now.
                await asyncio.sleep(_AGAIN_S)
            self._is_recovering = True
            self._late.clear()
            for recover in recoveries:
                try:
                    await recover()
                except Exception as error:  # Whatever it is, nobody else would hand over what waits.
                    _log.warning(
                        "the outbox is tried again: %s", error, exc_info=not isinstance(error, NexusError)
                    )
                    self._late.set()
            self._is_recovering = False
