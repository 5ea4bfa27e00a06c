"""The real program with an agent in it, on a model server of the test."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw

from acceptance.program import start_program, typed
from nexus.home import Home
from nexus.testing import ModelServer

# Seconds that a loaded machine may take to start the program and answer.
PATIENCE_S = 120
PATIENCE_MS = PATIENCE_S * 1000


def environment(server: ModelServer | None, wire: str = "anthropic", **more: str) -> dict[str, str]:
    """The variables of a program whose models are on that server."""
    bare = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    if server is None:
        return {**bare, **more}
    return {
        **bare,
        "NEXUS_MODELS_MANAGER": "test/large",
        # A test of the memory writer turns it on.
        "NEXUS_MODELS_WRITER": "none",
        "NEXUS_PROVIDERS_TEST_KIND": wire,
        "NEXUS_PROVIDERS_TEST_BASE_URL": server.url if wire == "anthropic" else server.openai_url,
        "NEXUS_ENGINE_LEASE_MS": "30000",
        "NEXUS_AGENTS_OUTAGE_MS": "0",
        **more,
    }


def start(home: Home, env: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Begin a command that gets no input."""
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    return start_program("--home", str(home.root), *arguments, env=env, stdin=null, stdout=pipe, stderr=pipe)


def finish(
    home: Home, env: dict[str, str], *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return typed("--home", str(home.root), *arguments, stdin=stdin, env=env)


def kill_when(server: ModelServer, process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Kill -9 at that moment."""
    try:
        server.wait_until(condition, PATIENCE_MS)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL


def until(done: Callable[[], object], *, every_s: float = 0.05) -> None:
    """Wait for something that another process does. A costly look is taken less often."""
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, "it did not come"
        time.sleep(every_s)


def rows(home: Home, ledger: str, query: str) -> list[tuple[Any, ...]]:
    """Ask a ledger of a home that nobody serves."""
    connection = apsw.Connection(str(home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(30_000)
    try:
        return cast("list[tuple[Any, ...]]", connection.execute(query).fetchall())
    finally:
        connection.close()


def answers(home: Home) -> list[str]:
    """What the agent said to people, in order."""
    found = rows(home, "events", "SELECT content FROM events WHERE direction = 'outbound' ORDER BY seq")
    return [str(row[0]) for row in found]


def written(path: Path) -> str:
    return path.read_text(encoding="utf-8")
