"""The steps of a run. The engine records that a step is done; what it gave stands in the home's ledgers.

Each has one record to replay from: a model's answer and a tool's result are in the agents ledger, what any
other step gave is in `steps` of the runtime ledger. A record is found by the name of its step and how many
of that name the run began before it, so a version that has other steps in between still finds it.

So the engine's database, which many homes may share and `nexus forget` does not reach, holds no content.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar, cast

from nexus.engine import Context, serializer
from nexus.errors import LEDGER_PASSES
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import steps
from nexus.ledgers.runtime.steps import Step

T = TypeVar("T")


class Steps:
    """The steps of one run. Those of one name are numbered as they are begun: a repeat begins them alike."""

    def __init__(self, context: Context, ledgers: Ledgers, recorded: Iterable[Step]) -> None:
        """`recorded`: those that an earlier attempt has recorded."""
        self._context = context
        self._ledgers = ledgers
        self._known = {(step.name, step.number): step for step in recorded}
        self._begun = Counter[str]()

    async def run(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a part of the work once; after a crash what it gave is used instead."""
        return await self._run(name, partial(self._context.step, name), function, *arguments)

    async def decide(self, name: str, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """As `run`, for what has no effect outside the home: the engine need not know, which is quicker."""
        return await self._run(name, self._alone, function, *arguments)

    async def mark(self, name: str, function: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        """As `run`, for what keeps a record of its own and finds it there: only a failure is recorded here.

        The engine still knows that it is done: an executor that lost the run can't go on after it.
        """
        guarded = partial(self._context.step, name)
        await self._run(name, guarded, function, *arguments, keeps_own_record=True)

    async def _run(
        self,
        name: str,
        guarded: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]],
        function: Callable[..., Awaitable[T]],
        *arguments: Any,
        keeps_own_record: bool = False,
    ) -> T:
        number = self._begun[name]
        self._begun[name] += 1
        key = (name, number)
        raised: list[Exception] = []

        async def recorded() -> None:
            # Recorded here and not by the engine: the crash came between the two.
            if key not in self._known:
                try:
                    step = await self._done(number, name, raised, function, *arguments)
                    if step.failed or not keeps_own_record:
                        self._known[key] = await self._ledgers.runtime.write(steps.record, step=step)
                except LEDGER_PASSES:
                    # Not the step's outcome: the run goes on when the ledger can be written again.
                    raise self._context.put_back() from None

        await guarded(recorded)
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
            await self._ledgers.runtime.write(steps.drop, execution_id=self._context.id)
            raise self._context.start_over(f"what its step {name} gave can't be read: {error}") from None
        if step.failed:
            raise outcome
        return outcome

    async def _alone(self, function: Callable[[], Awaitable[None]]) -> None:
        self._context.require()
        await function()

    async def _done(
        self,
        number: int,
        name: str,
        raised: list[Exception],
        function: Callable[..., Awaitable[Any]],
        *arguments: Any,
    ) -> Step:
        try:
            outcome = serializer.dumps(await function(*arguments))
        except LEDGER_PASSES:
            raise
        except Exception as error:
            raised.append(error)
            outcome = serializer.dumps(error)
        return Step(
            execution_id=self._context.id, name=name, number=number, failed=bool(raised), outcome=outcome
        )
