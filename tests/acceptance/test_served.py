"""A home that `nexus up` serves: commands talk through it, it tells what it does, and it stops in order."""

import json
import os
import signal
import socket
from pathlib import Path

import httpx

from acceptance.agents import answers, environment, finish
from acceptance.program import nexus
from acceptance.running import Served, serving
from nexus.gateway.listener import PORT
from nexus.home import Home
from nexus.serving import serving as who_serves
from nexus.testing import Hold, ModelServer, Turn

SECRET_WORDS = "the raspberry password"


def test_commands_talk_through_the_process_that_serves(home: Home, server: ModelServer) -> None:
    env = environment(server)
    server.script("One.", "Two.", "Three.")
    with serving(home, env) as served:
        assert served.told["models"]["manager"] == ["test/large"]
        told = finish(home, env, "run", "--json", f"First: {SECRET_WORDS}")
        assert json.loads(told.stdout)["content"] == "One.", told.stderr
        lines = "second\n/cost\n/trace\n/memory\n/new\nthird\n/nonsense\n"
        done = finish(home, env, "chat", stdin=lines)
        assert done.returncode == 1, "there is no command /nonsense"
        assert done.stdout.startswith("Two.\n1 call: ")
        assert "stage receiveEvent" in done.stdout
        assert done.stdout.endswith("Three.\n")
        assert "Unknown command /nonsense" in done.stderr
        link = finish(home, env, "login").stdout
        assert link.startswith(f"{served.url}/login?code=")
        os.kill(served.pid, signal.SIGSTOP)
        for command in (["run", "Hello"], ["chat"], ["recall", "tea"], ["login"]):
            refused = finish(home, env, *command, stdin="Hello\n")
            assert refused.returncode == 1
            assert f"Process {served.pid}, which serves this home at {served.url}, is stop" in refused.stderr
        os.kill(served.pid, signal.SIGCONT)
        log = finish(home, env, "logs", "--json", "--lines", "1000").stdout
    routes = [json.loads(line).get("route") for line in log.splitlines()]
    assert routes.count("/api/messages") == 3
    assert "a request ended" in log
    assert SECRET_WORDS not in log
    assert who_serves(home) is None
    assert "not served" in finish(home, env, "login").stderr
    assert answers(home) == ["One.", "Two.", "Three."]
    assert "stopped" in finish(home, env, "logs").stdout


def test_what_is_off_is_said_with_why_and_a_killed_one_leaves_nothing_in_the_way(home: Home) -> None:
    first = Served(home, environment(None))
    (off,) = [each for each in first.told["off"] if each["what"] == "answers"]
    assert {"agenda", "memory-injection"} & set(first.told["automations"]) == {"memory-injection"}
    assert "No model configured" in off["why"]
    assert "dashboard" in off["hint"]
    assert "nexus init" in off["hint"]
    assert first.told["warnings"] == []
    first.kill()
    assert who_serves(home) is None
    unpriced = {
        "NEXUS_MODELS_MANAGER": "far/large",
        "NEXUS_PROVIDERS_FAR_BASE_URL": "https://models.example/v1",
    }
    with serving(home, {**environment(None), **unpriced}, "--host", "0.0.0.0") as again:  # noqa: S104 - listening everywhere is what is tested
        reachable, unlimited = again.told["warnings"]
        assert "unencrypted" in reachable
        assert '[prices."far/large"]' in unlimited
        assert again.url.startswith("http://127.0.0.1:")


def test_a_home_whose_usual_port_another_one_has_says_so(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    assert nexus(other.root, "init").returncode == 0
    with serving(home, environment(None)) as one, serving(other, environment(None)) as two:
        for each in (one, two):
            assert each.told["port_taken"] == (not each.url.endswith(f":{PORT}"))
        assert one.told["port_taken"] or two.told["port_taken"]


def test_a_second_signal_ends_it_at_once_while_somebody_waits(home: Home, server: ModelServer) -> None:
    server.script(Turn("Never", faults=[Hold(gate="never")]))
    served = Served(home, environment(server))
    headers = {"authorization": f"Bearer {home.token()}"}
    heard = httpx.post(
        f"{served.url}/api/messages", json={"text": "Wait"}, headers=headers, timeout=60
    ).json()
    server.wait_until(lambda: server.requests, timeout_ms=60_000)
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as waiting:
        path = f"/api/executions/{heard['execution_id']}/result"
        head = (
            f"GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: {headers['authorization']}\r\n\r\n"
        )
        waiting.sendall(head.encode())
        os.kill(served.pid, signal.SIGTERM)
        server.wait_until(lambda: '"stopping"' in _log(home), timeout_ms=60_000)
        assert served.stop() == -signal.SIGTERM
    assert who_serves(home) is None


def _log(home: Home) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in home.logs.iterdir())


def test_a_port_that_is_taken_is_said(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = finish(home, environment(None), "up", "--port", port)
    assert done.returncode == 1
    assert f":{port}: Address already in use" in done.stderr
    assert "--port" in done.stderr
