"""Work that starts by the clock: schedules in the database, with a policy for missed runs.

Starting what is due moves the schedule on and records the executions in one transaction, so a moment is
started once, however many look.
"""

import asyncio
import logging
import math
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from nexus import clock
from nexus.engine import cron, forgetting, serializer, store
from nexus.engine.claims import Wake
from nexus.engine.cron import Schedule
from nexus.engine.database import Database, moment, translate_errors
from nexus.engine.settings import SEPARATOR, Settings

# A schedule of every minute that slept for a month must not flood its lane.
_MOST_AT_ONCE = 1_000
# `paused` of one that is started once more and then no longer, until it is roused.
_DOZING = 2
_log = logging.getLogger(__name__)
_LOOK_S = 10.0
# How soon after a look the next one may follow, however often something is recorded.
_PAUSE_S = 1.0
_SHORTEST_S = 0.25
_TIDY_EVERY_S = 30.0


class Schedules:
    """The schedules in one database."""

    def __init__(self, database: Database, version: str, prefix: str = "") -> None:
        """`prefix` is what the names of one home begin with, in a database that many homes share."""
        self._database = database
        self._version = version
        self._prefix = prefix

    async def list_schedules(self) -> list[dict[str, Any]]:
        """Every schedule of this home."""
        with translate_errors(self._database.settings):
            rows = await asyncio.to_thread(list_schedules, self._database, self._prefix)
        return [{**row, "name": row["name"].removeprefix(self._prefix)} for row in rows]

    async def doze(self, after: datetime, *, but: str) -> None:
        """Start each schedule once more after that moment, then no longer; those whose name begins so, go on.

        For what a home does by itself: while it is closed, nothing changes in it.
        """
        with translate_errors(self._database.settings):
            await asyncio.to_thread(self._doze, int(after.timestamp() * 1000), but)

    async def rouse(self, now: datetime) -> None:
        """Go on with what dozes."""
        with translate_errors(self._database.settings):
            await asyncio.to_thread(self._rouse, int(now.timestamp() * 1000))

    async def put(self, schedule: Schedule, *, after: datetime | None = None) -> None:
        """Make or change a schedule. An unchanged one keeps its next moment, so nothing is missed."""
        with translate_errors(self._database.settings):
            await asyncio.to_thread(self._put, schedule, after or clock.now())

    async def remove(self, name: str) -> None:
        with translate_errors(self._database.settings):
            await asyncio.to_thread(self._remove, name)

    async def pause(self, name: str, *, paused: bool) -> None:
        """A paused schedule starts nothing; what fell into the pause was missed."""
        with translate_errors(self._database.settings):
            await asyncio.to_thread(self._pause, name, paused)

    def start_due(self, now_ms: int | None = None) -> int:
        """Start what is due; returns how many executions that were. Blocking."""
        now_ms = now_ms or time.time_ns() // 1_000_000
        due = self._database.sql("SELECT * FROM {t}nexus_schedules WHERE next_at <= :now AND paused <> 1")
        with self._database.read() as connection:
            rows = connection.execute(due, {"now": now_ms}).mappings().all()
        return sum(self._start(dict(row), now_ms) for row in rows)

    def next_ms(self) -> int | None:
        """When the next one is due. Blocking."""
        return self._database.fetch(
            self._database.sql("SELECT min(next_at) FROM {t}nexus_schedules WHERE paused <> 1")
        )[0][0]

    def set_back(self, now_ms: int | None = None) -> int:
        """Correct schedules that wait for too late a moment, because the clock was set back. Blocking."""
        now_ms = now_ms or time.time_ns() // 1_000_000
        move = self._database.sql(
            """UPDATE {t}nexus_schedules SET next_at = :next, updated_at = {now}
            WHERE name = :name AND next_at = :seen"""
        )
        moved = 0
        select = self._database.sql("SELECT * FROM {t}nexus_schedules WHERE paused <> 2")
        with self._database.read() as connection:
            rows = connection.execute(select).mappings().all()
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
        is_last = row["paused"] == _DOZING
        next_at = cron.NEVER_MS if is_last else cron.next_ms(row["cron"], row["zone"], now_ms)
        chosen = cron.choose_moments(row["missed"], moments, now_ms)
        move = self._database.sql(
            """UPDATE {t}nexus_schedules SET next_at = :next, updated_at = {now}
            WHERE name = :name AND next_at = :seen AND paused <> 1"""
        )
        with self._database.write() as connection:
            values = {"next": next_at, "name": row["name"], "seen": row["next_at"]}
            if connection.execute(move, values).rowcount == 0 or not chosen:
                return 0  # another process was quicker, or it was all missed
            begun = [self._execution(row, at_ms, now_ms) for at_ms in chosen]
            store.insert(self._database, connection, begun)
            self._database.notify(connection)
        return len(chosen)

    def _execution(self, row: dict[str, Any], at_ms: int, now_ms: int) -> store.NewExecution:
        """`late` tells the work that its moment was missed and is made up for."""
        told = {"scheduled_at": moment(at_ms), "late": now_ms - at_ms > cron.ON_TIME_MS}
        payload = {**serializer.loads(row["payload"]), **told}
        name, prefix = str(row["name"]), ""
        if self._database.settings.scope_limit:
            scope, separator, name = name.partition(SEPARATOR)
            prefix = scope + separator
        return store.new_execution(
            row["work"],
            payload,
            key=f"{prefix}schedule:{name}",
            lane=row["lane"],
            version=self._version,
            id_=prefix + store.new_id(),
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
            "name": self._prefix + schedule.name,
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
            self._database.notify(connection)

    def _remove(self, name: str) -> None:
        with self._database.write() as connection:
            connection.execute(
                self._database.sql("DELETE FROM {t}nexus_schedules WHERE name = :name"),
                {"name": self._prefix + name},
            )

    def _pause(self, name: str, paused: bool) -> None:
        with self._database.write() as connection:
            connection.execute(
                self._database.sql("UPDATE {t}nexus_schedules SET paused = :paused WHERE name = :name"),
                {"name": self._prefix + name, "paused": int(paused)},
            )
            self._database.notify(connection)

    def _doze(self, after_ms: int, but: str) -> None:
        for row in _rows(self._database, self._prefix):
            if row["paused"] == 0 and not row["name"].startswith(self._prefix + but):
                self._move(row, paused=_DOZING, next_at=cron.next_ms(row["cron"], row["zone"], after_ms))

    def _rouse(self, now_ms: int) -> None:
        for row in _rows(self._database, self._prefix):
            if row["paused"] == _DOZING:
                self._move(row, paused=0, next_at=cron.next_ms(row["cron"], row["zone"], now_ms))

    def _move(self, row: dict[str, Any], *, paused: int, next_at: int) -> None:
        move = self._database.sql(
            "UPDATE {t}nexus_schedules SET paused = :paused, next_at = :next WHERE name = :name"
        )
        with self._database.write() as connection:
            connection.execute(move, {"name": row["name"], "paused": paused, "next": next_at})
            self._database.notify(connection)


def list_schedules(database: Database, prefix: str = "") -> list[dict[str, Any]]:
    """Every schedule, as `nexus engine status` shows it; with a prefix, those of one home."""
    return [
        {**row, "paused": row["paused"] == 1, "next_at": _render_moment(row["next_at"])}
        for row in _rows(database, prefix)
    ]


def _rows(database: Database, prefix: str) -> list[dict[str, Any]]:
    chosen, values = store.within("name", prefix)
    statement = database.sql(
        f"""SELECT name, cron, zone, work, lane, missed, paused, next_at FROM {{t}}nexus_schedules
        WHERE {chosen} ORDER BY name"""  # noqa: S608 - names are constants of the program, values are bound
    )
    with database.read() as connection:
        rows = connection.execute(statement, values).mappings().all()
    return [dict(row) for row in rows]


def _render_moment(next_ms: int) -> str | None:
    return None if next_ms >= cron.NEVER_MS else moment(next_ms)


class Upkeep:
    """A task that looks when something is due or was recorded, and now and then."""

    def __init__(self, database: Database, settings: Settings, wake: Wake) -> None:
        self._database = database
        self._settings = settings
        self._wake = wake
        self._schedules = Schedules(database, settings.version)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._tidied_s = -_TIDY_EVERY_S
        self._latest_ms = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._go(), name="engine-upkeep")

    async def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        if self._task is not None:
            await self._task

    async def _go(self) -> None:
        looked_s, due_s = -_PAUSE_S, 0.0
        while True:
            await self._wake.wait_for_upkeep(due_s - time.monotonic())
            with suppress(TimeoutError):
                pause_s = min(looked_s + _PAUSE_S, due_s) - time.monotonic()
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            if self._stopping.is_set():
                return
            looked_s = time.monotonic()
            wait_s = _PAUSE_S
            try:
                started, wait_s = await asyncio.to_thread(self._look)
                if started:
                    self._wake.set()
            except SQLAlchemyError as error:
                _log.warning("upkeep failed, and is tried again: %s", error)
            due_s = time.monotonic() + wait_s

    def _look(self) -> tuple[int, float]:
        """Start what is due; returns how much that was, and after how many seconds to look again."""
        started = self._schedules.start_due() + store.end_delays(self._database)
        if time.monotonic() - self._tidied_s >= _TIDY_EVERY_S:
            self._tidied_s = time.monotonic()
            self._set_back()
            started += store.set_back_delays(self._database)
            store.forget_ended_marks(self._database)
            forgetting.drop_step_results(self._database)
            forgetting.forget_old(self._database, self._settings.retention_days)
        following = [self._schedules.next_ms(), store.next_delayed_ms(self._database)]
        next_s = min((each for each in following if each is not None), default=math.inf) / 1000
        return started, min(max(next_s - time.time(), _SHORTEST_S), _LOOK_S)

    def _set_back(self) -> None:
        """Of many homes, look at every schedule only at the start and after the clock was set back."""
        now_ms = time.time_ns() // 1_000_000
        if not self._settings.scope_limit or now_ms < self._latest_ms or not self._latest_ms:
            self._schedules.set_back()
        self._latest_ms = now_ms
