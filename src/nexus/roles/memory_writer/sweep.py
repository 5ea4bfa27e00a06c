"""Write by the clock the turns that the writer missed, as in an outage of its model."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from nexus import clock
from nexus.automations.context import Occasion
from nexus.engine import Schedule, WorkContext
from nexus.ledgers.runtime import invocations, requests
from nexus.roles.memory_writer.turns import PROCESSOR, Frequency, Turn, find_settled, load_turns_of
from nexus.runs import Response, Result

if TYPE_CHECKING:
    from nexus.automations.runner import Runner
    from nexus.roles.services import Services

WORK: Final = "memory.missed_turns"
_HOOK_POINT: Final = "after:runAgent"
_SCHEDULE: Final = Schedule(
    name=WORK, cron="35 * * * *", work=WORK, payload={}, lane="automations", missed="skip"
)
# What is older is let go, as is what failed once an hour for a day.
_LOOKS_BACK: Final = timedelta(days=7)
_MOST_ATTEMPTS: Final = 24
_MOST_TURNS: Final = 200


class Sweep:
    """The schedule in one home. Make it before the engine opens; `schedule` it afterwards."""

    def __init__(self, services: "Services", runner: "Runner") -> None:
        self._services = services
        self._ledgers = services.ledgers
        self._runner = runner
        services.engine.register(WORK, self._by_clock)

    async def schedule(self) -> None:
        """Make sure that the schedule exists; an existing one keeps its next run."""
        await self._services.engine.schedules.put(_SCHEDULE)

    async def sweep(self) -> int:
        """Let the writer go over what it missed, the oldest first; returns how many runs were asked for."""
        entry = await self._runner.find_active(PROCESSOR, _HOOK_POINT)
        if entry is None:
            return 0
        frequency = Frequency.of(entry.automation.config)
        asked = 0
        for label, missed in (await self._find_missed()).items():
            for start in range(0, len(missed), frequency.most_turns):
                last = missed[start : start + frequency.most_turns][-1]
                occasion = await self._make_occasion(label, last.execution_id, last.request_id)
                if occasion is not None:
                    # Where the circuit is open, the first one tells whether the others may follow.
                    if not await self._runner.enqueue_again(entry, _HOOK_POINT, occasion):
                        return asked
                    asked += 1
        return asked

    async def ask_about(self, runs: Iterable[tuple[str, str, str]]) -> None:
        """Let the writer go over turns that it was never asked about, by session, run and request."""
        entry = await self._runner.find_active(PROCESSOR, _HOOK_POINT)
        if entry is None:
            return
        for label, execution_id, request_id in runs:
            occasion = await self._make_occasion(label, execution_id, request_id)
            if occasion:
                await self._runner.enqueue_again(entry, _HOOK_POINT, occasion)

    async def _by_clock(self, context: WorkContext, payload: Any) -> dict[str, int]:
        return {"runs": await self.sweep()}

    async def _find_missed(self) -> dict[str, list[Turn]]:
        """Find the turns that were not written, by session, oldest first."""
        since = clock.timestamp(clock.now() - _LOOKS_BACK)
        missed = await self._ledgers.runtime.read(
            invocations.list_missed, automation=PROCESSOR, since=since, limit=_MOST_TURNS
        )
        by_session: dict[str, list[str]] = {}
        for request_id, label in missed:
            by_session.setdefault(label, []).append(request_id)
        unwritten: dict[str, list[Turn]] = {}
        for label, request_ids in by_session.items():
            found = await load_turns_of(self._ledgers, label, request_ids)
            over = await find_settled(self._ledgers, found, most_attempts=_MOST_ATTEMPTS)
            if turns := [turn for turn in found if turn.execution_id not in over]:
                unwritten[label] = turns
        return unwritten

    async def _make_occasion(self, label: str, execution_id: str, request_id: str) -> Occasion | None:
        request = await requests.restore(self._ledgers, request_id)
        if request is None:
            return None  # forgotten
        result = Result(execution_id=execution_id, session_label=label, response=Response(content=""))
        return Occasion(request=request, result=result)
