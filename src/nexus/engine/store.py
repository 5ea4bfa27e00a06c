"""Executions in the database: every statement that names a table or a column of DBOS (3.3.0).

The tables are used directly where a public function can't share our transaction (a schedule and its work),
costs more with every waiting key (the claim), or needs a launched DBOS (commands that only look or delete).
`tests/contract/test_dbos_runtime.py` fails when a column changes, and `tests/unit/engine/test_surface.py`
when another file names one.
"""

# ruff: noqa: S608 - statements are put together from constants of this file; values are bound

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from nexus import ids
from nexus.engine import serializer
from nexus.engine.database import APPLICATION, SCHEMA, Database
from nexus.engine.errors import State

WORKFLOW: Final = "nexus.execution"
_QUEUE_PREFIX: Final = "nexus."
Row = Any
"""A row of SQLAlchemy, with the columns that the statement names."""

# --- Indexes and statistics of ours on DBOS's tables -------------------------------------------------------

_INDEXES: Final = (
    # One running execution for each key.
    """CREATE UNIQUE INDEX IF NOT EXISTS nexus_one_running_per_key
    ON {t}workflow_status (queue_name, queue_partition_key)
    WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL""",
    # What was begun before and given back, and goes first.
    """CREATE INDEX IF NOT EXISTS nexus_interrupted ON {t}workflow_status (queue_name)
    WHERE status = 'ENQUEUED' AND recovery_attempts > 0""",
    # Results of steps that were not dropped yet: few, because they go soon after their execution's end.
    """CREATE INDEX IF NOT EXISTS nexus_step_results ON {t}operation_outputs (workflow_uuid)
    WHERE output IS NOT NULL""",
)


def make_indexes(database: Database) -> None:
    """Make the indexes that our statements need where they are missing."""
    with database.write() as connection:
        database.lock_schema(connection)
        for statement in _INDEXES:
            connection.execute(database.sql(statement))


def common_lanes(connection: sa.Connection) -> set[str]:
    """The lanes that Postgres's planner believes to be common; none unless it believes that much waits."""
    statement = sa.text(
        """SELECT most_common_vals::text::text[] FROM pg_stats
        WHERE schemaname = :schema AND tablename = 'workflow_status' AND attname = :column"""
    )

    def common(column: str) -> set[str]:
        return set(connection.execute(statement, {"schema": SCHEMA, "column": column}).scalar() or ())

    return {_lane(queue) for queue in common("queue_name")} if "ENQUEUED" in common("status") else set()


def plant(database: Database, connection: sa.Connection, lanes: Iterable[str], version: str) -> None:
    """Have Postgres take statistics of a table where half of everything waits, and never again.

    The rows are gone before the transaction ends, so nobody else ever sees them.
    """
    insert_rows = database.sql(
        f"""INSERT INTO {{t}}workflow_status
          (workflow_uuid, status, name, queue_name, queue_partition_key, priority, application_name,
           application_version, created_at, updated_at)
        SELECT 'planning-' || :queue || n, CASE n % 2 WHEN 0 THEN 'ENQUEUED' ELSE 'SUCCESS' END, 'planning',
          :queue, 'planning-' || n, 0, '{APPLICATION}', :version, n, n FROM generate_series(1, 2000) AS n"""
    )
    for lane in lanes:
        connection.execute(insert_rows, {"queue": _QUEUE_PREFIX + lane, "version": version})
    connection.execute(database.sql("ANALYZE {t}workflow_status"))
    connection.execute(database.sql("DELETE FROM {t}workflow_status WHERE name = 'planning'"))
    never = "ALTER TABLE {t}workflow_status SET (autovacuum_analyze_threshold = 2000000000)"
    connection.execute(database.sql(never))


# --- Recording and deleting executions ---------------------------------------------------------------------


def new_id() -> str:
    """A new id such as `exe_01JCQ3…`. Where the database's clock ties, the order of a session rests on it."""
    return ids.new("exe")


@dataclass(frozen=True, kw_only=True)
class NewExecution:
    """An execution before it is recorded."""

    id: str
    work: str
    lane: str
    key: str
    inputs: str
    version: str
    delay_until_ms: int | None = None


