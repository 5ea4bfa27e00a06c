"""Commands are commands wherever people write: one served home, asked in each way that messages come in."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from acceptance.agents import environment, finish, rows, until
from acceptance.on_channels import HOOK_SECRET, Receiver, post_signed
from acceptance.running import Served, serving
from new_homes import new_home
from nexus.client import Client
from nexus.home import Home
from nexus.testing import Hold, ModelRequest, ModelServer, Turn

ENTRY_POINTS: Final = ("webhook", "program", "run", "client", "api")
# Passes lines on between the home and a socket of the test, and has sent what it is given to send.
_DOOR: Final = """
import json, socket, sys, threading
test = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def tell(line): sys.stdout.write(line); sys.stdout.flush()
def listen():
    for line in test.makefile(): tell(line)
tell('{"type": "ready", "capabilities": []}\\n')
threading.Thread(target=listen, daemon=True).start()
for line in sys.stdin:
    given = json.loads(line)
    if given["type"] == "deliver":
        tell(json.dumps({"type": "delivered", "key": given["key"]}) + "\\n")
        test.sendall(line.encode())
"""


class _Door:
    """The far end of a channel that a program connects."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(120)
        self._lines: Any = None

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    def say(self, id_: str, text: str) -> str:
        """Write as the owner, and wait for the answer."""
        if self._lines is None:
            connection, _ = self._listening.accept()
            with connection:  # the file keeps it open
                connection.settimeout(120)
                self._lines = connection.makefile("rw")
        line = {"type": "message", "id": id_, "thread": "t", "sender": "front door", "text": text}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        return json.loads(self._lines.readline())["text"]

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
        self._listening.close()


@dataclass(kw_only=True)
class _Scene:
    """A served home, and how to say something to it."""

    home: Home
    env: dict[str, str]
    served: Served
    server: ModelServer
    receiver: Receiver
    door: _Door
    ids: Iterator[int] = field(default_factory=count)

    def say(self, entry_point: str, text: str) -> str:
        """What is answered to a text that comes in that way."""
        ways: dict[str, Callable[[str], str]] = {
            "webhook": self._post_hook,
            "program": lambda text: self.door.say(str(next(self.ids)), text),
            "run": self._run,
            "client": lambda text: asyncio.run(self._send(text)),
            "api": self._post,
        }
        return ways[entry_point](text)

    def session(self) -> str:
        """The session that was written to last."""
        ((label,),) = rows(
            self.home, "runtime", "SELECT session_label FROM requests ORDER BY id DESC LIMIT 1"
        )
        return label

    def left(self) -> list[str]:
        """The sessions in which an automation at `command:new` ran."""
        done = finish(self.home, self.env, "automations", "logs", "leaving", "--json")
        return [each["output"].strip() for each in json.loads(done.stdout)]

    def call(self, path: str, message: dict[str, str] | None = None) -> dict[str, Any]:
        """Ask the HTTP API."""
        method = "GET" if message is None else "POST"
        headers = {"authorization": f"Bearer {self.home.token()}"}
        answer = httpx.request(method, f"{self.served.url}{path}", json=message, headers=headers, timeout=120)
        return answer.raise_for_status().json()

    def _post_hook(self, text: str) -> str:
        before = len(self.receiver.got)
        assert post_signed(self.served, str(next(self.ids)), text).status_code == 202
        until(lambda: len(self.receiver.got) > before)
        return self.receiver.texts()[-1]

    def _run(self, text: str) -> str:
        done = finish(self.home, self.env, "run", "--session", "typed", text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def _send(self, text: str) -> str:
        async with Client.connect(self.home) as client:
            return (await (await client.send(text, session_label="scripted")).result()).response.content

    def _post(self, text: str) -> str:
        given = self.call("/api/messages", {"text": text, "session": "posted"})
        run = given["execution_id"]
        if run is None:
            return given["content"]
        return self.call(f"/api/executions/{run}/result")["response"]["content"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Scene]:
    folder = tmp_path_factory.mktemp("commands")
    home, receiver, door = new_home(folder / "home"), Receiver(), _Door()
    (folder / "door.py").write_text(_DOOR)
    command = json.dumps([sys.executable, str(folder / "door.py"), str(door.port)])
    with home.config_file.open("a") as config:
        config.write(
            f'\n[channels.desk]\nkind = "webhook"\nsecret = "env:HOOK_SECRET"\nurl = "{receiver.url}"\n'
            f'owner = ["me"]\n\n[channels.door]\ncommand = {command}\nowner = ["front door"]\n'
        )
    with ModelServer() as server:
        env = environment(server, HOOK_SECRET=HOOK_SECRET)
        _register(home, env, folder)
        with serving(home, env) as served:
            yield _Scene(home=home, env=env, served=served, server=server, receiver=receiver, door=door)
        door.close()
        receiver.close()


def _register(home: Home, env: dict[str, str], folder: Path) -> None:
    script = folder / "leaving.py"
    script.write_text("def run(ctx):\n    print(ctx.request.agent.session_label)\n")
    done = finish(home, env, "automations", "register", str(script), "--hook-point", "command:new")
    assert done.returncode == 0, done.stderr


def _count_messages(request: ModelRequest) -> Turn:
    return Turn(f"I was sent {len(request.json['messages'])}.")


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_commands_are_carried_out_and_not_answered_by_the_model(scene: _Scene, entry_point: str) -> None:
    story = f"Tell the {entry_point} a story"
    scene.server.when(lambda request: story in request.last_user).script(
        Turn("Once upon a time", faults=[Hold(gate=entry_point)])
    )
    scene.server.always(_count_messages)
    asked = len(scene.server.requests)

    told = scene.say(entry_point, "The boat is blue")
    session = scene.session()
    assert "I was sent " in told
    assert "start a new session" in scene.say(entry_point, "/help")
    assert "call Anna" in scene.say(entry_point, "/remind in two hours call Anna")
    assert scene.say(entry_point, "/stop").strip() == "Nothing to stop."
    assert len(scene.server.requests) == asked + 1, "no command reached the model"

    scene.call("/api/messages", {"text": story, "session": session})
    scene.server.wait_until(lambda: scene.server.gate(entry_point).waiting, 120_000)
    assert scene.say(entry_point, "/stop").strip() == "Stopped."

    before = scene.left()
    assert scene.say(entry_point, "/new").startswith("Started a new session")
    assert sorted(scene.left()) == sorted([*before, session]), "`command:new` fires, for that session"
    assert scene.say(entry_point, "What did I say?").strip() == "I was sent 1.", "nothing of before"
