"""`nexus host`: the real program with many homes, killed with work in all of them."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import httpx

from acceptance.agents import rows
from acceptance.program import NEXUS
from hosts import write_settings
from nexus import config
from nexus.broker import invariants
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn, failures

_HOMES = 20
_MESSAGES = 3
_PATIENCE_S = 300


def command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    asked = [str(NEXUS), "host", *arguments, "--root", str(root)]
    return subprocess.run(asked, capture_output=True, text=True, timeout=120)


@contextmanager
def serving(root: Path, *arguments: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """The host, until the context ends; with the port that it listens on."""
    asked = [str(NEXUS), "host", "serve", "--root", str(root), "--json", *arguments]
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["port"]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def said(port: int, name: str, token: str, text: str, key: str) -> str:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/api/messages",
        headers={
            "host": f"{name}.localhost:{port}",
            "authorization": f"Bearer {token}",
            "idempotency-key": key,
        },
        json={"text": text, "session": "main"},
        timeout=120,
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["execution_id"])


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def answers(home: Home) -> list[str]:
    if not home.ledger("events").exists():
        return []
    found = rows(home, "events", "SELECT content FROM events WHERE direction = 'outbound' ORDER BY seq")
    return [str(row[0]) for row in found]


def test_a_killed_host_answers_everything_once_that_was_accepted(tmp_path: Path) -> None:
    root = tmp_path / "host"

    def echo(request: ModelRequest) -> Turn:
        last = json.dumps(request.json["messages"][-1])
        text = next(f"Answer {number}" for number in range(_MESSAGES) if f"Question {number}" in last)
        # Some are answered before the kill, and the others are under way or wait.
        return Turn(text, faults=[] if "Question 0" in last else [failures.Hold(gate="killed")])

    with ModelServer() as server:
        server.always(echo)
        settings = write_settings(tmp_path, server)
        names = [f"home-{number:02}" for number in range(_HOMES)]
        tokens = {
            name: command(root, "add", name, "--settings", str(settings)).stdout.strip() for name in names
        }
        homes = {name: Home(root / "homes" / name) for name in names}
        with serving(root, "--homes", "8") as (process, port):
            with ThreadPoolExecutor(8) as threads:
                asked = [
                    threads.submit(said, port, name, tokens[name], f"Question {number}", f"{name}-{number}")
                    for number in range(_MESSAGES)
                    for name in names
                ]
                for each in asked:
                    each.result()
            until(lambda: all(len(answers(home)) >= 1 for home in homes.values()))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert {len(answers(home)) for home in homes.values()} == {1}
        server.gate("killed").open()
        with serving(root, "--homes", "8"):
            until(lambda: all(len(answers(home)) >= _MESSAGES for home in homes.values()))
        for home in homes.values():
            assert answers(home) == [f"Answer {number}" for number in range(_MESSAGES)]
            engine = Settings.of_home(home, config.load(home.config_file).engine)
            assert invariants.check(home, engine).violations == []


def test_a_host_whose_disk_is_lost_goes_on_from_its_copies(tmp_path: Path) -> None:
    root, copies, names = tmp_path / "host", f"file://{tmp_path}/copies", ("ada", "bert")
    last = "What did I just say?"

    def echo(request: ModelRequest) -> Turn:
        asked = json.dumps(request.json["messages"][-1])
        return Turn("Something", faults=[failures.Hold(gate="lost")]) if last in asked else Turn("I see")

    def copied(name: str, home_id: str) -> bool:
        """Whether the copy of a home has the last message, and the run that is to answer it."""
        found = Path(tmp_path / f"{name}.db")
        found.unlink(missing_ok=True)
        address = f"{copies}/{home_id}/runtime"
        subprocess.run(["litestream", "restore", "-o", str(found), address], capture_output=True, check=False)
        if not found.exists():
            return False
        with closing(apsw.Connection(str(found))) as connection:
            return connection.execute("SELECT count(*) FROM executions WHERE status = 'running'").get == 1

    with ModelServer() as server:
        server.always(echo)
        settings = write_settings(tmp_path, server)
        tokens = {
            name: command(root, "add", name, "--settings", str(settings)).stdout.strip() for name in names
        }
        listed = command(root, "list", "--json").stdout.splitlines()
        ids = {found["name"]: found["id"] for found in map(json.loads, listed)}
        with serving(root, "--copies", copies) as (process, port):
            for name in names:
                said(port, name, tokens[name], f"I am {name}", f"{name}-1")
                until(lambda name=name: len(answers(Home(root / "homes" / name))) == 1)
                said(port, name, tokens[name], last, f"{name}-2")
                until(lambda name=name: copied(name, ids[name]))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(root)
        server.gate("lost").open()
        with serving(root, "--copies", copies) as (_, port):
            for name in names:
                until(lambda name=name: len(answers(Home(root / "homes" / name))) == 2)
                # Its token is as good as before, and what came before the loss isn't taken twice.
                said(port, name, tokens[name], last, f"{name}-2")
        for name in names:
            home = Home(root / "homes" / name)
            assert answers(home) == ["I see", "Something"]
            engine = Settings.of_home(home, config.load(home.config_file).engine)
            assert invariants.check(home, engine).violations == []


def test_a_home_is_added_listed_limited_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "host"
    assert len(command(root, "add", "ada").stdout.strip()) == 43
    again = command(root, "add", "ada")
    assert (again.returncode, "There is a home named ada" in again.stderr) == (1, True)
    assert "can't be the name" in command(root, "add", "Not A Name").stderr
    assert command(root, "list").stdout.split()[::2] == ["ada", "closed"]
    assert "rate_per_s   9" in command(root, "limit", "ada", "--rate-per-s", "9").stdout
    assert len(command(root, "token", "ada", "--read-only", "--rotate").stdout.strip()) == 43
    assert len(command(root, "token", "--admin").stdout.strip()) == 43
    assert command(root, "token").returncode == 2
    with serving(root):
        refused = command(root, "remove", "ada", "--yes")
        assert (refused.returncode, "The host is running" in refused.stderr) == (1, True)
        second = command(root, "serve")
        assert (second.returncode, "already served" in second.stderr) == (1, True)
    assert command(root, "remove", "ada").returncode == 1
    assert command(root, "remove", "ada", "--yes").returncode == 0
    assert list((root / "homes").iterdir()) == []
