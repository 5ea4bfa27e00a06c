"""Who may run work: an executor with a lease that has not expired.

A lease is renewed by a thread of its own, so a busy event loop does not lose it. When it expires, any
other executor gives its work back to the queues. It has also expired when its process is gone, and when
it lies in the future, because the clock was set back, and nobody renews it. An executor that finds its
own lease gone (it was frozen, or cut off from the database) stops what it runs and goes on under a new
name; a name that lost its lease is never used again, so taking over twice is taking over once.

A process that runs nothing takes a longer lease, so that it renews less often; it shortens it before it
claims anything.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from nexus import ids
from nexus.engine import interior
from nexus.engine.database import Database, moment
from nexus.engine.settings import Settings

_log = logging.getLogger(__name__)
# CLOCK_MONOTONIC stands still while a laptop sleeps; the lease does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# How many times longer a lease is that no work runs under, and how much less often it is renewed.
_IDLE_FACTOR = 5
# How long after its last claim a process counts as idle.
_IDLE_S = 10.0
# Our own renewal wakes us too, if it comes to the notice of this process within this time.
_ECHO_S = 0.1
# Work that takes its process down each time must not do so forever, nor hold up its session.
_MOST_CRASHES = 10


def now_s() -> float:
    return time.clock_gettime(_CLOCK)


class Leases:
    """This process's lease, and the work of those that lost theirs."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        lost: Callable[[], None],
        found: Callable[[], None],
        recorded: threading.Event | None = None,
    ) -> None:
        """`recorded` is set when a process, such as one that is to be taken over later, wrote something."""
        self._database = database
        self._settings = settings
        self._lost = lost
        self._found = found
        self._engine = database.alone()
        self._recorded = recorded or threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._valid_until_s = 0.0
        self._place = _place()
        self._is_long = False
        self._used_s = now_s()
        """When work was last claimed under the lease."""
        self.has_work: Callable[[], bool] = lambda: False
        """Whether work runs under the lease."""
        self._ahead: dict[str, tuple[int, float]] = {}
        """Leases that were renewed in the future: when that was, and since when we know it."""
        self.executor_id = ""

    def start(self) -> None:
        self.acquire()
        self.recover()
        self._thread = threading.Thread(target=self._tend, name="engine-leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the lease back: whatever still runs under it may be taken over at once."""
        self._stopping.set()
        self._recorded.set()
        if self._thread is not None:
            self._thread.join()
        with self._database.write(self._engine) as connection:
            connection.execute(
                self._database.sql("DELETE FROM {t}nexus_leases WHERE executor_id = :id"),
                {"id": self.executor_id},
            )
            interior.requeue(self._database, connection, [self.executor_id])
        self._engine.dispose()

    @property
    def valid(self) -> bool:
        """Whether this process may still act under its lease, by its own clock."""
        return now_s() < self._valid_until_s

    def held_by(self, executor_id: str) -> bool:
        """Whether what was claimed under that name may go on: a new lease does not give old work back."""
        return self.executor_id == executor_id and self.valid

    @property
    def remaining_s(self) -> float:
        return self._valid_until_s - now_s()

    def acquire(self) -> None:
        """Take a lease under a new name."""
        executor_id = ids.new("exr")
        asked_s = now_s()
        with self._database.write(self._engine) as connection:
            connection.execute(
                self._database.sql(
                    """INSERT INTO {t}nexus_leases
                      (executor_id, host, pid, version, started_at, renewed_at, expires_at, place)
                    VALUES (:id, :host, :pid, :version, {now}, {now}, {now} + :lease, :place)"""
                ),
                {
                    "id": executor_id,
                    "place": self._place,
                    "host": socket.gethostname(),
                    "pid": os.getpid(),
                    "version": self._settings.version,
                    "lease": self._settings.lease_ms,
                },
            )
        self.executor_id = executor_id
        self._is_long = False
        self._valid_until_s = asked_s + self._settings.lease_ms / 1000

    def use(self) -> None:
        """Make sure, before a claim, that the work is given back as soon as this process stops answering."""
        self._used_s = now_s()
        if self._is_long:
            self.renew()

    def renew(self) -> bool:
        """Prolong the lease. False: it had expired, and others may have taken the work."""
        asked_s = now_s()
        is_long = not self.has_work() and asked_s - self._used_s > _IDLE_S
        lease_ms = self._settings.lease_ms * (_IDLE_FACTOR if is_long else 1)
        with self._database.write(self._engine) as connection:
            renewed = connection.execute(
                self._database.sql(
                    """UPDATE {t}nexus_leases SET renewed_at = {now}, expires_at = {now} + :lease
                    WHERE executor_id = :id AND expires_at > {now}"""
                ),
                {"id": self.executor_id, "lease": lease_ms},
            ).rowcount
        if renewed:
            self._is_long = is_long
            self._valid_until_s = asked_s + lease_ms / 1000
        return renewed > 0

    def recover(self) -> int:
        """Give back the work of executors without a lease; returns how many executions that were."""
        count = self._take_over() + self._give_back_stray()
        if count:
            self._found()
        return count

    def _take_over(self) -> int:
        """End the leases that have expired, and give back what ran under them."""
        expired = [row for row in self._others() if self._has_expired(row)]
        if not expired:
            return 0
        end = self._database.sql(
            "DELETE FROM {t}nexus_leases WHERE executor_id = :id AND renewed_at = :renewed_at"
        )
        with self._database.write(self._engine) as connection:
            # A renewal under way holds the row: this waits for it, and then finds it renewed.
            ended = [
                row
                for row in expired
                if connection.execute(end, {"id": row.executor_id, "renewed_at": row.renewed_at}).rowcount
            ]
            names = [row.executor_id for row in ended]
            # One that lives on lost its lease, such as a laptop that slept: its work did not kill it.
            crashed = [row.executor_id for row in ended if not self._lives(row)]
            given_up = (
                interior.count_crashes(self._database, connection, crashed, _MOST_CRASHES) if crashed else 0
            )
            count = interior.requeue(self._database, connection, names) if names else 0
        if count:
            _log.warning("took over %d executions of %s", count, ", ".join(sorted(names)))
        if given_up:
            _log.error("gave up on %d executions: their process died %d times", given_up, _MOST_CRASHES)
        return count

    def _give_back_stray(self) -> int:
        """Give back what a process claimed after its lease had ended."""
        names = self._database.sql("SELECT executor_id FROM {t}nexus_leases")
        with self._engine.connect() as connection:
            running = interior.running_executors(self._database, connection)
            # Read after the work: a lease is taken before any work is claimed under it.
            stray = running - {row[0] for row in connection.execute(names)} if running else set[str]()
        if not stray:
            return 0
        with self._database.write(self._engine) as connection:
            return interior.requeue(self._database, connection, stray)

    def _others(self) -> list[Any]:
        statement = self._database.sql(
            """SELECT executor_id, pid, place, renewed_at, expires_at, {now} AS now_ms
            FROM {t}nexus_leases WHERE executor_id <> :own"""
        )
        with self._engine.connect() as connection:
            return list(connection.execute(statement, {"own": self.executor_id}))

    def _has_expired(self, row: Any) -> bool:
        if row.expires_at <= row.now_ms or (row.place == self._place and not _is_alive(row.pid)):
            return True
        if row.renewed_at <= row.now_ms:
            self._ahead.pop(row.executor_id, None)
            return False
        renewed_at, since_s = self._ahead.setdefault(row.executor_id, (row.renewed_at, now_s()))
        if renewed_at != row.renewed_at:
            self._ahead[row.executor_id] = (row.renewed_at, now_s())
            return False
        return now_s() - since_s > (row.expires_at - row.renewed_at) / 1000

    def _lives(self, row: Any) -> bool:
        return bool(row.place == self._place and _is_alive(row.pid))

    def _tend(self) -> None:
        while not self._stopping.wait(self._settings.lease_ms / 5000):
            if self._is_long:
                # Less often, unless others write: they may claim something and go away.
                self._recorded.wait(self._settings.lease_ms / 5000 * (_IDLE_FACTOR - 1))
                if self._stopping.is_set():
                    return
            try:
                if not (self.valid and self.renew()):
                    self._replace()
                if self._is_long:
                    self._stopping.wait(_ECHO_S)
                self._recorded.clear()
                self.recover()
            except (SQLAlchemyError, OSError) as error:
                _log.warning("the lease could not be tended: %s", error)
                if not self.valid:
                    self._lost()

    def _replace(self) -> None:
        """What ran under the lost lease must stop before anything starts under the new one."""
        _log.warning("the lease of %s was lost; its work is stopped", self.executor_id)
        self._valid_until_s = 0.0
        self._lost()
        with self._database.write(self._engine) as connection:
            connection.execute(
                self._database.sql("DELETE FROM {t}nexus_leases WHERE executor_id = :id"),
                {"id": self.executor_id},
            )
            interior.requeue(self._database, connection, [self.executor_id])
        self.acquire()
        self._found()


def live(database: Database) -> list[dict[str, Any]]:
    """Every executor with a lease, as `nexus engine status` shows it."""
    statement = database.sql(
        """SELECT executor_id, host, pid, version, started_at, renewed_at, expires_at
        FROM {t}nexus_leases WHERE expires_at > {now} ORDER BY started_at"""
    )
    with database.read() as connection:
        rows = [dict(row) for row in connection.execute(statement).mappings()]
    moments = ("started_at", "renewed_at", "expires_at")
    return [{**row, **{name: moment(row[name]) for name in moments}} for row in rows]


def forget_crashes(database: Database) -> None:
    """Drop the counts of executions that have ended."""
    statement = f"DELETE FROM {{t}}nexus_crashes WHERE execution_id NOT IN {interior.UNFINISHED}"  # noqa: S608 - names are constants of the program, values are bound
    database.change(database.sql(statement))


def _place() -> str:
    """What a pid means something in: one boot of one machine, and a namespace there."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