def new_execution(
    work: str,
    payload: Any,
    *,
    key: str,
    lane: str,
    version: str,
    timeout_ms: int | None = None,
    id_: str | None = None,
    delay_until_ms: int | None = None,
) -> NewExecution:
    """An execution with its payload and options in the form that they are stored in."""
    options = {"lane": lane, "key": key, "timeout_ms": timeout_ms}
    return NewExecution(
        id=id_ or new_id(),
        work=work,
        lane=lane,
        key=key,
        inputs=serializer.dumps({"args": [work, payload, options], "kwargs": {}}),
        version=version,
        delay_until_ms=delay_until_ms,
    )


def insert(database: Database, connection: sa.Connection, executions: Sequence[NewExecution]) -> None:
    """Record executions in the given order; one whose id is known already is left as it is."""
    # Later than all that waits before it, so that order holds within a millisecond and when the clock is
    # set back: under the write lock of SQLite than everything, in Postgres than what its key has.
    moment = database.choose(
        sqlite="max({now}, (SELECT coalesce(max(created_at), 0) + 1 FROM {t}workflow_status))",
        postgres="""greatest({now}, (SELECT max(created_at) FROM {t}workflow_status WHERE queue_name = :queue
          AND queue_partition_key = :key AND status IN ('ENQUEUED', 'PENDING')) + 1)""",
    )
    attributes = database.choose(sqlite=":attributes", postgres="CAST(:attributes AS JSONB)")
    status = database.sql(
        f"""INSERT INTO {{t}}workflow_status
          (workflow_uuid, status, name, queue_name, queue_partition_key, priority, recovery_attempts,
           application_version, application_name, serialization, attributes, delay_until_epoch_ms,
           created_at, updated_at)
        VALUES (:id, :status, '{WORKFLOW}', :queue, :key, 0, 0,
           :version, '{APPLICATION}', '{serializer.NAME}', {attributes}, :delay,
           {moment}, {{now}})
        ON CONFLICT (workflow_uuid) DO NOTHING"""
    )
    inputs = database.sql(
        """INSERT INTO {t}workflow_input (workflow_uuid, inputs) VALUES (:id, :inputs)
        ON CONFLICT (workflow_uuid) DO NOTHING"""
    )
    connection.execute(status, [_row(execution) for execution in executions])
    connection.execute(inputs, [{"id": e.id, "inputs": e.inputs} for e in executions])


def _row(execution: NewExecution) -> dict[str, Any]:
    return {
        "id": execution.id,
        "status": "ENQUEUED" if execution.delay_until_ms is None else "DELAYED",
        "queue": _QUEUE_PREFIX + execution.lane,
        "key": execution.key,
        "version": execution.version,
        "attributes": json.dumps({"work": execution.work}),
        "delay": execution.delay_until_ms,
    }


def load_input(
    database: Database, connection: sa.Connection, execution_id: str
) -> tuple[str, Any, dict[str, Any]]:
    """The work, payload and options that an execution was recorded with."""
    statement = database.sql("SELECT inputs FROM {t}workflow_input WHERE workflow_uuid = :id")
    inputs = serializer.loads(connection.execute(statement, {"id": execution_id}).scalar_one())
    work, payload, options = inputs["args"]
    return work, payload, options


def delete(database: Database, connection: sa.Connection, execution_ids: Sequence[str]) -> None:
    """Remove all that is recorded about some executions, whatever their state."""
    for table, column in (
        ("operation_outputs", "workflow_uuid"),
        ("workflow_input", "workflow_uuid"),
        ("workflow_output", "workflow_uuid"),
        ("workflow_status", "workflow_uuid"),
        ("nexus_cancels", "execution_id"),
        ("nexus_crashes", "execution_id"),
    ):
        statement = database.sql(f"DELETE FROM {{t}}{table} WHERE {column} IN :ids", "ids")
        connection.execute(statement, {"ids": list(execution_ids)})


