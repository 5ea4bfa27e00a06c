"""Many processes on one database: start them, kill them, freeze them, and read what they left."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from nexus.engine import Settings, records
from nexus.engine.database import Database

_WORKLOAD = Path(__file__).with_name("workload.py")
_TESTS = Path(__file__).parents[1]
_SESSIONS = Path(__file__).with_name("sessions.py")


class Harness:
    """The processes of one test, and what is known about their deaths and freezes."""

    def __init__(
        self, database: str, folder: Path, *, lease_ms: int = 15_000, without: list[str] | None = None
    ):
        self.database = database
        self.evidence = folder / "evidence"
        self.evidence.mkdir()
        self.lease_ms = lease_ms
        self.without = without or []
        self.killed: dict[int, int] = {}
        self.frozen: dict[int, list[tuple[int, int]]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start({"role": "serve"})

    def workers(self, count: int) -> list[subprocess.Popen[bytes]]:
        """Several workers, all of which serve when this returns."""
        started = [self.worker() for _ in range(count)]
        for process in started:
            self.await_line(process, "serving")
        return started

    def producer(self, number: int, **config: Any) -> subprocess.Popen[bytes]:
        return self._start({"role": "produce", "producer": number, **config})

    def both(self, number: int, **config: Any) -> subprocess.Popen[bytes]:
        """A process that starts and runs work; it serves when this returns."""
        process = self._start({"role": "both", "producer": number, **config})
        self.await_line(process, "serving")
        return process

    def sessions(self, role: str, **config: Any) -> subprocess.Popen[bytes]:
        """A process with a session queue over a home."""
        return self._start({"role": role, **config}, program=_SESSIONS)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.killed[process.pid] = time.monotonic_ns()

    @contextmanager
    def freeze(self, process: subprocess.Popen[bytes]) -> Generator[None]:
        """Freeze a process, but not while it writes: that would keep others from opening a SQLite file."""
        self._halt(process)
        while self._is_locked():
            process.send_signal(signal.SIGCONT)
            time.sleep(0.01)
            self._halt(process)
        frozen = time.monotonic_ns()
        yield
        self.frozen.setdefault(process.pid, []).append((frozen, time.monotonic_ns()))
        process.send_signal(signal.SIGCONT)

    def _halt(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _is_locked(self) -> bool:
        """Whether a process writes to the SQLite file right now."""
        if self.database.startswith("postgres"):
            return False
        with closing(sqlite3.connect(self.database, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """All evidence, in the order of time."""
        found: list[dict[str, Any]] = []
        for file in self.evidence.glob("*.jsonl"):
            found += [json.loads(line) for line in file.read_text().splitlines()]
        return sorted(found, key=lambda line: line["ns"])

    def await_line(self, process: subprocess.Popen[bytes], what: str, timeout_s: float = 60) -> None:
        file = self.evidence / f"{process.pid}.jsonl"
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if file.exists() and f'"{what}"' in file.read_text():
                return
            if process.poll() is not None:
                raise AssertionError(f"the process ended with {process.returncode} before it was {what}")
            time.sleep(0.02)
        raise AssertionError(f"the process was not {what} within {timeout_s} s")

    def drain(self, timeout_s: float = 120) -> bool:
        """Wait until nothing waits or runs; False when the time was up first."""
        deadline = time.monotonic() + timeout_s
        database = self.open()
        try:
            while time.monotonic() < deadline:
                if not any(lane["queued"] or lane["running"] for lane in records.queues(database)):
                    return True
                time.sleep(0.1)
            return False
        finally:
            database.close()

    def open(self) -> Database:
        is_url = self.database.startswith("postgres")
        return Database(Settings(database=self.database if is_url else Path(self.database)))

    def _start(self, config: dict[str, Any], program: Path = _WORKLOAD) -> subprocess.Popen[bytes]:
        full = {
            **config,
            "database": self.database,
            "evidence": str(self.evidence),
            "lease_ms": self.lease_ms,
            "without": self.without,
        }
        path = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        with (self.evidence / f"stderr-{len(self._processes)}").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, str(program), json.dumps(full)],
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": path},
            )
        self._processes.append(process)
        return process


class Harnesses:
    """Makes the harness of a test, and stops its processes whatever happens."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self._folder = folder
        self._made: list[Harness] = []

    def __call__(self, *, lease_ms: int = 15_000, without: list[str] | None = None) -> Harness:
        folder = self._folder / f"harness-{len(self._made)}"
        folder.mkdir()
        harness = Harness(self.database, folder, lease_ms=lease_ms, without=without)
        self._made.append(harness)
        return harness

    def stop(self) -> None:
        for harness in self._made:
            harness.stop()
