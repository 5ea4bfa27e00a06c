"""Any program can be an adapter."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from nexus.channels import Delivery, DeliveryError
from nexus.channels.program import Program
from nexus.errors import ConfigError
from nexus.testing.adapter import RecordingInbox

# Writes three lines, one of them no message; then sends everything but what is called "bad".
_PROGRAM = """
import json, os, sys
def tell(**line): print(json.dumps(line), flush=True)
print("starting as", os.environ["ME"], file=sys.stderr)
tell(type="ready", capabilities=["typing", "telepathy"])
tell(type="message", id="1", thread="t", sender="hana", text="Hello")
tell(type="message", id="2", thread="t", sender="hana")
print("no JSON", flush=True)
for line in sys.stdin:
    given = json.loads(line)
    if given["type"] == "accepted" and given["id"] == "1":
        tell(type="message", id="3", thread="t", sender="hana", text="after 1")
    elif given["type"] == "deliver" and given["text"] == "bad":
        tell(type="failed", key=given["key"], reason="I won't", retry=False)
    elif given["type"] == "working":
        tell(type="message", id="4", thread=given["thread"], sender="hana", text=json.dumps(given), edits="1")
    elif given["type"] == "deliver" and given.get("edits"):
        tell(type="delivered", key=given["key"], id=given["edits"])
    elif given["type"] == "deliver" and given["text"] == "end":
        sys.exit(3)
    elif given["type"] == "deliver":
        tell(type="delivered", key=given["key"], id="sent " + given["text"])
"""


async def test_a_program_hands_over_and_sends(tmp_path: Path) -> None:
    program = Program("post", [sys.executable, "-c", _PROGRAM], env={"ME": "a test"}, folder=tmp_path)
    inbox = RecordingInbox()
    running = asyncio.create_task(program.run(inbox))
    async with asyncio.timeout(60):
        await inbox.ready.wait()
        assert await program.deliver(Delivery(key="a", thread="t", text="Hello")) == "sent Hello"
        with pytest.raises(DeliveryError, match="I won't") as raised:
            await program.deliver(Delivery(key="b", thread="t", text="bad"))
        assert raised.value.final
        while len(inbox.messages) < 2:
            await asyncio.sleep(0.01)
        assert [(each.id, each.text) for each in inbox.messages] == [("1", "Hello"), ("3", "after 1")]
        assert inbox.put_aside == ["A message needs `text`, a text"]
        assert program.capabilities == {"typing"}
        await program.show_work("t", "1", ended=False)
        while len(inbox.messages) < 3:
            await asyncio.sleep(0.01)
        assert json.loads(inbox.messages[2].text) == {
            "type": "working",
            "thread": "t",
            "id": "1",
            "ended": False,
        }
        assert inbox.messages[2].edits == "1"
        changed = Delivery(key="d", thread="t", text="Hello", edits="sent Hi")
        assert await program.deliver(changed) == "sent Hi"
        with pytest.raises(DeliveryError, match="ended"):
            await program.deliver(Delivery(key="c", thread="t", text="end"))
        with pytest.raises(ChildProcessError, match="code 3"):
            await running


async def test_a_program_is_stopped_with_its_channel(tmp_path: Path) -> None:
    program = Program("post", [sys.executable, "-c", _PROGRAM], env={"ME": "a test"}, folder=tmp_path)
    inbox = RecordingInbox()
    running = asyncio.create_task(program.run(inbox))
    async with asyncio.timeout(60):
        await inbox.ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    with pytest.raises(DeliveryError):
        await program.deliver(Delivery(key="a", thread="t", text="Hello"))


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    program = Program("post", [str(tmp_path / "nothing")], folder=tmp_path)
    with pytest.raises(ConfigError, match="could not be started"):
        await program.run(RecordingInbox())
    with pytest.raises(ConfigError, match="command"):
        Program("post", [], folder=tmp_path)