def cancel_waiting(database: Database, execution_id: str) -> bool:
    """Cancel an execution that has not begun. False: it has begun, has ended, or never was."""
    statement = database.sql(
        """UPDATE {t}workflow_status
        SET status = 'CANCELLED', updated_at = {now}, completed_at = {now}
        WHERE workflow_uuid = :id AND status IN ('ENQUEUED', 'DELAYED')"""
    )
    with database.write() as connection:
        database.notify(connection)
        return connection.execute(statement, {"id": execution_id}).rowcount > 0


def ask_to_stop(database: Database, execution_id: str) -> None:
    """Leave a request where the process that runs an execution will look."""
    statement = database.sql(
        """INSERT INTO {t}nexus_cancels (execution_id, created_at) VALUES (:id, {now})
        ON CONFLICT (execution_id) DO NOTHING"""
    )
    with database.write() as connection:
        connection.execute(statement, {"id": execution_id})
        database.notify(connection)


# --- Claiming: `claims` says in which order ----------------------------------------------------------------

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
_LANE_WAITS = """
SELECT CAST(:{lane} AS TEXT), CAST(NULL AS TEXT)
WHERE EXISTS (SELECT 1 FROM {{t}}workflow_status
              WHERE queue_name = :{lane} AND status = 'ENQUEUED' {{proof}})
UNION ALL
"""
_TO_STOP = """
SELECT CAST(NULL AS TEXT), execution_id FROM (SELECT execution_id FROM {t}nexus_cancels LIMIT 1000) AS asked
"""


def _prove(database: Database, statement: str) -> sa.TextClause:
    return database.sql(statement.replace("{proof}", database.choose(sqlite=_PROOF, postgres="")))


def waiting(database: Database, lanes: Sequence[str]) -> tuple[set[str], list[str]]:
    """Which lanes have work that waits, and what is to be stopped.

    It is one question, because most sweeps find nothing.
    """
    queues = {f"lane{at}": _QUEUE_PREFIX + lane for at, lane in enumerate(lanes)}
    statement = _prove(database, "".join(_LANE_WAITS.format(lane=lane) for lane in queues) + _TO_STOP)
    rows = database.fetch(statement, queues)
    return {_lane(row[0]) for row in rows if row[0]}, [row[1] for row in rows if row[1]]


def heads(database: Database, lane: str, after: str, visits: int) -> list[tuple[str, str | None]]:
    """Up to `visits` waiting keys after a key, each with the id of its head; None: the key is busy."""
    values = {"queue": _QUEUE_PREFIX + lane, "after": after, "visits": visits}
    return [(row[0], row[1]) for row in database.fetch(_prove(database, _HEADS), values)]


_SCOPES = """
WITH RECURSIVE visited(k, n) AS (
  SELECT (SELECT min(queue_partition_key) FROM {t}workflow_status
          WHERE queue_name = :queue AND status = 'ENQUEUED' {proof}
            AND queue_partition_key > :after), 1
  UNION ALL
  SELECT (SELECT min(queue_partition_key) FROM {t}workflow_status
          WHERE queue_name = :queue AND status = 'ENQUEUED' {proof}
            AND queue_partition_key > substr(visited.k, 1, instr(visited.k, '/') - 1) || '0'), n + 1
  FROM visited WHERE k IS NOT NULL AND n < :visits
)
SELECT substr(k, 1, instr(k, '/') - 1) FROM visited WHERE k IS NOT NULL
"""


def scopes(database: Database, lane: str, after: str, visits: int) -> list[str]:
    """Up to `visits` homes with waiting work after a home, in a database that many share.

    A step goes from one home to the next (`0` follows `/`), however many keys of a home wait.
    """
    values = {"queue": _QUEUE_PREFIX + lane, "after": f"{after}0" if after else "", "visits": visits}
    return [row[0] for row in database.fetch(_prove(database, _SCOPES), values)]


def find_begun_before(database: Database, lane: str, room: int) -> dict[str, str]:
    """What was begun before and given back, one for each key, by its key.

    It need not be the head of its key: an earlier one may have been delayed, and queued again since.
    """
    statement = database.sql(
        """SELECT queue_partition_key, workflow_uuid FROM {t}workflow_status
        WHERE queue_name = :queue AND status = 'ENQUEUED' AND recovery_attempts > 0
        ORDER BY created_at, workflow_uuid LIMIT :room"""
    )
    found: dict[str, str] = {}
    for key, execution_id in database.fetch(statement, {"queue": _QUEUE_PREFIX + lane, "room": room}):
        found.setdefault(key, execution_id)
    return found


