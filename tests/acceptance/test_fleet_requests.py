"""Any host of a fleet answers any request, also while homes move from host to host."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from acceptance.agents import until
from acceptance.fleet import LOOK_S, RunningFleet, RunningHost, ask
from contract.postgres import Postgres
from hosts import write_settings
from nexus.gateway.forwarding import FORWARDED_BY, FORWARDED_TO
from nexus.hosting.fleet.registry import FleetRegistry
from nexus.testing import ModelServer, Turn

_PATIENCE_S = 120


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[RunningFleet]:
    with RunningFleet(tmp_path, postgres) as made:
        yield made


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres
) -> Iterator[tuple[RunningFleet, list[RunningHost], Path]]:
    """Two hosts for the tests that stop neither, and the settings of a home."""
    folder = tmp_path_factory.mktemp("fleet")
    with ModelServer() as server, RunningFleet(folder, postgres, lease_s=60) as fleet:
        server.always(Turn("I see."))
        yield fleet, [fleet.start("host-1"), fleet.start("host-2")], write_settings(folder, server)


@pytest.fixture
def settings(tmp_path: Path, server: ModelServer) -> Path:
    server.always(Turn("I see."))
    return write_settings(tmp_path, server)


def answered(client: httpx.Client, text: str) -> str:
    """Say something and wait for the answer."""
    run = ask(client, "POST", "/api/messages", {"text": text}).json()["execution_id"]
    return ask(client, "GET", f"/api/executions/{run}/result").text


def test_an_admin_manages_the_fleet_at_any_host(
    shared: tuple[RunningFleet, list[RunningHost], Path],
) -> None:
    fleet, hosts, settings = shared
    token = fleet.command("token", "--admin").stdout.strip()
    with fleet.client(hosts[0], "", token) as one, fleet.client(hosts[1], "", token) as two:
        made = one.post("/api/homes", json={"name": "eve", "settings": settings.read_text()})
        assert made.status_code == 201, made.text
        with fleet.client(hosts[1], "eve", made.json()["token"]) as eve:
            assert "I see." in answered(eve, "Hello")
        assert [(each["name"], each["is_alive"]) for each in two.get("/api/hosts").json()["hosts"]] == [
            ("host-1", True),
            ("host-2", True),
        ]
        owner = str(fleet.host_of("eve"))
        wrong = two if owner == "host-1" else one
        assert wrong.put("/api/homes/eve/host", json={}).status_code == 422
        assert wrong.put("/api/homes/eve/host", json={"host": "host-9"}).status_code == 404
        assert wrong.post(f"/api/hosts/{owner}/evacuate").status_code == 409
        assert wrong.post(f"/api/hosts/{owner}/leap").status_code == 422
        assert owner in wrong.get("/", headers={"accept": "text/html"}).text
        assert wrong.delete("/api/homes/eve").status_code == 204
        assert not list((fleet.folder / owner / "homes").iterdir())
        assert wrong.get("/api/homes").json()["homes"] == []


def test_a_request_at_the_wrong_host_is_answered_by_the_right_one(
    shared: tuple[RunningFleet, list[RunningHost], Path],
) -> None:
    fleet, hosts, settings = shared
    token = fleet.add("ada", settings)
    with fleet.client(hosts[0], "ada", token) as one, fleet.client(hosts[1], "ada", token) as two:
        assert "I see." in answered(one, "Hello")
        assert "I see." in answered(two, "Hello again")
        owner = fleet.host_of("ada")
        assert owner in {"host-1", "host-2"}
        # A stream, a page, an upload and a login through the host that doesn't have the home.
        wrong = two if owner == "host-1" else one
        run = wrong.post("/api/messages", json={"text": "And again"}).json()["execution_id"]
        assert "I see." in wrong.get(f"/api/executions/{run}/stream").text
        assert "And again" in wrong.get("/chat/main", headers={"accept": "text/html"}).text
        large = b"x" * 8_000_000
        sent = wrong.post("/api/uploads", params={"name": "large.txt"}, content=large)
        assert sent.status_code < 300, sent.text
        link = wrong.post("/api/login-links").json()["url"]
        wrong.headers.pop("authorization")
        entered = wrong.get("/login", params={"code": link.partition("code=")[2]})
        assert (entered.status_code, "set-cookie" in entered.headers) == (200, True)
        assert wrong.get("/chat/main").status_code == 200
        for host in (one, two):
            host.headers["authorization"] = f"Bearer {'x' * 43}"
            host.cookies.clear()
            assert host.get("/api/home").status_code == 401
    assert fleet.host_of("ada") == owner


def test_a_host_refuses_what_was_passed_on_for_another_that_had_its_address_before(
    tmp_path: Path, postgres: Postgres, shared: tuple[RunningFleet, list[RunningHost], Path]
) -> None:
    fleet, hosts, settings = shared
    token = fleet.add("cyd", settings)
    with (
        FleetRegistry(tmp_path, fleet.url) as ours,
        FleetRegistry(tmp_path, postgres.new_database()) as theirs,
    ):
        shown = [(ours, "host-1"), (ours, "host-2"), (theirs, "host-1")]
        keys = [(registry.host_key(name), registry.authorization(name)) for registry, name in shown]
    answers: list[tuple[int, int]] = []
    for host_key, authorization in keys:
        headers = {FORWARDED_BY: "host-3", FORWARDED_TO: host_key}
        with fleet.client(hosts[0], "cyd", token) as client:
            read = client.get("/api/home", headers=headers)
            deleted = client.delete("/internal/homes/none", headers={"authorization": authorization})
            answers.append((read.status_code, deleted.status_code))
    assert answers == [(200, 204), (421, 401), (421, 401)]


def test_a_home_whose_host_was_killed_is_answered_by_another(fleet: RunningFleet, settings: Path) -> None:
    hosts = {name: fleet.start(name) for name in ("host-1", "host-2")}
    token = fleet.add("ada", settings)
    with fleet.client(hosts["host-1"], "ada", token) as client:
        assert "I see." in answered(client, "Hello")
    owner = fleet.host_of("ada")
    assert owner is not None
    until(lambda: fleet.copied("ada"), every_s=LOOK_S)
    left = next(host for name, host in hosts.items() if name != owner)
    hosts[owner].kill()
    refused: set[int] = set()
    with fleet.client(left, "ada", token) as client:
        deadline = time.monotonic() + _PATIENCE_S
        while (answer := client.get("/api/sessions/main/transcript")).status_code != 200:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            refused.add(answer.status_code)
            assert time.monotonic() < deadline
        assert "Hello" in answer.text
        assert "I see." in answered(client, "Are you there?")
    assert fleet.host_of("ada") == left.name


def test_an_operator_lists_moves_and_evacuates(fleet: RunningFleet, settings: Path) -> None:
    fleet.lease_s = 60  # Nobody waits for its end here, so a busy machine mustn't see it.
    hosts: dict[str, RunningHost] = {name: fleet.start(name) for name in ("host-1", "host-2")}
    token = fleet.add("ada", settings)
    with fleet.client(hosts["host-1"], "ada", token) as client:
        assert "I see." in answered(client, "Hello")
    assert fleet.command("move", "ada", "--to", "host-1").returncode == 0
    assert fleet.host_of("ada") == "host-1"
    assert "No host named host-9" in fleet.command("move", "ada", "--to", "host-9").stderr
    listed = fleet.command("hosts").stdout
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["host-1", "alive", "1"],
        ["host-2", "alive", "0"],
    ]
    refused = fleet.command("evacuate", "host-1")
    assert (refused.returncode, "host-1 is alive" in refused.stderr) == (1, True)
    until(lambda: fleet.copied("ada"), every_s=LOOK_S)
    hosts["host-1"].kill()
    moved = fleet.command("evacuate", "host-1", "--force")
    assert moved.returncode == 0, moved.stderr
    assert fleet.host_of("ada") == "host-2"
    with fleet.client(hosts["host-2"], "ada", token) as client:
        assert "Hello" in client.get("/api/sessions/main/transcript").text
