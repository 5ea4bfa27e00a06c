"""Who may see what: the one gate through which everything passes before it is ranked.

The arms apply the scope in their SQL where that makes them find more of what counts. The gate does not
rely on it: whatever an arm brings, of any kind, is looked up here, and what lies outside is dropped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, get_args

import apsw

from nexus import clock
from nexus.ledgers import sql
from nexus.memory.recall.item import Kind, Query, Sighting
from nexus.memory.recall.reading import SQL
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


def keep_permitted(
    connection: apsw.Connection, scope: Scope, sightings: Sequence[Sighting]
) -> list[Sighting]:
    """Return the sightings that lie inside the scope."""
    seen = [
        sighting
        for sighting in sightings
        if sighting.kind in scope.kinds and sighting.id not in scope.without
    ]
    if scope.open or not seen:
        return seen
    allowed = _find_events(connection, scope, {each.id for each in seen if each.kind == "event"})
    others = {each.id for each in seen if each.kind not in ("event", "entity")}
    # Episodes by their own place; facts by that of the event they came from; the rest by their time.
    given = {"ids": json.dumps(sorted(others)), **scope.parameters}
    rows = sql.rows(connection, SQL["permitted_others"], given) if others else []
    if scope.places.everything:
        allowed |= {id_ for id_, _ in rows}
    else:
        untimed = replace(scope, after=None, before=None)
        sources = _find_events(connection, untimed, {source for _, source in rows if source})
        allowed |= {id_ for id_, source in rows if source in sources or id_.startswith("epi_")}
    # Entities have no time and no place: the kinds let them through only where no place is asked for.
    return [each for each in seen if each.id in allowed or each.kind == "entity"]


def _find_events(connection: apsw.Connection, scope: Scope, ids: set[str]) -> set[str]:
    given = {"ids": json.dumps(sorted(ids)), **scope.parameters}
    return {id_ for (id_,) in sql.rows(connection, SQL["permitted_events"], given)} if ids else set()


def _kinds(places: Visibility) -> frozenset[Kind]:
    if places.everything:
        return frozenset(get_args(Kind))
    return _HAS_A_PLACE if places.thread_ids is None else _IS_SAID


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _list(values: frozenset[str] | None) -> str | None:
    return None if values is None else json.dumps(sorted(values))