def begin(database: Database, execution_ids: Sequence[str], executor_id: str, owner: str) -> set[str]:
    """Take those of some waiting executions that were not cancelled, under a token; returns which."""
    take = database.sql(
        """UPDATE {t}workflow_status
        SET status = 'PENDING', owner_xid = :owner, executor_id = :executor,
          recovery_attempts = recovery_attempts + 1, started_at_epoch_ms = {now}, updated_at = {now}
        WHERE workflow_uuid IN :ids AND status = 'ENQUEUED' RETURNING workflow_uuid""",
        "ids",
    )
    values = {"ids": list(execution_ids), "owner": owner, "executor": executor_id}
    with database.write() as connection:
        return {row[0] for row in connection.execute(take, values)}


# --- Giving back, giving up ---------------------------------------------------------------------------------

# It keeps `recovery_attempts`, which counts how often it began: above 0, it goes first (`find_begun_before`).
_GIVE_BACK = """UPDATE {t}workflow_status
SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL, updated_at = {now}
WHERE status = 'PENDING' AND """
_DROP_STEPS = "DELETE FROM {t}operation_outputs WHERE workflow_uuid"
_RUNNING_IDS = """SELECT workflow_uuid FROM {t}workflow_status
WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL"""
_RUNNING = "s.status = 'PENDING' AND s.queue_partition_key IS NOT NULL"


def find_running(database: Database) -> list[tuple[str, str]]:
    """The executions that are recorded as running, each with its executor."""
    statement = """SELECT workflow_uuid, executor_id FROM {t}workflow_status
    WHERE status = 'PENDING' AND queue_partition_key IS NOT NULL"""
    return [(row[0], row[1]) for row in database.fetch(database.sql(statement))]


def running_among(database: Database, execution_ids: Sequence[str]) -> list[str]:
    """Those of some executions that are recorded as running."""
    statement = (
        "SELECT workflow_uuid FROM {t}workflow_status WHERE workflow_uuid IN :ids AND status = 'PENDING'"
    )
    return [row[0] for row in database.fetch(database.sql(statement, "ids"), {"ids": list(execution_ids)})]


def requeue(database: Database) -> int:
    """Give all that runs back to its queues, and end the right to record it. For the owner, when it stops.

    It hasn't taken its process down: crashes are counted anew.
    """
    forget = f"DELETE FROM {{t}}nexus_crashes WHERE execution_id IN ({_RUNNING_IDS})"
    with database.write() as connection:
        connection.execute(database.sql(forget))
        return connection.execute(database.sql(_GIVE_BACK + "queue_partition_key IS NOT NULL")).rowcount


def put_back(database: Database, execution_id: str, executor_id: str, *, drops_steps: bool = False) -> bool:
    """Give one running execution of an executor back to its queue. False: it is not that executor's."""
    statement = database.sql(_GIVE_BACK + "workflow_uuid = :id AND executor_id = :executor")
    with database.write() as connection:
        is_back = connection.execute(statement, {"id": execution_id, "executor": executor_id}).rowcount > 0
        if is_back and drops_steps:
            connection.execute(database.sql(f"{_DROP_STEPS} = :id"), {"id": execution_id})
        database.notify(connection)
    return is_back


