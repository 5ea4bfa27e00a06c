"""Hosts of a fleet are killed, frozen, wiped and cut off from Postgres and the copies, also in takeovers.

NEXUS_LONG=1: 30 homes and 40 rounds. NEXUS_SEED=… repeats a run; NEXUS_HOMES and NEXUS_ROUNDS set its size.
"""

import faulthandler
import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import apsw
import httpx
import psycopg

from acceptance.agents import rows
from acceptance.fleet import RunningFleet, RunningHost, read_copy
from acceptance.halting_host import STEPS
from hosts import write_settings
from long_form import times
from nexus import clock, config
from nexus.broker import invariants
from nexus.engine.settings import Settings
from nexus.home import Home
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.testing import ModelRequest, ModelServer, Turn

_HOMES = int(os.environ.get("NEXUS_HOMES", times(6, long=30)))
_ROUNDS = int(os.environ.get("NEXUS_ROUNDS", times(7, long=40)))
_PAUSE_S = 0.3 * _HOMES / 6, 3.0 * _HOMES / 6
"""Of each sender, so that the load is the same with any number of homes."""
_AWAY_S = times(8, long=30)
_AVAILABLE_S = 60.0
_SETTLED_S = 300.0


def _tell(line: str) -> None:
    """Say where the storm is, and with which seed, to whoever runs it."""
    print(line, flush=True)  # noqa: T201 - shown with `pytest -s`, or when it fails


def _answer(request: ModelRequest) -> Turn:
    last = json.dumps(request.json["messages"][-1])
    return Turn(f"Answer to {last.partition('Message ')[2].split('.')[0]}")


@dataclass(eq=False)
class _Sender(threading.Thread):
    """Writes to one home, through whichever host answers, until it is stopped."""

    storm: "_Storm"
    home: str
    token: str
    accepted: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        chance = random.Random(self.home)
        number = 0
        while not self.storm.is_over.is_set():
            name = f"{self.home}-{number}"
            body = {"text": f"Message {name}.", "session": "main"}
            with suppress(httpx.HTTPError):
                answer = self.storm.ask(self, "POST", "/api/messages", body, {"idempotency-key": name})
                if answer.status_code == 202:
                    self.accepted.add(name)
                    number += 1
            self.storm.is_over.wait(chance.uniform(*_PAUSE_S))


