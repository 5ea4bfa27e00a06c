"""Who may see what: the one gate through which everything passes before it is ranked.

The arms apply the scope in their SQL where that makes them find more of what counts. The gate does not
rely on it: whatever an arm brings, of any kind, is looked up here, and what lies outside is dropped.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, get_args

from nexus import clock
from nexus.ledgers import Ledgers, sql
from nexus.memory.recall.item import Kind, Query, Sighting
from nexus.memory.recall.reading import SQL, Deadline
from nexus.request import Visibility

# What was said in a place, and what is known to come from there. Conclusions may rest on other places.
_HAS_A_PLACE: Final[frozenset[Kind]] = frozenset({"event", "fact", "episode"})
# In a thread several may speak, and what was learned from the owner's turn may rest on more than was said.
_IS_SAID: Final[frozenset[Kind]] = frozenset({"event"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """What one question may be answered with: what its asker may see, narrowed by what was asked."""

    places: Visibility
    kinds: frozenset[Kind]
    after: datetime | None
    before: datetime | None
    without: frozenset[str] = frozenset()
    """Ids of what is never an answer."""

    @classmethod
    def of(cls, query: Query, visible: Visibility, without: frozenset[str] = frozenset()) -> "Scope":
        """The query's own limits can only narrow what the principal may see."""
        channel = None if query.channel is None else frozenset({query.channel})
        places = Visibility(
            channels=_both(visible.channels, channel),
            thread_ids=_both(visible.thread_ids, query.thread_ids),
        )
        return cls(
            places=places,
            kinds=query.kinds & _kinds(places),
            after=query.time_after,
            before=query.time_before,
            without=without,
        )

    @property
    def open(self) -> bool:
        """Whether every place and every time is inside."""
        return self.places.everything and self.after is None and self.before is None

    @property
    def parameters(self) -> dict[str, str | None]:
        """As the statements take it."""
        return {
            "threads": _list(self.places.thread_ids),
            "channels": _list(self.places.channels),
            "after": clock.timestamp(self.after) if self.after else None,
            "before": clock.timestamp(self.before) if self.before else None,
        }

    def holds_time(self, at: str) -> bool:
        """Whether a moment is inside."""
        parameters = self.parameters
        return (parameters["after"] or "") <= at < (parameters["before"] or "~")


async def permitted(
    ledgers: Ledgers, scope: Scope, sightings: Sequence[Sighting], deadline: Deadline
) -> list[Sighting]:
    """The sightings that lie inside the scope."""
    seen = [
        sighting
        for sighting in sightings
        if sighting.kind in scope.kinds and sighting.id not in scope.without
    ]
    if scope.open:
        return seen
    allowed = await _events(ledgers, scope, _ids(seen, "event"), deadline)
    others = {sighting.id for sighting in seen if sighting.kind not in ("event", "entity")}
    allowed |= await _others(ledgers, scope, others, deadline)
    # Entities have no time and no place: the kinds let them through only where no place is asked for.
    return [sighting for sighting in seen if sighting.id in allowed or sighting.kind == "entity"]


async def _events(ledgers: Ledgers, scope: Scope, ids: Iterable[str], deadline: Deadline) -> set[str]:
    given = {"ids": json.dumps(sorted(ids)), **scope.parameters}

    found = await deadline.read(ledgers.events, sql.rows, SQL["permitted_events"], given)
    return {id_ for (id_,) in found}


async def _others(ledgers: Ledgers, scope: Scope, ids: set[str], deadline: Deadline) -> set[str]:
    """Episodes by their own place; facts by that of the event they came from; the rest by their time."""
    given = {"ids": json.dumps(sorted(ids)), **scope.parameters}

    statement = SQL["permitted_others"]
    rows = await deadline.read(ledgers.memory, sql.rows, statement, given) if ids else []
    if scope.places.everything:
        return {id_ for id_, _ in rows}
    untimed = Scope(places=scope.places, kinds=scope.kinds, after=None, before=None)
    sources = {source for _, source in rows if source}
    seen = await _events(ledgers, untimed, sources, deadline)
    return {id_ for id_, source in rows if source in seen or id_.startswith("epi_")}


def _kinds(places: Visibility) -> frozenset[Kind]:
    if places.everything:
        return frozenset(get_args(Kind))
    return _HAS_A_PLACE if places.thread_ids is None else _IS_SAID


def _ids(sightings: Iterable[Sighting], kind: Kind) -> set[str]:
    return {sighting.id for sighting in sightings if sighting.kind == kind}


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _list(values: frozenset[str] | None) -> str | None:
    return None if values is None else json.dumps(sorted(values))
