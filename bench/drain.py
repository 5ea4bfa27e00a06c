"""A backlog survives a kill: how long the restart takes, and how fast the queue drains.

    python bench/drain.py                    prints the figures
    python bench/drain.py --write            and puts them into RESULTS.md
    python bench/drain.py --messages 300     a smaller backlog, for a look

Messages go to `nexus up` over HTTP while the model server, a process of its own, keeps the first of each
session waiting. Then `nexus up` is killed with -9 and started again with a model that answers immediately.
Processor time is measured beside the clock, because it says the same on a busy machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import httpx
from model_server import model_server
from report import Figure, machine, progress, table, write_section

from nexus.home import Home

_KEY = "BENCH_MODEL_KEY"
_LOOK_S = 0.25
_POSTS_AT_ONCE = 10
_WAITING = "SELECT count(*) FROM executions WHERE status IN ('queued', 'running') AND lane = 'chat'"
# A model that answers immediately, and one that never does.
_NEVER = {"text": "ok", "pace": {"before_ms": 3_600_000}}
_SCRIPT = {"rules": [{"when": {"model": "held"}, "always": _NEVER}], "always": {"text": "ok"}}
_ANSWERED = "SELECT count(*), count(DISTINCT reply_to_event_id) FROM events WHERE direction = 'outbound'"


@dataclass(frozen=True, kw_only=True)
class Drained:
    """What was measured."""

    restart_s: float
    restart_processor_s: float
    waiting: int
    drain_s: float
    drain_processor_s: float
    answered: int
    answered_once: int


def measure(messages: int, sessions: int) -> Drained:
    """Fill the queue, kill the process, and watch the next one drain it."""
    with tempfile.TemporaryDirectory() as name, model_server(Path(name), _SCRIPT) as url:
        home = Home(Path(name) / "home")
        environment = _prepare(home, url)
        with _served(home, environment, held=True) as (_, address):
            progress(f"{messages} messages over {sessions} sessions")
            _fill(home, address, messages, sessions)
        waiting = int(_ask(home, "runtime", _WAITING)[0])
        progress(f"killed with {waiting} messages waiting")
        began = time.monotonic()
        with _served(home, environment, held=False) as (pid, _):
            restart_s, restart_processor_s = time.monotonic() - began, _processor_s(pid)
            progress(f"serving again after {restart_s:.1f} s")
            while _ask(home, "runtime", _WAITING)[0]:
                time.sleep(_LOOK_S)
            drain_s = time.monotonic() - began - restart_s
            drain_processor_s = _processor_s(pid) - restart_processor_s
        answered, once = _ask(home, "events", _ANSWERED)
    return Drained(
        restart_s=restart_s,
        restart_processor_s=restart_processor_s,
        waiting=waiting,
        drain_s=drain_s,
        drain_processor_s=drain_processor_s,
        answered=answered,
        answered_once=once,
    )


def figures(found: Drained, messages: int) -> list[Figure]:
    lost = messages - found.answered_once
    rate = found.waiting / found.drain_s
    each_ms = 1000 * found.drain_processor_s / found.waiting
    return [
        Figure("messages accepted, waiting when killed", f"{messages}, {found.waiting}"),
        Figure("lost", str(lost), "0", lost == 0),
        Figure("answered twice", str(found.answered - found.answered_once), "0", found.answered == messages),
        Figure("from the restart until it serves", f"{found.restart_s:.1f} s"),
        Figure("processor time of that", f"{found.restart_processor_s:.1f} s"),
        Figure("drain", f"{rate:.1f} messages/s", "at least 30/s", rate >= 30),
        Figure(
            "processor time of `nexus up` for a message", f"{each_ms:.0f} ms", "at most 33 ms", each_ms <= 33
        ),
    ]


def _prepare(home: Home, url: str) -> dict[str, str]:
    subprocess.run([sys.executable, "-m", "nexus", "--home", str(home.root), "init"], check=True, stdout=-3)
    provider = f'kind = "anthropic"\nbase_url = "{url}"\napi_key = "env:{_KEY}"\n'
    home.config_file.write_text(
        '[models]\nmanager = "held/large"\nwriter = "none"\n'
        f"[providers.held]\n{provider}[providers.free]\n{provider}"
    )
    # An installed program has its bytecode.
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**bare, _KEY: "k"}


@contextmanager
def _served(home: Home, environment: dict[str, str], *, held: bool) -> Generator[tuple[int, str]]:
    """Serve the home; at the end the process is killed."""
    manager = "held/held" if held else "free/large"
    words = [sys.executable, "-m", "nexus", "--home", str(home.root), "up", "--json"]
    up = subprocess.Popen(
        words, env={**environment, "NEXUS_MODELS_MANAGER": manager}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        told = json.loads(up.stdout.readline())
        yield up.pid, str(told["url"])
    finally:
        up.kill()
        up.wait()


def _fill(home: Home, address: str, messages: int, sessions: int) -> None:
    headers = {"Authorization": f"Bearer {home.token()}"}
    with httpx.Client(base_url=address, headers=headers, timeout=120) as client:

        def post(number: int) -> None:
            body = {"text": f"Message {number}", "session": f"s{number % sessions}"}
            client.post("/api/messages", json=body).raise_for_status()

        with ThreadPoolExecutor(_POSTS_AT_ONCE) as pool:
            list(pool.map(post, range(messages)))


def _ask(home: Home, ledger: str, statement: str) -> tuple[int, ...]:
    connection = apsw.Connection(str(home.ledger(ledger)), flags=apsw.SQLITE_OPEN_READONLY)
    with closing(connection):
        connection.set_busy_timeout(30_000)
        found = connection.execute(statement).fetchone()
    assert found is not None
    return tuple(int(str(value)) for value in found)


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found = measure(arguments.messages, arguments.sessions)
    text = table(figures(found, arguments.messages))
    print(text)
    if arguments.write:
        write_section(
            "drain", f"## Draining a backlog after a kill\n\n`python bench/drain.py`. {machine()}\n\n{text}"
        )


if __name__ == "__main__":
    main()
