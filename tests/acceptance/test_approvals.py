"""A tool call that waits for the owner goes on waiting after a crash, and is made once."""

import json
from pathlib import Path

import httpx

from acceptance.agents import environment, finish, until, written
from acceptance.running import Served
from nexus.home import Home
from nexus.testing import ModelServer, ToolCall, Turn


def test_a_call_waits_through_a_kill_and_is_made_once_when_it_is_allowed(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    desk = tmp_path / "desk"
    desk.mkdir()
    env = environment(server, NEXUS_TOOLS_ASK="bash", NEXUS_TOOLS_DIRECTORIES=f"{desk}:rw")
    server.script(Turn("", [ToolCall("bash", {"command": "echo made >> made.txt"})]), Turn("It is made."))
    token = {"authorization": f"Bearer {home.token()}"}

    def waiting() -> list[dict[str, object]]:
        return json.loads(finish(home, env, "approvals", "--json").stdout)

    served = Served(home, env, "--port", "0")
    sent = httpx.post(f"{served.url}/api/messages", json={"text": "Make it"}, headers=token, timeout=60)
    run = sent.json()["execution_id"]
    until(waiting)
    (asked,) = waiting()
    served.kill()
    assert waiting() == [asked]

    served = Served(home, env, "--port", "0")
    try:
        assert not (desk / "made.txt").exists()
        told = finish(home, env, "approvals", "allow", str(asked["id"]))
        assert told.stdout == "Allowed once.\n"
        answer = httpx.get(f"{served.url}/api/executions/{run}/result", headers=token, timeout=120)
        assert answer.json()["response"]["content"] == "It is made."
        assert written(desk / "made.txt") == "made\n"
        assert waiting() == []
        again = finish(home, env, "approvals", "deny", str(asked["id"]))
        assert "decided already" in again.stderr
    finally:
        assert served.stop() == 0
