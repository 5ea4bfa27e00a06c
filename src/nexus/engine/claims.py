"""Taking work: the heads of some idle keys, at a cost that does not grow with how many keys wait.

DBOS's own claim visits every waiting key (185 ms at 10,000 of them). This one goes on from where the
last one stopped, visits a bounded number, and comes round to all of them in turn. Work that was
interrupted by the loss of its process comes before all: it has had its turn already.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nexus.engine.database import Database
from nexus.engine.settings import Lane
from nexus.engine.tables import QUEUE_PREFIX

# Keys that are busy are visited in vain; so many more are visited than are wanted.
_VISITS_FOR_EACH = 4
_VISITS_MORE = 128

# SQLite uses an index for certain states only where its own condition stands word for word.
_PROOF = "AND status IN ('ENQUEUED', 'PENDING')"

_HEADS = """
WITH RECURSIVE visited(k, n) AS (
  SELECT (SELECT min(queue_partition_key) FROM {t}workflow_status
          WHERE queue_name = :queue AND status = 'ENQUEUED' {proof}
            AND queue_partition_key > :after), 1
  UNION ALL
  SELECT (SELECT min(queue_partition_key) FROM {t}workflow_status
          WHERE queue_name = :queue AND status = 'ENQUEUED' {proof}
            AND queue_partition_key > visited.k), n + 1
  FROM visited WHERE k IS NOT NULL AND n < :visits
)
SELECT visited.k,
  CASE WHEN EXISTS (SELECT 1 FROM {t}workflow_status
                    WHERE queue_name = :queue AND status = 'PENDING' {proof}
                      AND queue_partition_key = visited.k)
  THEN NULL ELSE
    (SELECT workflow_uuid FROM {t}workflow_status
     WHERE queue_name = :queue AND status = 'ENQUEUED' {proof} AND queue_partition_key = visited.k
     ORDER BY priority, created_at, workflow_uuid LIMIT 1)
  END
FROM visited WHERE k IS NOT NULL
"""


# Each is the head of an idle key: it was running, and nothing of its key has begun since.
_INTERRUPTED = """
SELECT workflow_uuid FROM {t}workflow_status
WHERE queue_name = :queue AND status = 'ENQUEUED' AND recovery_attempts > 0
  AND application_version = :version
LIMIT :room
"""

_ANY_KEY = """
SELECT queue_partition_key FROM {t}workflow_status
WHERE queue_name = :queue AND status = 'ENQUEUED' {proof} AND queue_partition_key IS NOT NULL
ORDER BY random() LIMIT 1
"""


_WAITING = """
SELECT :{lane} WHERE EXISTS (SELECT 1 FROM {{t}}workflow_status
                             WHERE queue_name = :{lane} AND status = 'ENQUEUED' {proof})
"""


class Waiting:
    """Which lanes have work that waits: one question for all of them, because most sweeps find nothing."""

    def __init__(self, database: Database, lanes: Sequence[Lane]) -> None:
        self._database = database
        proof = "" if database.is_postgres else _PROOF
        self._queues = {f"lane{at}": QUEUE_PREFIX + lane.name for at, lane in enumerate(lanes)}
        each = [_WAITING.format(lane=parameter, proof=proof) for parameter in self._queues]
        texts = [sa.bindparam(parameter, type_=sa.Text) for parameter in self._queues]
        self._statement = database.sql("UNION ALL".join(each)).bindparams(*texts)

    def lanes(self) -> set[str]:
        """Their names. Blocking."""
        with self._database.read() as connection:
            found = connection.execute(self._statement, self._queues).scalars().all()
        return {str(queue).removeprefix(QUEUE_PREFIX) for queue in found}


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """What was taken, and the token that owns it."""

    ids: list[str]
    owner: str


class Claims:
    """The claims of one process in one lane."""

    def __init__(self, database: Database, lane: Lane, version: str) -> None:
        self._database = database
        self._queue = QUEUE_PREFIX + lane.name
        self._version = version
        self._after: str | None = None
        proof = "" if database.is_postgres else _PROOF
        self._heads_statement = database.sql(_HEADS.replace("{proof}", proof))
        self._interrupted_statement = database.sql(_INTERRUPTED)
        self._any_key_statement = database.sql(_ANY_KEY.replace("{proof}", proof))

    def take(self, executor_id: str, room: int) -> Claimed:
        """Take the heads of up to `room` idle keys. Blocking.

        A head of another version is left where it is, and its key with it: order is kept across upgrades.
        Raises IntegrityError when another process has taken an item of one of these keys meanwhile.
        """
        owner = str(uuid.uuid4())
        heads = self._heads(room)
        return Claimed(ids=self._begin(heads, executor_id, owner) if heads else [], owner=owner)

    def _heads(self, room: int) -> list[str]:
        interrupted = self._interrupted(room)
        if len(interrupted) == room:
            return interrupted
        following = self._next_heads(room - len(interrupted))
        return interrupted + [head for head in following if head not in interrupted]

    def _interrupted(self, room: int) -> list[str]:
        values = {"queue": self._queue, "version": self._version, "room": room}
        with self._database.read() as connection:
            return [row[0] for row in connection.execute(self._interrupted_statement, values)]

    def _next_heads(self, room: int) -> list[str]:
        if self._after is None:
            # Processes that never live long enough to come round must not all begin with the same keys.
            self._after = self._any_key()
        began = self._after
        visits = room * _VISITS_FOR_EACH + _VISITS_MORE
        heads = self._visit(began, visits, room)
        if began and not self._after and len(heads) < room:
            heads += [head for head in self._visit("", visits, room - len(heads)) if head not in heads]
        return heads

    def _any_key(self) -> str:
        with self._database.read() as connection:
            return connection.execute(self._any_key_statement, {"queue": self._queue}).scalar() or ""

    def _visit(self, after: str, visits: int, room: int) -> list[str]:
        heads: list[str] = []
        last = ""
        with self._database.read() as connection:
            rows = connection.execute(
                self._heads_statement, {"queue": self._queue, "after": after, "visits": visits}
            ).all()
        for key, head in rows:
            last = key
            if head is not None:
                heads.append(head)
            if len(heads) == room:
                break
        # At the end of the keys the next visit begins with the first one again.
        self._after = last if len(heads) == room or len(rows) == visits else ""
        return heads

    def _begin(self, heads: list[str], executor_id: str, owner: str) -> list[str]:
        lock = " FOR UPDATE SKIP LOCKED" if self._database.is_postgres else ""
        free = self._database.sql(
            f"""SELECT workflow_uuid FROM {{t}}workflow_status
            WHERE workflow_uuid IN :ids AND status = 'ENQUEUED' AND queue_name = :queue
              AND application_version = :version{lock}"""  # noqa: S608 - names are constants of the program, values are bound
        ).bindparams(sa.bindparam("ids", expanding=True))
        begin = self._database.sql(
            """UPDATE {t}workflow_status
            SET status = 'PENDING', owner_xid = :owner, executor_id = :executor,
              recovery_attempts = recovery_attempts + 1, started_at_epoch_ms = {now}, updated_at = {now}
            WHERE workflow_uuid IN :ids AND status = 'ENQUEUED'"""
        ).bindparams(sa.bindparam("ids", expanding=True))
        values = {"ids": heads, "queue": self._queue, "version": self._version}
        with self._database.write() as connection:
            taken = {row[0] for row in connection.execute(free, values)}
            if taken:
                connection.execute(begin, {"ids": list(taken), "owner": owner, "executor": executor_id})
        return [head for head in heads if head in taken]