def take_over(database: Database, version: str, most_crashes: int) -> tuple[int, int]:
    """Give back what the last owner left running, for it has crashed, and take over other versions' work.

    What crashed too often in a row is given up; a further recorded step is progress, and the count begins
    anew. What another version recorded starts over, because its steps may not fit this code. Returns how
    many executions were given back and how many given up.
    """
    count = f"""INSERT INTO {{t}}nexus_crashes (execution_id, crashes, steps)
    SELECT s.workflow_uuid, 1, (SELECT count(*) FROM {{t}}operation_outputs AS o
                                WHERE o.workflow_uuid = s.workflow_uuid)
    FROM {{t}}workflow_status AS s WHERE {_RUNNING}
    ON CONFLICT (execution_id) DO UPDATE SET
      crashes = CASE WHEN excluded.steps > nexus_crashes.steps THEN 1 ELSE nexus_crashes.crashes + 1 END,
      steps = excluded.steps"""
    give_up = f"""UPDATE {{t}}workflow_status AS s
    SET status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', owner_xid = NULL, updated_at = {{now}}
    WHERE {_RUNNING}
      AND s.workflow_uuid IN (SELECT execution_id FROM {{t}}nexus_crashes WHERE crashes >= :most)"""
    give_back = _GIVE_BACK + "queue_partition_key IS NOT NULL"
    other = """status IN ('ENQUEUED', 'DELAYED') AND queue_partition_key IS NOT NULL
      AND application_version <> :version"""
    drop = f"{_DROP_STEPS} IN (SELECT workflow_uuid FROM {{t}}workflow_status WHERE {other})"
    adopt = "UPDATE {t}workflow_status SET application_version = :version WHERE " + other
    with database.write() as connection:
        connection.execute(database.sql(count))
        given_up = connection.execute(database.sql(give_up), {"most": most_crashes}).rowcount
        given_back = connection.execute(database.sql(give_back)).rowcount
        connection.execute(database.sql(drop), {"version": version})
        connection.execute(database.sql(adopt), {"version": version})
    return given_back, given_up


def forget_crashes(database: Database, execution_id: str) -> None:
    """Count the crashes of an execution anew."""
    database.change(
        database.sql("DELETE FROM {t}nexus_crashes WHERE execution_id = :id"), {"id": execution_id}
    )


def forget_ended_marks(database: Database) -> None:
    """Drop the crashes that were counted, and the requests to stop, of executions that have ended."""
    for table in ("nexus_crashes", "nexus_cancels"):
        database.change(database.sql(f"DELETE FROM {{t}}{table} WHERE execution_id NOT IN {UNFINISHED}"))


def set_back_delays(database: Database) -> int:
    """Shorten waits that begin in the future, because the clock was set back; returns how many.

    Hosts of one database don't agree on the millisecond, so a moment is not the future yet.
    """
    statement = """UPDATE {t}workflow_status
    SET delay_until_epoch_ms = {now} + delay_until_epoch_ms - updated_at, updated_at = {now}
    WHERE status = 'DELAYED' AND updated_at > {now} + 60000"""
    return database.change(database.sql(statement))


def end_delays(database: Database) -> int:
    """Queue what has waited for its time; returns how many executions that were."""
    due = "status = 'DELAYED' AND delay_until_epoch_ms <= {now}"
    # Mostly there is none, and a look needs no lock.
    if not database.fetch(database.sql(f"SELECT 1 FROM {{t}}workflow_status WHERE {due} LIMIT 1")):
        return 0
    with database.write() as connection:
        statement = database.sql(f"UPDATE {{t}}workflow_status SET status = 'ENQUEUED' WHERE {due}")
        database.notify(connection)
        return connection.execute(statement).rowcount


def next_delayed_ms(database: Database) -> int | None:
    """When the next delay ends."""
    statement = "SELECT min(delay_until_epoch_ms) FROM {t}workflow_status WHERE status = 'DELAYED'"
    return database.fetch(database.sql(statement))[0][0]


def close_given_up(database: Database, execution_id: str) -> bool:
    """Record that a run that crashed its process was dealt with. False: it is none."""
    statement = """UPDATE {t}workflow_status SET status = 'ERROR', completed_at = {now}
    WHERE workflow_uuid = :id AND status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'"""
    return database.change(database.sql(statement), {"id": execution_id}) > 0


# --- What has ended ----------------------------------------------------------------------------------------

_ENDED = "('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')"


