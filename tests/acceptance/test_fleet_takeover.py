"""A home survives its next owner, wherever in a takeover it dies, and whatever a host that wakes does.

NEXUS_LONG=1: it dies after each of the steps.
"""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from acceptance.agents import until
from acceptance.fleet import LOOK_S, RunningFleet, ask, holds
from acceptance.halting_host import STEPS
from contract.postgres import Postgres
from hosts import write_settings
from long_form import times
from nexus import logs
from nexus.home import Home
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.testing import ModelServer, Turn

_SHORT = {"acquire", "record what it began with", "copy", "read the copy back", "drop older copies"}


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[RunningFleet]:
    # The homes stay open, so whoever takes over opens them.
    with RunningFleet(tmp_path, postgres, lease_s=20, idle_s=3600) as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path, server: ModelServer) -> Path:
    server.always(Turn("I see."))
    return write_settings(tmp_path, server)


def say(client: httpx.Client, text: str) -> None:
    """Say something and wait for the answer."""
    client.headers["idempotency-key"] = text
    run = ask(client, "POST", "/api/messages", {"text": text, "session": "main"}).json()["execution_id"]
    assert "I see." in ask(client, "GET", f"/api/executions/{run}/result").text


def read_transcript(client: httpx.Client) -> list[str]:
    """What was said in a home, as soon as it is available."""
    items = ask(client, "GET", "/api/sessions/main/transcript").json()["items"]
    # What Nexus adds to a message comes before it.
    return [each["content"].rpartition("\n")[2] for each in items]


def test_no_home_is_lost_wherever_its_next_owner_dies(
    fleet: RunningFleet, settings: Path, tmp_path: Path
) -> None:
    """Each home stops after another step; then the old owner wakes, and the new one dies with its disk."""
    one = fleet.start("one")
    steps = sorted(_SHORT, key=list(STEPS).index) if times(1, long=0) else list(STEPS)
    names = [f"home-{number:02}" for number in range(len(steps))]
    tokens = {name: fleet.add(name, settings) for name in names}
    for name in names:
        with fleet.client(one, name, tokens[name]) as client:
            say(client, "Hello")
    until(lambda: all(map(fleet.copied, names)), every_s=LOOK_S)
    with FleetRegistry(tmp_path, fleet.url) as registry:
        ids = {name: registry.get_named(name).id for name in names}
        halts, reached = tmp_path / "halts", tmp_path / "halts.reached"
        halts.write_text(json.dumps(dict(zip(ids.values(), steps, strict=True))))
        two = fleet.start("two", halts=halts)
        one.signal(signal.SIGSTOP)
        until(lambda: reached.exists() and set(reached.read_text().split()) == set(ids.values()))
        # One of them answers again, and dies before an older copy is deleted: both are complete.
        served = names[steps.index("read the copy back")]
        with fleet.client(two, served, tokens[served]) as client:
            say(client, "And now?")
        newest = tmp_path / "copies" / ids[served] / "2"
        until(lambda: holds(newest / "events", "SELECT count(*) = 4 FROM events"), every_s=LOOK_S)
        one.signal(signal.SIGCONT)
        # It goes through what it set aside in the order of the names, and may delete the last.
        until(lambda: not any((one.root / "homes").iterdir()))
        until(lambda: not any((one.root / "stale").glob(f"{names[-1]}.*")))
        two.kill()
        shutil.rmtree(two.root)
        shutil.rmtree(newest / "memory")
        # Why it can't be opened is told; then it begins with the older copy, and the rest is salvaged.
        problem = f"The copy at file://{newest}/memory can't be read"
        until(lambda: problem in fleet.command("list").stdout, every_s=LOOK_S)
        assert any(problem in line for line in logs.read(Home(one.root)))
        for name in names:
            with fleet.client(one, name, tokens[name]) as client:
                assert read_transcript(client)[:2] == ["Hello", "I see."], name
                if name == served:
                    until(lambda client=client: read_transcript(client)[2:] == ["And now?", "I see."])
                say(client, "Are you there?")
        assert problem not in fleet.command("list").stdout
        # Attempts that failed took no epochs. A host that is too slow to renew its lease joins again.
        with psycopg.connect(fleet.url) as connection:
            taken = connection.execute("SELECT home_id, incarnation FROM nexus_fleet.epochs").fetchall()
        assert len(taken) == len(set(taken))
        # Once the copies of the new owner were read back, nothing else is left.
        copies = tmp_path / "copies"
        until(lambda: sorted(each.parent.name for each in copies.glob("*/*")) == sorted(ids.values()))
        until(lambda: not any((one.root / "stale").iterdir()))
