"""What the memory does by itself, by the clock: conversations become episodes, near entities are compared."""

import json
from typing import Any, Final

import apsw

from nexus import clock
from nexus.engine import Engine, Schedule, WorkContext
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import seals
from nexus.ledgers.sql import rows
from nexus.memory import aliases, candidates, grouping, similarity
from nexus.memory.candidates import Added, Signs
from nexus.memory.normalisation import NAME
from nexus.memory.views import entities
from nexus.memory.writing import Cosines

EPISODES: Final = "memory.episodes"
CANDIDATES: Final = "memory.candidates"
_SCHEDULES: Final = (
    Schedule(name=EPISODES, cron="*/10 * * * *", work=EPISODES, payload={}),
    # Every entity is looked at: that belongs into the night.
    Schedule(name=CANDIDATES, cron="20 3 * * *", work=CANDIDATES, payload={}),
)
_ENTITIES_A_READ: Final = 500
_COMPANY: Final = 200


async def review(ledgers: Ledgers, *, cosines: Cosines | None = None, now: clock.Clock = clock.now) -> int:
    """Compare every entity with the near ones again, by their company too; returns how many pairs wait."""
    await ledgers.identity.write(aliases.complete_keys)
    after = ""
    while page := await ledgers.identity.read(
        rows, sql.queries("identity")["roots_after"], (after, _ENTITIES_A_READ)
    ):
        for (entity_id,) in page:
            await _review_one(ledgers, entity_id, cosines, clock.timestamp(now()))
        after = page[-1][0]
    return len(await entities.load_candidates(ledgers, limit=-1))


async def _review_one(ledgers: Ledgers, entity_id: str, cosines: Cosines | None, now: str) -> None:
    names, signs = await ledgers.identity.read(_find_signs, entity_id)
    if not signs:
        return
    alike = await cosines(names[0], list(signs)) if cosines and names else {}
    own = await _load_company(ledgers, entity_id)
    for other, reasons in signs.items():
        theirs = await _load_company(ledgers, other)
        shared = own.keys() & theirs.keys() - {entity_id, other}
        reason = similarity.by_context(own[each] for each in shared)
        if reason is not None:
            reasons[reason.signal] = reason
    await ledgers.identity.write(_record, entity_id, names, signs, alike, now)


def _record(
    connection: apsw.Connection,
    entity_id: str,
    names: list[str],
    signs: Signs,
    alike: dict[str, float],
    now: str,
) -> None:
    candidates.add_meaning(connection, signs, names, alike)
    candidates.record(connection, entity_id, signs, now)


def _find_signs(connection: apsw.Connection, entity_id: str) -> tuple[list[str], Signs]:
    known = rows(connection, sql.queries("identity")["aliases_of"], (json.dumps([entity_id]),))
    own = [Added(id="", type=row[2], normalized=row[3], is_new=False) for row in known]
    names = [alias.normalized for alias in own if alias.type == NAME]
    return names, candidates.signs(connection, entity_id, own, {})


async def _load_company(ledgers: Ledgers, entity_id: str) -> dict[str, str]:
    """Load whom and what an entity occurs with: ids and names."""
    found = await entities.load_company(ledgers, [entity_id], limit=_COMPANY)
    return {each.entity_id: each.name for each in found}


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
