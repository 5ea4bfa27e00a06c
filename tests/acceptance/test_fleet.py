"""`nexus host serve --fleet`: real hosts on one Postgres, killed and frozen with work under way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.fleet import LOOK_S, holds_second, litestream_of
from acceptance.program import NEXUS, typed
from acceptance.test_host import answers, said, until
from contract.postgres import Postgres
from hosts import write_settings
from nexus import config
from nexus.broker import invariants
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.testing import ModelRequest, ModelServer, Turn, failures

_LEASE_S = 6


class Fleet:
    """Hosts in folders of their own, on one Postgres and one place for copies."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.registry = FleetRegistry(folder / "test", url)

    def root(self, name: str) -> Path:
        return self.folder / name

    def home(self, host: str, name: str) -> Home:
        return Home(self.root(host) / "homes" / name)

    def add(self, name: str, settings: Path) -> str:
        place = ("--root", str(self.root("one")), "--fleet", self.url)
        done = typed("host", "add", name, "--settings", str(settings), *place)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @contextmanager
    def serving(self, name: str, halts: Path | None = None) -> Generator[tuple[subprocess.Popen[str], int]]:
        """A host, until the context ends; its takeovers stop where `halts` says: see `halting_host`."""
        program = [str(NEXUS)]
        if halts is not None:
            program = [sys.executable, "-m", "acceptance.halting_host", str(halts)]
        asked = [*program, "host", "serve", "--root", str(self.root(name)), "--json", "--name", name]
        asked += ["--fleet", self.url, "--copies", f"file://{self.folder}/copies", "--lease-s", str(_LEASE_S)]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=env)
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)  # A test that failed may have frozen it.
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)

    def place(self, name: str, host: str) -> None:
        self.registry.place(self.registry.get_named(name).id, host)

    def owner(self, name: str) -> str | None:
        found = self.registry.get(self.registry.get_named(name).id)
        assert found is not None
        return found.host

    def copied(self, name: str) -> bool:
        """Whether the copy of a home has the first answer and the second question."""
        copy = self.folder / "copies" / self.registry.get_named(name).id / "1"
        return holds_second(copy, "Answer 0", "Question 1")

    def is_alive(self, host: str) -> bool:
        return any(each.name == host and each.is_alive for each in self.registry.hosts())

    def check(self, host: str, name: str, expected: list[str]) -> None:
        """A home has those answers, each once, and its records agree."""
        home = self.home(host, name)
        assert answers(home) == expected
        engine = Settings.of_home(home, config.load(home.config_file).engine)
        assert invariants.check(home, engine).violations == []


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Generator[Fleet]:
    made = Fleet(tmp_path, postgres.new_database())
    with made.registry:
        yield made


def echo(request: ModelRequest) -> Turn:
    """Answers with the number of the question; those after the first wait."""
    last = json.dumps(request.json["messages"][-1])
    number = next(number for number in range(9) if f"Question {number}" in last)
    return Turn(f"Answer {number}", faults=[failures.Hold(gate="held")] if number else [])


def test_homes_of_a_killed_host_go_on_elsewhere_and_what_only_it_had_is_salvaged(
    tmp_path: Path, fleet: Fleet
) -> None:
    names = ("ada", "bert")
    with ModelServer() as server:
        server.always(echo)
        settings = write_settings(tmp_path, server)
        tokens = {name: fleet.add(name, settings) for name in names}
        halts = tmp_path / "halts"
        halts.write_text(json.dumps({fleet.registry.get_named("ada").id: "read the copy back"}))
        with fleet.serving("one") as (one, port), fleet.serving("two", halts) as (_, second_port):
            for name in names:
                fleet.place(name, "one")
                said(port, name, tokens[name], "Question 0", f"{name}-0")
                said(port, name, tokens[name], "Question 1", f"{name}-1")
                until(lambda name=name: answers(fleet.home("one", name)) == ["Answer 0"])
                until(lambda name=name: fleet.copied(name), every_s=LOOK_S)
            # From now on nothing reaches the copies.
            for copying in litestream_of(one):
                os.kill(copying, signal.SIGSTOP)
            for name in names:
                said(port, name, tokens[name], "Question 2", f"{name}-2")
            os.kill(one.pid, signal.SIGKILL)
            one.wait()
            until(lambda: all(fleet.owner(name) == "two" for name in names))
            server.gate("held").open()
            for name in names:
                until(lambda name=name: "Answer 1" in answers(fleet.home("two", name)))
                said(second_port, name, tokens[name], "Question 3", f"{name}-3")
            with fleet.serving("one"):
                for name in names:
                    until(lambda name=name: len(answers(fleet.home("two", name))) >= 4)
                # Messages need not wait until the new owner's copy was read back; their source does.
                assert any((fleet.root("one") / "stale").glob("ada.*"))
                halts.write_text("{}")
                until(lambda: not any((fleet.root("one") / "stale").iterdir()))
                for name in names:
                    # It was salvaged: the same message isn't taken again.
                    said(second_port, name, tokens[name], "Question 2", f"{name}-2")
                    assert not fleet.home("one", name).root.exists()
        for name in names:
            assert sorted(answers(fleet.home("two", name))) == [f"Answer {number}" for number in range(4)]
            fleet.check("two", name, answers(fleet.home("two", name)))