def ended_with_step_results(database: Database, batch: int) -> list[str]:
    """Executions that have ended and still hold results of their steps."""
    statement = f"""SELECT DISTINCT o.workflow_uuid FROM {{t}}operation_outputs o
    JOIN {{t}}workflow_status s ON s.workflow_uuid = o.workflow_uuid
    WHERE o.output IS NOT NULL AND s.status IN {_ENDED} LIMIT :batch"""
    return [row[0] for row in database.fetch(database.sql(statement), {"batch": batch})]


def empty_steps(database: Database, execution_ids: Sequence[str]) -> None:
    """Drop the results of steps. Their names and times stay, and whether one failed."""
    statement = """UPDATE {t}operation_outputs
    SET output = NULL, error = CASE WHEN error IS NULL THEN NULL ELSE '' END WHERE workflow_uuid IN :ids"""
    database.change(database.sql(statement, "ids"), {"ids": list(execution_ids)})


def within(column: str, prefix: str) -> tuple[str, dict[str, Any]]:
    """The condition that a column begins with a prefix, and its values; always true without a prefix."""
    if not prefix:
        return "0 = 0", {}
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return f"{column} >= :first AND {column} < :end", {"first": prefix, "end": end}


def find_recorded(database: Database, prefix: str, batch: int) -> list[str]:
    """Executions whose id begins with a prefix, whatever their state."""
    chosen, values = within("workflow_uuid", prefix)
    statement = f"SELECT workflow_uuid FROM {{t}}workflow_status WHERE {chosen} LIMIT :batch"
    return [row[0] for row in database.fetch(database.sql(statement), {**values, "batch": batch})]


def find_ended(
    database: Database, batch: int, *, older_than_ms: int | None = None, prefix: str = ""
) -> list[str]:
    """Executions that have ended; with an age the oldest first, and no dead letters."""
    if older_than_ms is None:
        own, values = within("workflow_uuid", prefix)
        chosen = f"{own} AND status IN {_ENDED}"
    else:
        chosen = """completed_at IS NOT NULL AND completed_at < {now} - :age
          AND status IN ('SUCCESS', 'ERROR', 'CANCELLED') ORDER BY completed_at"""
        values = {"age": older_than_ms}
    statement = database.sql(f"SELECT workflow_uuid FROM {{t}}workflow_status WHERE {chosen} LIMIT :batch")
    return [row[0] for row in database.fetch(statement, {**values, "batch": batch})]


# --- Reading: rows with our names, and parts of statements about our own tables ----------------------------

UNFINISHED: Final = """(SELECT workflow_uuid FROM {t}workflow_status
  WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING'))"""
