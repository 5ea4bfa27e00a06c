"""Work that starts by the clock: schedules in the database, with a policy for missed runs.

Any process that serves may start what is due: it moves the schedule on and records the executions in
one transaction, so a moment is started once, however many look.
"""

import asyncio
import time
from datetime import datetime
from typing import Any

from nexus import clock
from nexus.engine import cron, interior, serializer, tables
from nexus.engine.cron import Schedule
from nexus.engine.database import Database, moment
from nexus.engine.enqueue import CHANNEL
from nexus.engine.failures import translated

# A schedule of every minute that slept for a month must not flood its lane.
_MOST_AT_ONCE = 1_000


class Schedules:
    """The schedules in one database."""

    def __init__(self, database: Database, version: str) -> None:
        self._database = database
        self._version = version

    async def put(self, schedule: Schedule, *, after: datetime | None = None) -> None:
        """Make or change a schedule. An unchanged one keeps its next moment, so nothing is missed."""
        with translated(self._database.settings):
            await asyncio.to_thread(self._put, schedule, after or clock.now())

    async def remove(self, name: str) -> None:
        with translated(self._database.settings):
            await asyncio.to_thread(self._remove, name)

    async def pause(self, name: str, *, paused: bool) -> None:
        """A paused schedule starts nothing; what fell into the pause was missed."""
        with translated(self._database.settings):
            await asyncio.to_thread(self._pause, name, paused)

    def start_due(self, now_ms: int | None = None) -> int:
        """Start what is due; returns how many executions that were. Blocking."""
        now_ms = now_ms or time.time_ns() // 1_000_000
        due = self._database.sql("SELECT * FROM {t}nexus_schedules WHERE next_at <= :now AND paused = 0")
        with self._database.read() as connection:
            rows = connection.execute(due, {"now": now_ms}).mappings().all()
        return sum(self._start(dict(row), now_ms) for row in rows)

    def set_back(self, now_ms: int | None = None) -> int:
        """Correct schedules that wait for too late a moment, because the clock was set back. Blocking."""
        now_ms = now_ms or time.time_ns() // 1_000_000
        move = self._database.sql(
            """UPDATE {t}nexus_schedules SET next_at = :next, updated_at = {now}
            WHERE name = :name AND next_at = :seen"""
        )
        moved = 0
        with self._database.read() as connection:
            rows = connection.execute(self._database.sql("SELECT * FROM {t}nexus_schedules")).mappings().all()
        for row in rows:
            next_at = cron.next_ms(row["cron"], row["zone"], now_ms)
            if next_at < row["next_at"] < cron.NEVER_MS:
                with self._database.write() as connection:
                    values = {"next": next_at, "name": row["name"], "seen": row["next_at"]}
                    moved += connection.execute(move, values).rowcount
        return moved

    def _start(self, row: dict[str, Any], now_ms: int) -> int:
        most = _MOST_AT_ONCE if row["missed"] == "all" else 1
        moments = cron.due(row["cron"], row["zone"], row["next_at"], now_ms, most)
        next_at = cron.next_ms(row["cron"], row["zone"], now_ms)
        chosen = cron.chosen(row["missed"], moments, now_ms)
        move = self._database.sql(
            """UPDATE {t}nexus_schedules SET next_at = :next, updated_at = {now}
            WHERE name = :name AND next_at = :seen AND paused = 0"""
        )
        with self._database.write() as connection:
            values = {"next": next_at, "name": row["name"], "seen": row["next_at"]}
            if connection.execute(move, values).rowcount == 0 or not chosen:
                return 0  # another process was quicker, or it was all missed
            begun = [self._execution(row, at_ms, now_ms) for at_ms in chosen]
            interior.insert(self._database, connection, begun)
            if self._database.is_postgres:
                connection.execute(self._database.sql(f"SELECT pg_notify('{CHANNEL}', 'work')"))
        return len(chosen)

    def _execution(self, row: dict[str, Any], at_ms: int, now_ms: int) -> tables.NewExecution:
        """`late` tells the work that its moment was missed and is made up for."""
        told = {"scheduled_at": moment(at_ms), "late": now_ms - at_ms > cron.ON_TIME_MS}
        payload = {**serializer.loads(row["payload"]), **told}
        return tables.new_execution(
            row["work"], payload, key=f"schedule:{row['name']}", lane=row["lane"], version=self._version
        )

    def _put(self, schedule: Schedule, after: datetime) -> None:
        next_at = cron.first_ms(schedule, int(after.timestamp() * 1000))
        statement = self._database.sql(
            """INSERT INTO {t}nexus_schedules
              (name, cron, zone, work, payload, lane, missed, paused, next_at, updated_at)
            VALUES (:name, :cron, :zone, :work, :payload, :lane, :missed, 0, :next, {now})
            ON CONFLICT (name) DO UPDATE SET
              next_at = CASE
                        WHEN nexus_schedules.cron = excluded.cron AND nexus_schedules.zone = excluded.zone
                        THEN nexus_schedules.next_at ELSE excluded.next_at END,
              cron = excluded.cron, zone = excluded.zone, work = excluded.work, payload = excluded.payload,
              lane = excluded.lane, missed = excluded.missed, updated_at = excluded.updated_at"""
        )
        values: dict[str, Any] = {
            "name": schedule.name,
            "cron": schedule.cron,
            "zone": schedule.zone,
            "work": schedule.work,
            "payload": serializer.dumps(schedule.payload),
            "lane": schedule.lane,
            "missed": schedule.missed,
            "next": next_at,
        }
        with self._database.write() as connection:
            connection.execute(statement, values)

    def _remove(self, name: str) -> None:
        with self._database.write() as connection:
            connection.execute(
                self._database.sql("DELETE FROM {t}nexus_schedules WHERE name = :name"), {"name": name}
            )

    def _pause(self, name: str, paused: bool) -> None:
        with self._database.write() as connection:
            connection.execute(
                self._database.sql("UPDATE {t}nexus_schedules SET paused = :paused WHERE name = :name"),
                {"name": name, "paused": int(paused)},
            )


def listed(database: Database) -> list[dict[str, Any]]:
    """Every schedule, as `nexus engine status` shows it."""
    statement = database.sql(
        "SELECT name, cron, zone, work, lane, missed, paused, next_at FROM {t}nexus_schedules ORDER BY name"
    )
    with database.read() as connection:
        rows = connection.execute(statement).mappings().all()
    return [{**row, "paused": bool(row["paused"]), "next_at": _shown(row["next_at"])} for row in rows]


def _shown(next_ms: int) -> str | None:
    return None if next_ms >= cron.NEVER_MS else moment(next_ms)
