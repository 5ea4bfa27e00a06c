"""A conversation with a worker, a tool, a failure and an unfinished run is forgotten to the last byte."""

import pytest

from acceptance.agents import rows
from acceptance.program import nexus
from apps import send, settings
from nexus.app import App
from nexus.engine.errors import EndedError
from nexus.home import Home
from nexus.testing import HttpError, ModelServer, Turn
from nexus.testing.model_server.failures import Hold

# In everything that is said on either side, and nowhere else.
_MARK = "Quorblat"


def holding(home: Home) -> set[str]:
    """The files of a home that hold the mark."""
    files = (file for file in home.root.rglob("*") if file.is_file())
    return {
        str(file.relative_to(home.root))
        for file in files
        if _MARK.lower() in file.read_bytes().decode("utf-8", "replace").lower()
    }


def scripted(server: ModelServer) -> None:
    server.when(last_user="the manager").script(
        Turn(f"{_MARK} first", [send("dispatch", text=f"{_MARK} task")]),
        Turn("", [send("wait")]),
        f"{_MARK} is done",
        HttpError("invalid_request", message=f"{_MARK} is not allowed"),
        Turn(f"{_MARK} never ends", faults=[Hold(gate="for ever", after_deltas=1)]),
    )
    server.always(f"{_MARK} found")


async def talk(home: Home, server: ModelServer) -> str:
    """Talk, and stop the program while it answers; returns the thread."""
    async with App(home, settings(server, "anthropic")) as app:
        run = await app.send(f"{_MARK}, says the manager", session_label="chat:1")
        assert f"{_MARK} is done" in (await run.result()).response.content
        failing = await app.send(f"{_MARK} again, says the manager", session_label="chat:1")
        with pytest.raises(EndedError):
            await failing.result()
        await app.send(f"{_MARK} at last, says the manager", session_label="chat:1")
        await server.until(lambda: server.gate("for ever").waiting, 120_000)
        thread = await app.ledgers.events.read(lambda c: c.execute("SELECT id FROM threads").get)
    return str(thread)


async def test_nothing_that_agents_heard_or_said_is_left_after_forgetting(
    home: Home, server: ModelServer
) -> None:
    scripted(server)
    thread = await talk(home, server)
    before = holding(home)
    assert {"data/events.db", "data/agents.db", "data/runtime.db"} <= before
    assert any(name.startswith("run/streams/") for name in before)
    # A worker has its part in it.
    assert len(rows(home, "runtime", "SELECT id FROM dispatches WHERE status = 'done'")) == 1
    assert not any(name.startswith("data/engine.db") for name in before)

    done = nexus(home.root, "forget", "thread", thread, "--yes")
    assert done.returncode == 0, done.stderr
    assert holding(home) == set()
