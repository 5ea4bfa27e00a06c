"""What the memory does by itself, by the clock: conversations become episodes, near entities are compared."""

from typing import Any, Final

from nexus.engine import Engine, Schedule, WorkContext
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import seals
from nexus.memory import grouping
from nexus.memory.review import review

EPISODES: Final = "memory.episodes"
CANDIDATES: Final = "memory.candidates"
_SCHEDULES: Final = (
    Schedule(name=EPISODES, cron="*/10 * * * *", work=EPISODES, payload={}),
    # Every entity is looked at: that belongs into the night.
    Schedule(name=CANDIDATES, cron="20 3 * * *", work=CANDIDATES, payload={}),
)


class Upkeep:
    """The memory's schedules in one home. Make it before the engine opens; `schedule` afterwards."""

    def __init__(self, ledgers: Ledgers, engine: Engine) -> None:
        self._ledgers = ledgers
        self._engine = engine
        self._since_seq = 0
        engine.register(EPISODES, self._group)
        engine.register(CANDIDATES, self._review)

    async def schedule(self) -> None:
        """See to it that the schedules are there; those that are keep their next moment."""
        for schedule in _SCHEDULES:
            await self._engine.schedules.put(schedule)

    async def _group(self, context: WorkContext, payload: Any) -> dict[str, int]:
        while await self._ledgers.memory.write(seals.seal):
            pass
        grouped = await grouping.group_events(self._ledgers, since_seq=self._since_seq)
        self._since_seq = grouped.next_seq
        return {"episodes": len(grouped.episode_ids), "events": grouped.events}

    async def _review(self, context: WorkContext, payload: Any) -> dict[str, int]:
        return {"candidates": await review(self._ledgers)}