_STATUSES: Final[dict[str, State]] = {
    "ENQUEUED": "queued",
    "DELAYED": "delayed",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
_STATE = "CASE status " + " ".join(f"WHEN '{a}' THEN '{b}'" for a, b in _STATUSES.items()) + " END"
_LANE = f"substr(queue_name, {len(_QUEUE_PREFIX) + 1})"
_CONDITION_OF: Final[dict[State, str]] = {
    "queued": "status = 'ENQUEUED'",
    "delayed": "status = 'DELAYED'",
    "running": "status = 'PENDING'",
    "done": "status = 'SUCCESS'",
    "failed": "status = 'ERROR' AND o.error LIKE :end",
    "timeout": "status = 'ERROR' AND o.error LIKE :end",
    "cancelled": "(status = 'CANCELLED' OR (status = 'ERROR' AND o.error LIKE :end))",
}


def _work(database: Database) -> str:
    return database.choose(sqlite="json_extract(attributes, '$.work')", postgres="attributes ->> 'work'")


def _lane(queue: str) -> str:
    return queue.removeprefix(_QUEUE_PREFIX)


def given_up(database: Database, limit: int) -> Sequence[Row]:
    """What crashed its process too often, the newest first."""
    statement = f"""SELECT workflow_uuid AS execution_id, {_work(database)} AS work,
      queue_partition_key AS key, recovery_attempts AS starts, created_at, updated_at
    FROM {{t}}workflow_status WHERE status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'
    ORDER BY updated_at DESC LIMIT :limit"""
    return database.fetch(database.sql(statement), {"limit": limit})


def count_given_up(database: Database) -> int:
    statement = "SELECT count(*) FROM {t}workflow_status WHERE status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED'"
    return int(database.fetch(database.sql(statement))[0][0])


def get(database: Database, execution_id: str) -> Row | None:
    """One execution, with the columns of `recent`."""
    found = _executions(database, "s.workflow_uuid = :id", {"id": execution_id, "limit": 1})
    return found[0] if found else None


def recent(
    database: Database, *, state: State | None, lane: str | None, key: str | None, limit: int
) -> Sequence[Row]:
    """Executions, the newest first. Of one that failed, the error says whether it was stopped instead."""
    conditions = ["0 = 0"]
    values: dict[str, Any] = {"limit": limit}
    if state is not None:
        conditions.append(_CONDITION_OF[state])
        if ":end" in _CONDITION_OF[state]:
            values["end"] = serializer.beginning_of_end(state) + "%"
    if lane is not None:
        conditions.append("queue_name = :queue")
        values["queue"] = _QUEUE_PREFIX + lane
    if key is not None:
        conditions.append("queue_partition_key = :key")
        values["key"] = key
    return _executions(database, " AND ".join(conditions), values)


def _executions(database: Database, condition: str, values: dict[str, Any]) -> Sequence[Row]:
    statement = f"""SELECT s.workflow_uuid AS id, {_work(database)} AS work, {_LANE} AS lane,
      queue_partition_key AS key, {_STATE} AS state, executor_id, application_version AS version,
      recovery_attempts AS starts, created_at AS created_ms, started_at_epoch_ms AS started_ms,
      completed_at AS ended_ms, status = 'MAX_RECOVERY_ATTEMPTS_EXCEEDED' AS was_given_up, o.output, o.error
    FROM {{t}}workflow_status s LEFT JOIN {{t}}workflow_output o ON o.workflow_uuid = s.workflow_uuid
    WHERE s.name = '{WORKFLOW}' AND {condition}
    ORDER BY s.created_at DESC, s.workflow_uuid DESC LIMIT :limit"""
    return database.fetch(database.sql(statement), values)


def states(database: Database, execution_ids: Sequence[str]) -> dict[str, State]:
    """The states of those of some executions that are recorded."""
    statement = f"SELECT workflow_uuid, {_STATE} FROM {{t}}workflow_status WHERE workflow_uuid IN :ids"
    rows = database.fetch(database.sql(statement, "ids"), {"ids": list(execution_ids)})
    return {row[0]: row[1] for row in rows}


def steps(database: Database, execution_id: str) -> Sequence[Row]:
    """The recorded steps of one execution, in order."""
    statement = """SELECT function_id AS number, function_name AS name, error IS NOT NULL AS failed,
      started_at_epoch_ms AS started_ms, completed_at_epoch_ms AS ended_ms
    FROM {t}operation_outputs WHERE workflow_uuid = :id ORDER BY function_id"""
    return database.fetch(database.sql(statement), {"id": execution_id})


def find_unfinished(database: Database, after: str, prefix: str, limit: int) -> Sequence[Row]:
    """Executions that have not ended, by id, after an id; only those whose id begins with the prefix."""
    chosen, values = within("workflow_uuid", prefix)
    statement = f"""SELECT workflow_uuid AS id, {_work(database)} AS work, {_LANE} AS lane, {_STATE} AS state
    FROM {{t}}workflow_status
    WHERE status IN ('ENQUEUED', 'DELAYED', 'PENDING') AND name = '{WORKFLOW}'
      AND workflow_uuid > :after AND {chosen}
    ORDER BY workflow_uuid LIMIT :limit"""
    return database.fetch(database.sql(statement), {"after": after, "limit": limit, **values})


def queues(database: Database) -> Sequence[Row]:
    """For each lane and state of what has not ended: how many, over how many keys, and the oldest."""
    statement = f"""SELECT {_LANE} AS lane, {_STATE} AS state, count(*) AS count,
      count(DISTINCT queue_partition_key) AS keys, min(created_at) AS oldest_ms
    FROM {{t}}workflow_status
    WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND queue_partition_key IS NOT NULL
    GROUP BY queue_name, status"""
    return database.fetch(database.sql(statement))
