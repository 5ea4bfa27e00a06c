"""`nexus host`: the real program with many homes, killed with work in all. NEXUS_LONG=1: with 20."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from acceptance.agents import rows
from acceptance.fleet import LOOK_S, holds_second
from acceptance.program import NEXUS, start_program, typed
from delegated import delegated
from hosts import write_settings
from long_form import times
from nexus import config, logs
from nexus.broker import invariants
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn, failures

_HOMES = times(6, long=20)
_OPEN = _HOMES // 2
_MESSAGES = 3
_PATIENCE_S = 300


def command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return typed("host", *arguments, "--root", str(root))


@contextmanager
def serving(
    root: Path, *arguments: str, cgroup: Path | None = None
) -> Generator[tuple[subprocess.Popen[str], int]]:
    """The host, until the context ends; with the port that it listens on."""
    words = ["host", "serve", "--root", str(root), "--json", *arguments]
    if cgroup is None:
        process = start_program(*words, stdout=subprocess.PIPE)
    else:
        join = ["/bin/sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', str(cgroup)]
        process = subprocess.Popen([*join, str(NEXUS), *words], stdout=subprocess.PIPE, text=True)
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


def until(met: Callable[[], bool], *, every_s: float = 0.2) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not met():
        assert time.monotonic() < deadline
        time.sleep(every_s)


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
        with serving(root, "--homes", str(_OPEN)) as (process, port):
            with ThreadPoolExecutor(8) as threads:
                for number in range(_MESSAGES):
                    # All of one before the next: a home answers in the order in which it accepted them.
                    asked = [
                        threads.submit(
                            said, port, name, tokens[name], f"Question {number}", f"{name}-{number}"
                        )
                        for name in names
                    ]
                    for each in asked:
                        each.result()
            until(lambda: all(len(answers(home)) >= 1 for home in homes.values()))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert {len(answers(home)) for home in homes.values()} == {1}
        server.gate("killed").open()
        with serving(root, "--homes", str(_OPEN)):
            until(lambda: all(len(answers(home)) >= _MESSAGES for home in homes.values()))
        for home in homes.values():
            assert answers(home) == [f"Answer {number}" for number in range(_MESSAGES)]
            engine = Settings.of_home(home, config.load(home.config_file).engine)
            assert invariants.check(home, engine).violations == []


def test_a_host_whose_disk_is_lost_goes_on_from_its_copies(tmp_path: Path) -> None:
    root, folder, names = tmp_path / "host", tmp_path / "copies", ("ada", "bert")
    copies = f"file://{folder}"
    last = "What did I just say?"

    def echo(request: ModelRequest) -> Turn:
        asked = json.dumps(request.json["messages"][-1])
        return Turn("Something", faults=[failures.Hold(gate="lost")]) if last in asked else Turn("I see")

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
                until((folder / ids[name] / "events").is_dir)
                # Nothing can be written to the copies for a while: who writes to the home doesn't notice.
                aside = folder.rename(tmp_path / "aside")
                folder.touch()
                said(port, name, tokens[name], last, f"{name}-2")
                refusal = f"{folder}/{ids[name]}/"
                until(lambda text=refusal: any(text in line for line in logs.read(Home(root))))
                folder.unlink()
                aside.rename(folder)
                until(lambda name=name: holds_second(folder / ids[name], "I see", last), every_s=LOOK_S)
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
    removed = command(root, "remove", "ada", "--yes")
    assert (removed.returncode, "are still there" in removed.stderr) == (0, True)
    assert list((root / "homes").iterdir()) == []


def test_the_copies_of_a_home_are_removed_with_it_if_that_is_asked_for(tmp_path: Path) -> None:
    root, copies = tmp_path / "host", tmp_path / "copies"
    tokens = {name: command(root, "add", name).stdout.strip() for name in ("ada", "bob", "cyd")}
    admin = command(root, "token", "--admin").stdout.strip()
    listed = map(json.loads, command(root, "list", "--json").stdout.splitlines())
    ids = {found["name"]: found["id"] for found in listed}
    with serving(root, "--copies", f"file://{copies}") as (_, port):
        for name, token in tokens.items():
            headers = {"host": f"{name}.localhost:{port}", "authorization": f"Bearer {token}"}
            seen = httpx.get(f"http://127.0.0.1:{port}/api/home", headers=headers, timeout=120)
            assert seen.status_code == 200
            until(lambda name=name: (copies / ids[name] / "files").is_dir())
        done = httpx.delete(
            f"http://127.0.0.1:{port}/api/homes/cyd?copies=true",
            headers={"host": f"localhost:{port}", "authorization": f"Bearer {admin}"},
            timeout=120,
        )
        assert done.status_code == 204
    assert not (copies / ids["cyd"]).exists()
    asked = command(root, "remove", "ada", "--yes", "--copies", f"file://{copies}")
    assert (asked.returncode, asked.stderr) == (0, "Deleted ada.\n")
    assert not (copies / ids["ada"]).exists()
    kept = command(root, "remove", "bob", "--yes")
    assert ids["bob"] in kept.stderr
    assert (copies / ids["bob"]).is_dir()


# Every process of it makes more, for as long as it may.
_BOMB = """python3 -c '
import os, time
until = time.monotonic() + 60
while time.monotonic() < until:
    try:
        os.fork()
    except OSError:
        time.sleep(0.1)
'"""


def test_a_fork_bomb_stops_at_the_limit_of_its_home(tmp_path: Path) -> None:
    root, most = tmp_path / "host", 40

    def answer(request: ModelRequest) -> Turn:
        last = json.dumps(request.json["messages"][-1])
        if "Explode" in last:
            return Turn("", [ToolCall("bash", {"command": _BOMB})])
        if "Count" in last:
            return Turn("", [ToolCall("bash", {"command": "echo $((40 + 2)) | cat"})])
        return Turn("It is 42" if "42" in last else "It failed")

    with delegated("pids") as place, ModelServer() as server:
        server.always(answer)
        settings = write_settings(tmp_path, server)
        tokens = {
            name: command(root, "add", name, "--settings", str(settings)).stdout.strip()
            for name in ("ada", "bob")
        }
        command(root, "limit", "ada", "--processes", str(most))
        listed = map(json.loads, command(root, "list", "--json").stdout.splitlines())
        ids = {found["name"]: found["id"] for found in listed}
        with serving(root, cgroup=place) as (process, port):
            assert str(process.pid) in (place / "nexus" / "cgroup.procs").read_text().split()
            said(port, "ada", tokens["ada"], "Explode", "1")
            own = place / f"home-{ids['ada']}"
            until(lambda: own.exists() and int((own / "pids.current").read_text()) == most)
            said(port, "bob", tokens["bob"], "Count", "1")
            until(lambda: answers(Home(root / "homes" / "bob")) == ["It is 42"])
            assert int((own / "pids.current").read_text()) <= most
            assert (own / "pids.events").read_text() != "max 0\n"
            # It goes on for a minute, and nobody waits for that.
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
