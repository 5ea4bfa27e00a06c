"""Taking work: the heads of some idle keys, at a cost that does not grow with how many keys wait.

DBOS's own claim visits every waiting key (185 ms at 10,000 of them). This one goes on from where the
last one stopped, visits a bounded number, and comes round to all of them in turn. Work that was
interrupted by the loss of its process comes before all: it has had its turn already.
"""

import uuid
from dataclasses import dataclass

from nexus.engine import interior
from nexus.engine.database import Database
from nexus.engine.settings import Lane

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

    def __init__(self, database: Database, lane: Lane, version: str) -> None:
        self._database = database
        self._lane = lane.name
        self._version = version
        self._after: str | None = None

    def take(self, executor_id: str, room: int) -> Claimed:
        """Take the heads of up to `room` idle keys. Blocking.

        A head of another version is left where it is, and its key with it: order is kept across upgrades.
        Raises IntegrityError when another process has taken an item of one of these keys meanwhile.
        """
        owner = str(uuid.uuid4())
        heads = self._heads(room)
        return Claimed(ids=self._begin(heads, executor_id, owner) if heads else [], owner=owner)

    def _heads(self, room: int) -> list[str]:
        interrupted = interior.interrupted(self._database, self._lane, self._version, room)
        if len(interrupted) == room:
            return interrupted
        following = self._next_heads(room - len(interrupted))
        return interrupted + [head for head in following if head not in interrupted]

    def _next_heads(self, room: int) -> list[str]:
        if self._after is None:
            # Processes that never live long enough to come round must not all begin with the same keys.
            self._after = interior.any_key(self._database, self._lane)
        began = self._after
        visits = room * _VISITS_FOR_EACH + _VISITS_MORE
        heads = self._visit(began, visits, room)
        if began and not self._after and len(heads) < room:
            heads += [head for head in self._visit("", visits, room - len(heads)) if head not in heads]
        return heads

    def _visit(self, after: str, visits: int, room: int) -> list[str]:
        heads: list[str] = []
        last = ""
        visited = interior.heads(self._database, self._lane, after, visits)
        for key, head in visited:
            last = key
            if head is not None:
                heads.append(head)
            if len(heads) == room:
                break
        # At the end of the keys the next visit begins with the first one again.
        self._after = last if len(heads) == room or len(visited) == visits else ""
        return heads

    def _begin(self, heads: list[str], executor_id: str, owner: str) -> list[str]:
        taken = interior.begin(self._database, self._lane, self._version, heads, executor_id, owner)
        return [head for head in heads if head in taken]
