"""Taking work: the heads of some idle keys, at a cost that does not grow with how many keys wait.

DBOS's own claim visits every waiting key (185 ms at 10,000 of them). This one goes on from where the
last one stopped, visits a bounded number, and comes round to all of them in turn. Work that was
interrupted by the loss of its process comes before all: it has had its turn already.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple

from nexus.engine import store
from nexus.engine.database import Database
from nexus.engine.settings import SEPARATOR, Lane

# Keys that are busy are visited in vain; so many more are visited than are wanted.
_VISITS_FOR_EACH = 4
_VISITS_MORE = 128


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """What was taken, and the token that owns it."""

    ids: list[str]
    owner: str


class Claims:
    """The claims of one process in one lane."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self._database = database
        self._lane = lane.name
        self._after: str | None = None

    def take(self, executor_id: str, room: int) -> Claimed:
        """Take the heads of up to `room` idle keys. Blocking."""
        owner = str(uuid.uuid4())
        heads = self._heads(room)
        taken = store.begin(self._database, heads, executor_id, owner) if heads else set[str]()
        return Claimed(ids=[head for head in heads if head in taken], owner=owner)

    def began(self, execution_ids: list[str]) -> None:
        """What was taken begins to run."""

    def ended(self, execution_id: str) -> None:
        """What had begun has ended."""

    def _heads(self, room: int) -> list[str]:
        interrupted = store.interrupted(self._database, self._lane, room)
        heads = list(interrupted.values())
        return heads if len(heads) == room else heads + self._next_heads(room - len(heads), interrupted)

    def _next_heads(self, room: int, busy: Container[str]) -> list[str]:
        if self._after is None:
            # Processes that never live long enough to come round must not all begin with the same keys.
            self._after = store.any_key(self._database, self._lane)
        began = self._after
        visits = room * _VISITS_FOR_EACH + _VISITS_MORE
        heads = self._visit(began, visits, room, busy)
        if began and not self._after and len(heads) < room:
            more = self._visit("", visits, room - len(heads), busy)
            heads += [head for head in more if head not in heads]
        return heads

    def _visit(self, after: str, visits: int, room: int, busy: Container[str]) -> list[str]:
        heads: list[str] = []
        last = ""
        visited = store.heads(self._database, self._lane, after, visits)
        for key, head in visited:
            last = key
            if head is not None and key not in busy:
                heads.append(head)
            if len(heads) == room:
                break
        # At the end of the keys the next visit begins with the first one again.
        self._after = last if len(heads) == room or len(visited) == visits else ""
        return heads


class Shares(NamedTuple):
    """What homes of a shared database get, where it is not what all get."""

    suspended: AbstractSet[str]
    limits: Mapping[str, int]


class FairClaims(Claims):
    """The claims in a database that many homes share: the homes take turns, whatever each has waiting.

    A turn is one execution. A home has at most `limit` of a lane under way; one that is suspended has none.
    """

    def __init__(self, database: Database, lane: Lane, limit: int, shares: Shares) -> None:
        super().__init__(database, lane)
        self._limit = limit
        self._shares = shares
        self._home = ""
        self._within: dict[str, str] = {}
        """Where the next visit to a home goes on, for homes that had more than they could begin."""
        self._counting = threading.Lock()
        self.running: Counter[str] = Counter()
        """How much of each home is under way here."""

    def began(self, execution_ids: list[str]) -> None:
        with self._counting:
            self.running.update(map(scope_of, execution_ids))

    def ended(self, execution_id: str) -> None:
        home = scope_of(execution_id)
        with self._counting:
            self.running[home] -= 1
            if not self.running[home]:
                del self.running[home]

    def _heads(self, room: int) -> list[str]:
        interrupted = store.interrupted(self._database, self._lane, room)
        heads = [head for head in interrupted.values() if scope_of(head) not in self._shares.suspended]
        taken = Counter(map(scope_of, heads))
        offers = self._offers(room - len(heads), taken, interrupted)
        while len(heads) < room and offers:
            for home in list(offers):
                if len(heads) == room:
                    break
                heads.append(offers[home].pop(0))
                self._home = home
                if not offers[home]:
                    del offers[home]
        return heads

    def _offers(self, room: int, taken: Counter[str], busy: Container[str]) -> dict[str, list[str]]:
        """What each home could begin, the one whose turn it is first; of no more homes than there is room."""
        found: dict[str, list[str]] = {}
        for home in self._waiting_homes():
            if len(found) >= room:
                break
            limit = self._shares.limits.get(home, self._limit)
            free = min(limit - self.running[home] - taken[home], room)
            if free <= 0 or home in self._shares.suspended or home in found:
                continue
            if offered := self._of_home(home, free, busy):
                found[home] = offered
        return found

    def _waiting_homes(self) -> Iterator[str]:
        """Every home with waiting work, once, from the one after the last that had a turn."""
        yield from self._homes_between(self._home, "")
        if self._home:
            yield from self._homes_between("", self._home)

    def _homes_between(self, after: str, last: str) -> Iterator[str]:
        while homes := store.scopes(self._database, self._lane, after, _VISITS_MORE):
            for home in homes:
                if last and home > last:
                    return
                yield home
            after = homes[-1]

    def _of_home(self, home: str, room: int, busy: Container[str]) -> list[str]:
        """Heads of a home's idle keys; the next visit goes on after the last of them."""
        prefix = home + SEPARATOR
        visits = room + self.running[home] + _VISITS_FOR_EACH
        began = self._within.pop(home, prefix)
        heads, last = self._walk(prefix, began, visits, room, busy)
        if began != prefix and len(heads) < room:
            more, last = self._walk(prefix, prefix, visits, room - len(heads), busy)
            heads += [head for head in more if head not in heads]
        if last:
            self._within[home] = last
        return heads

    def _walk(
        self, prefix: str, after: str, visits: int, room: int, busy: Container[str]
    ) -> tuple[list[str], str]:
        heads: list[str] = []
        for key, head in store.heads(self._database, self._lane, after, visits):
            if not key.startswith(prefix):
                return heads, ""
            if head is not None and key not in busy:
                heads.append(head)
            if len(heads) == room:
                return heads, key
        return heads, ""


def scope_of(stored_id: str) -> str:
    """The home that an execution belongs to."""
    return stored_id.partition(SEPARATOR)[0]