def test_a_home_moves_while_both_hosts_are_alive(tmp_path: Path, fleet: Fleet) -> None:
    with ModelServer() as server:
        server.always(echo)
        token = fleet.add("ada", write_settings(tmp_path, server))
        # The last one to stop keeps the home.
        with fleet.serving("two") as (_, second_port), fleet.serving("one") as (_, port):
            fleet.place("ada", "one")
            said(port, "ada", token, "Question 0", "0")
            until(lambda: answers(fleet.home("one", "ada")) == ["Answer 0"])
            fleet.place("ada", "two")
            until(lambda: fleet.owner("ada") == "two")
            until(lambda: not fleet.home("one", "ada").root.exists())
            server.gate("held").open()
            said(second_port, "ada", token, "Question 1", "1")
            until(lambda: len(answers(fleet.home("two", "ada"))) == 2)
        fleet.check("two", "ada", ["Answer 0", "Answer 1"])


def test_a_host_that_was_frozen_beyond_its_lease_writes_nothing(tmp_path: Path, fleet: Fleet) -> None:
    with ModelServer() as server:
        server.always(echo)
        token = fleet.add("ada", write_settings(tmp_path, server))
        home_id = fleet.registry.get_named("ada").id
        halts, reached = tmp_path / "halts", tmp_path / "halts.reached"
        halts.write_text(json.dumps({home_id: "record what it began with"}))
        # The last one to stop keeps the home.
        with fleet.serving("two", halts) as (_, second_port), fleet.serving("one") as (one, port):
            fleet.place("ada", "one")
            said(port, "ada", token, "Question 0", "0")
            said(port, "ada", token, "Question 1", "1")
            until(lambda: answers(fleet.home("one", "ada")) == ["Answer 0"])
            until(lambda: server.gate("held").waiting > 0)
            until(lambda: fleet.copied("ada"), every_s=LOOK_S)
            copying = litestream_of(one)
            for process in (one.pid, *copying):
                os.kill(process, signal.SIGSTOP)
            # It wakes up in the middle of the takeover, and the answer that it waits for is there.
            until(reached.exists)
            assert fleet.owner("ada") == "two"
            server.gate("held").open()
            for process in (*copying, one.pid):
                os.kill(process, signal.SIGCONT)
            until(lambda: not fleet.home("one", "ada").root.exists())
            # It goes through what it set aside in the order of the names; an empty folder is deleted.
            stale = fleet.root("one") / "stale"
            (stale / "last").mkdir()
            until(lambda: not (stale / "last").exists())
            [aside] = stale.iterdir()
            assert answers(Home(aside)) == ["Answer 0"]
            copies = tmp_path / "copies" / home_id
            assert (copies / "1").is_dir()
            halts.write_text("{}")
            until(lambda: answers(fleet.home("two", "ada")) == ["Answer 0", "Answer 1"])
            said(second_port, "ada", token, "Question 2", "2")
            until(lambda: len(answers(fleet.home("two", "ada"))) == 3)
            until(lambda: not any(stale.iterdir()))
            assert fleet.owner("ada") == "two"
            assert not (copies / "1").exists()
        fleet.check("two", "ada", ["Answer 0", "Answer 1", "Answer 2"])