class _Storm:
    """A fleet under load, and what is done to it."""

    def __init__(self, fleet: RunningFleet, settings: Path, seed: int) -> None:
        self.fleet = fleet
        self.chance = random.Random(seed)
        self.is_over = threading.Event()
        self.lost: set[str] = set()
        """What was on a disk only that was lost."""
        self.violations: list[str] = []
        self.struck: Counter[str] = Counter()
        self._has_copies = True
        self._copies = fleet.folder / "copies"
        for name in ("one", "two", "three"):
            self._start(name)
        self.senders = [
            _Sender(self, name, fleet.add(name, settings)) for name in (f"home-{n:02}" for n in range(_HOMES))
        ]
        self.registry = FleetRegistry(fleet.folder, fleet.url)

    def ask(
        self, sender: _Sender, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        host = random.choice(list(self.fleet.hosts.values()))
        with self.fleet.client(host, sender.home, sender.token, **(headers or {})) as client:
            return client.request(method, path, json=body, timeout=20)

    def watch(self) -> None:
        """No copy is deleted before its successor is whole."""
        statement = "SELECT home_id, epoch FROM nexus_fleet.epochs WHERE copy IN ('complete', 'checked')"
        missing: set[str] = set()
        while not self.is_over.wait(0.5):
            found: dict[str, list[int]] = {}
            with suppress(psycopg.Error), psycopg.connect(self.fleet.url, connect_timeout=5) as connection:
                for home, epoch in connection.execute(statement):
                    found.setdefault(home, []).append(epoch)
            now = {
                home
                for home, epochs in found.items()
                if not any((self._copies / home / str(epoch)).is_dir() for epoch in epochs)
            }
            if self._has_copies:
                self.violations += [f"no copy of {home}: {found[home]}" for home in now & missing]
                missing = now

    # What is done.

    def kill(self) -> None:
        host = self._choose()
        host.kill()
        self.chance.choice((lambda: None, self._outlast))()
        self._start(host.name)

    def wipe(self) -> None:
        host = self._choose()
        self._lose(host)
        self.chance.choice((lambda: None, self._outlast))()
        self._start(host.name)

    def freeze(self) -> None:
        host = self._choose()
        with self._frozen(host):
            self._outlast()

    def halt(self) -> None:
        """A host is killed; one that takes over is frozen after a step, and wakes, or dies with its disk."""
        step = self.chance.choice(list(STEPS))
        # One that has homes: otherwise nobody takes anything over.
        first = self.fleet.hosts[self.owner_of(self.chance.choice(self.senders))]
        for name in self.fleet.hosts:
            if name != first.name:
                self._halts(name).write_text(json.dumps({"*": step}))
        first.kill()
        deadline = time.monotonic() + 6 * self.fleet.lease_s
        while time.monotonic() < deadline and not self._stopped():
            time.sleep(0.2)
        for name in self.fleet.hosts:
            self._halts(name).write_text("{}")
        end = self.chance.choice(("wake", "wake late", "lose"))
        halted = [each.name for each in self._stopped()]
        _tell(f"  {halted} halted after {step!r}: {end}")
        self.struck["a takeover halted" if halted else "no takeover halted"] += 1
        if end == "wake late":
            self._outlast()
        for host in self._stopped():
            if end == "lose":
                self._lose(host)
                self._start(host.name)
            else:
                host.signal(signal.SIGCONT)
        self._start(first.name)

    def take_copies_away(self) -> None:
        """Copies can be neither read nor written."""
        self._has_copies = False
        aside = self._copies.with_name("copies-aside")
        self._copies.rename(aside)
        self._copies.touch()
        try:
            host = self._choose()
            host.kill()
            time.sleep(_AWAY_S)
        finally:
            self._copies.unlink()
            aside.rename(self._copies)
            self._has_copies = True
        self._start(host.name)

    def take_postgres_away(self) -> None:
        self.fleet.postgres.pause()
        try:
            time.sleep(_AWAY_S)
        finally:
            self.fleet.postgres.resume()

    # Parts of it.

    def owner_of(self, sender: _Sender) -> str:
        """The host that owns a home. It has one, because homes are placed before anything happens."""
        host = self.registry.get_named(sender.home).host
        assert host is not None
        return host

    def _choose(self) -> RunningHost:
        return self.chance.choice(list(self.fleet.hosts.values()))

    def _halts(self, name: str) -> Path:
        return self.fleet.folder / f"halts-{name}"

    def _start(self, name: str) -> None:
        self._halts(name).write_text("{}")
        self.fleet.start(name, halts=self._halts(name))

    def _stopped(self) -> list[RunningHost]:
        def is_stopped(host: RunningHost) -> bool:
            with suppress(OSError):
                state = Path(f"/proc/{host.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
                return state == "T"
            return False

        return [host for host in self.fleet.hosts.values() if is_stopped(host)]

    @contextmanager
    def _frozen(self, host: RunningHost) -> Generator[None]:
        host.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            host.signal(signal.SIGCONT)

    def _outlast(self) -> None:
        time.sleep(self.fleet.lease_s * self.chance.uniform(1.2, 2.5))

    def _lose(self, host: RunningHost) -> None:
        """A host with its disk. What was on no other disk and in no complete copy is lost with it."""
        host.kill()
        others = [each.root for each in self.fleet.hosts.values() if each is not host]
        for sender in self.senders:
            only_here = _find_messages([host.root], sender.home) - _find_messages(others, sender.home)
            id_ = self.registry.get_named(sender.home).id
            for epoch in self.registry.copies(id_) if only_here else ():
                copy = self._copies / id_ / str(epoch) / "events"
                only_here -= set(read_copy(copy, "SELECT content FROM events"))
            # Also what its sender has yet to hear of.
            self.lost |= {each.removeprefix("Message ").removesuffix(".") for each in only_here}
        shutil.rmtree(host.root)


def _find_messages(hosts: list[Path], name: str) -> set[str]:
    """What a home received, by what the folders of hosts have of it."""
    found: set[str] = set()
    for host in hosts:
        for folder in (host / "homes" / name, *host.glob(f"stale/{name}.*"), *host.glob(f"kept/{name}.*")):
            with suppress(apsw.Error):  # one that is just being made
                received = rows(
                    Home(folder), "events", "SELECT content FROM events WHERE direction = 'inbound'"
                )
                found |= {content for (content,) in received}
    return found


def test_no_home_is_lost_stuck_or_doubled_whatever_happens_to_its_hosts(
    fleet: RunningFleet, tmp_path: Path
) -> None:
    # Its long form outlasts the ten minutes after which a test counts as hung.
    faulthandler.cancel_dump_traceback_later()
    seed = int(os.environ.get("NEXUS_SEED", clock.now().strftime("%Y%m%d")))
    _tell(f"NEXUS_SEED={seed}, {_HOMES} homes, {_ROUNDS} rounds")
    fleet.lease_s = 10.0
    with ModelServer() as server:
        server.always(_answer)
        storm = _Storm(fleet, write_settings(tmp_path, server), seed)
        faults = [storm.kill, storm.wipe, storm.freeze, storm.halt, storm.halt, storm.take_copies_away]
        faults.append(storm.take_postgres_away)
        watching = threading.Thread(target=storm.watch, daemon=True)
        with storm.registry:
            for sender, host in zip(storm.senders, cycle(list(fleet.hosts)), strict=False):
                storm.registry.place(storm.registry.get_named(sender.home).id, host)
            watching.start()
            for sender in storm.senders:
                sender.start()
            for number in range(_ROUNDS):
                time.sleep(storm.chance.uniform(2, 8))
                fault = faults[number % len(faults)] if number < len(faults) else storm.chance.choice(faults)
                accepted = sum(len(each.accepted) for each in storm.senders)
                _tell(f"{time.strftime('%H:%M:%S')} round {number}: {fault.__name__}, {accepted} accepted")
                fault()
                storm.struck[fault.__name__] += 1
                assert storm.violations == []

            with ThreadPoolExecutor(len(storm.senders)) as pool:
                waits = list(pool.map(partial(_wait_until_available, storm), storm.senders))
            _tell(f"available {max(waits):.1f} s after the last fault")
            assert max(waits) < fleet.lease_s + _AVAILABLE_S
            storm.is_over.set()
            for thread in (*storm.senders, watching):
                thread.join()
            deadline = time.monotonic() + _SETTLED_S
            for sender in storm.senders:
                wanted = sender.accepted - storm.lost
                while missing := wanted - set(_answers(storm, sender)):
                    assert time.monotonic() < deadline, (sender.home, sorted(missing))
                    time.sleep(0.5)
            owners = {each.home: storm.owner_of(each) for each in storm.senders}
            for host in fleet.hosts.values():
                host.signal(signal.SIGCONT)
        total = sum(len(each.accepted) for each in storm.senders)
        _tell(f"{total} accepted, {len(storm.lost)} in no copy, {dict(storm.struck)}")
        for host in list(fleet.hosts.values()):
            host.kill()
        for sender in storm.senders:
            home = Home(fleet.folder / owners[sender.home] / "homes" / sender.home)
            said = rows(home, "events", "SELECT direction, content FROM events")
            counts = Counter(said)
            assert {key: count for key, count in counts.items() if count > 1} == {}
            engine = Settings.of_home(home, config.load(home.config_file).engine)
            assert invariants.check(home, engine).violations == []
    assert storm.violations == []


def _wait_until_available(storm: _Storm, sender: _Sender) -> float:
    """Ask for a home until it answers, or has not for much too long; return the seconds it took."""
    began = time.monotonic()
    while time.monotonic() - began < _SETTLED_S:
        with suppress(httpx.HTTPError):
            if storm.ask(sender, "GET", "/api/home").status_code == 200:
                break
    return time.monotonic() - began


def _answers(storm: _Storm, sender: _Sender) -> list[str]:
    """The messages that have an answer."""
    found: list[str] = []
    cursor = ""
    while True:
        try:
            page = storm.ask(sender, "GET", f"/api/sessions/main/transcript?limit=100{cursor}")
        except httpx.HTTPError:
            continue
        if page.status_code != 200:
            time.sleep(0.2)
            continue
        said = [str(item["content"]) for item in page.json()["items"] if item["role"] == "assistant"]
        found += [each.removeprefix("Answer to ") for each in said]
        if not page.json().get("next"):
            return found
        cursor = f"&cursor={page.json()['next']}"
