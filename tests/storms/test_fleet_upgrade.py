"""Hosts of two versions in one fleet: homes go to the newer one without a failed request, and never back."""

import json
import shutil
import threading
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import nexus
from acceptance.fleet import RunningFleet
from acceptance.steady import Steady, until_answered
from acceptance.test_fleet_requests import answered
from nexus.ledgers import migrate

_PATIENCE_S = 120
_VERSION = "99.0.0"
# What an upgrade may add: a table that the older version doesn't know.
_ADDED = "CREATE TABLE upgrade_notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL DEFAULT '') STRICT;\n"


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A folder with the next version of the package, which adds a table to the memory."""
    package = Path(nexus.__file__).parent
    copy = tmp_path / "newer" / "nexus"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    about = copy / "__init__.py"
    about.write_text(about.read_text().replace(f'"{nexus.__version__}"', f'"{_VERSION}"'))
    number = migrate.latest("memory") + 1
    migrations = copy / "ledgers/memory/migrations"
    if not migrations.exists():
        migrations.mkdir()
        shutil.copy(copy / "ledgers/memory/schema.sql", migrations / "0100_baseline.sql")
    (migrations / f"{number:04}_add_upgrade_notes.sql").write_text(_ADDED)
    with (copy / "ledgers/memory/schema.sql").open("a") as schema:
        schema.write(_ADDED)
    return copy.parent


def memory_schema(root: Path, home: str) -> int:
    with closing(apsw.Connection(str(root / "homes" / home / "data" / "memory.db"))) as connection:
        return int(connection.pragma("user_version"))


def test_homes_go_to_the_newer_hosts_under_steady_requests_and_never_back(
    fleet: RunningFleet, settings: Path, newer: Path
) -> None:
    old = [fleet.start("old-1"), fleet.start("old-2")]
    tokens = {name: fleet.add(name, settings) for name in ("ada", "bob")}
    for name, token in tokens.items():
        with fleet.client(old[0], name, token) as client:
            assert "I see." in answered(client, "Hello")
    before = migrate.latest("memory")
    host = fleet.start("new-1", newer)
    versions = {each["name"]: each["version"] for each in hosts(fleet)}
    assert versions == {"old-1": nexus.__version__, "old-2": nexus.__version__, "new-1": _VERSION}

    stop = threading.Event()
    through = [old[1], host]
    steady = [
        Steady(fleet.client(each, name, token), stop) for name, token in tokens.items() for each in through
    ]
    for each in steady:
        each.start()
    try:
        until_answered(steady, 3)
        # Host by host. The second one goes on to answer, for homes that it no longer has.
        for name in ("old-1", "old-2"):
            drained = fleet.command("drain", name)
            assert drained.returncode == 0, drained.stderr
            until_answered(steady, 3)
        old[0].stop()
        until_answered(steady, 3)
    finally:
        stop.set()
        for each in steady:
            each.join()
    assert [wrong for each in steady for wrong in each.wrong] == []
    assert {fleet.host_of(name) for name in tokens} == {"new-1"}
    assert {memory_schema(host.root, name) for name in tokens} == {before + 1}

    # The older one takes none of them: not when it is told to, and not when their host dies.
    assert fleet.command("drain", "old-2", "--undo").returncode == 0
    refused = fleet.command("move", "ada", "--to", "old-2")
    assert refused.returncode == 1
    assert "newer" in refused.stderr
    host.kill()
    with fleet.client(old[1], "ada", tokens["ada"]) as client:
        until = time.monotonic() + 3 * fleet.lease_s
        while time.monotonic() < until:
            assert client.get("/api/sessions").status_code == 503
            time.sleep(0.5)
    assert fleet.host_of("ada") == "new-1"
    fleet.start("new-2", newer)
    with fleet.client(old[1], "ada", tokens["ada"]) as client:
        until = time.monotonic() + _PATIENCE_S
        while client.get("/api/sessions").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.5)
        assert "I see." in answered(client, "Are you there?")


def hosts(fleet: RunningFleet) -> list[dict[str, str]]:
    return [json.loads(line) for line in fleet.command("hosts", "--json").stdout.splitlines()]
