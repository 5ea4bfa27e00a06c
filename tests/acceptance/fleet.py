"""Hosts of a fleet as real processes, on one Postgres and one folder of copies."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import httpx

from acceptance.program import NEXUS, typed
from contract.postgres import Postgres

LOOK_S = 1.0
"""Between two looks at a copy: each restores it."""
_ANSWERED = {
    "agents": "SELECT 1 FROM agent_turns WHERE status = 'done'",
    "events": "SELECT 1 FROM events LIMIT 1",
    "runtime": "SELECT 1 FROM executions WHERE status = 'done'",
}


def read_copy(copy: Path, query: str) -> list[Any]:
    """The first column of what the copy of a ledger, as it is restored now, answers; nothing without one."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "ledger.db"
        words = ["litestream", "restore", "-o", str(found), f"file://{copy}"]
        subprocess.run(words, capture_output=True, check=False)
        if not found.exists():
            return []
        with closing(apsw.Connection(str(found))) as connection:
            return [row[0] for row in connection.execute(query).fetchall()]


def ask(
    client: httpx.Client, method: str, path: str, body: object = None, *, patience_s: float = 60.0
) -> httpx.Response:
    """Ask a home, again while it moves or its host is not in the fleet: a busy machine may lose its lease."""
    deadline = time.monotonic() + patience_s
    while (answer := client.request(method, path, json=body)).status_code == 503:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.2)
    assert answer.is_success, answer.text
    return answer


def holds(copy: Path, query: str) -> bool:
    """Whether a question to the copy of a ledger, as it is restored now, has a true answer."""
    return any(read_copy(copy, query))


def holds_second(copy: Path, answer: str, question: str) -> bool:
    """Whether each ledger's copy of a home has the first answer and the second question, which waits."""
    both = "SELECT sum(status = 'done') = 1 AND sum(status = 'running') = 1 FROM"
    wanted = {
        "events": f"SELECT count(*) = 2 FROM events WHERE content IN ('{answer}', '{question}')",
        "runtime": f"{both} executions",
        "agents": f"{both} agent_turns",
    }
    return all(holds(copy / ledger, query) for ledger, query in wanted.items())


def litestream_of(process: subprocess.Popen[str]) -> list[int]:
    """What copies the homes of a host: a process in a group of its own."""
    found: list[int] = []
    # Each may end while it is looked at.
    with suppress(FileNotFoundError, ProcessLookupError):
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"litestream" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


@dataclass(eq=False)
class RunningHost:
    """One `nexus host serve --fleet`."""

    name: str
    root: Path
    process: subprocess.Popen[str]
    port: int

    def stop(self) -> None:
        """As an operator stops it."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)  # A test that failed may have frozen it.
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.communicate(timeout=120)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the host and what it started, as when a machine fails or sleeps."""
        os.killpg(self.process.pid, number)
        for child in litestream_of(self.process):
            with suppress(ProcessLookupError):
                os.kill(child, number)


@dataclass(eq=False)
class RunningFleet:
    """Hosts while the context lasts."""

    folder: Path
    postgres: Postgres
    lease_s: float = 10.0
    idle_s: float = 60.0
    hosts: dict[str, RunningHost] = field(default_factory=dict[str, RunningHost])
    url: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self.url = self.postgres.new_database()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start(self, name: str, program: Path | None = None, halts: Path | None = None) -> RunningHost:
        """A host; with `program`, the package in that folder instead of the one that is tested.

        With `halts`, its takeovers stop where that file says: see `halting_host`.
        """
        root = self.folder / name
        env = os.environ if program is None else {**os.environ, "PYTHONPATH": str(program)}
        nexus = [str(NEXUS)] if program is None else [sys.executable, "-m", "nexus"]
        if halts is not None:
            env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            nexus = [sys.executable, "-m", "acceptance.halting_host", str(halts)]
        command = [*nexus, "host", "serve", "--root", str(root), "--name", name, "--json"]
        command += ["--fleet", self.url, "--copies", f"file://{self.folder}/copies"]
        command += ["--lease-s", str(self.lease_s), "--idle-s", str(self.idle_s)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=env
        )
        assert process.stdout is not None
        made = RunningHost(name, root, process, json.loads(process.stdout.readline())["port"])
        self._stack.callback(made.stop)
        self.hosts[name] = made
        return made

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "NEXUS_HOST": str(self.folder / "operator")}
        return typed("host", *words, "--fleet", self.url, env=env)

    def add(self, name: str, settings: Path) -> str:
        """A home; returns its token."""
        made = self.command("add", name, "--settings", str(settings))
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def host_of(self, home: str) -> str | None:
        listed = self.command("list", "--json")
        assert listed.returncode == 0, listed.stderr
        found = next(each for each in map(json.loads, listed.stdout.splitlines()) if each["name"] == home)
        return found["host"]

    def copied(self, home: str) -> bool:
        """Whether the copy of a home has an answer, in each of the ledgers that tell of it."""
        listed = map(json.loads, self.command("list", "--json").stdout.splitlines())
        id_ = next(each["id"] for each in listed if each["name"] == home)
        newest = max((self.folder / "copies" / id_).iterdir(), key=lambda epoch: int(epoch.name))
        return all(holds(newest / ledger, query) for ledger, query in _ANSWERED.items())

    def client(self, host: RunningHost, home: str, token: str, **headers: str) -> httpx.Client:
        """Of a home, through one of the hosts."""
        name = f"{home}.localhost" if home else "localhost"
        given = {"host": f"{name}:{host.port}", "authorization": f"Bearer {token}", **headers}
        return httpx.Client(base_url=f"http://127.0.0.1:{host.port}", headers=given, timeout=120)
