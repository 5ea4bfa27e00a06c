"""Tools that ask first."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from apps import settings
from nexus.app import App
from nexus.broker import approvals
from nexus.broker.approvals import Decision
from nexus.config import ToolsConfig
from nexus.engine.errors import WorkCancelledError
from nexus.home import Home
from nexus.ledgers.runtime.approvals import Approval
from nexus.runs import Run
from nexus.testing import ModelServer, ToolCall, Turn


def app_asking(home: Home, server: ModelServer, *ask: str, directories: tuple[str, ...] = ()) -> App:
    return App(home, replace(settings(server), tools=ToolsConfig(ask=ask, directories=directories)))


def _desk(folder: Path) -> Path:
    (folder / "desk").mkdir()
    return folder / "desk"


def calls(*commands: str) -> Turn:
    return Turn("", [ToolCall("bash", {"command": command}) for command in commands])


async def _asked(app: App, session: str = "main") -> Approval:
    async with asyncio.timeout(60):
        while not (found := await app.broker.approvals.waiting(session)):
            await asyncio.sleep(0.02)
    return found[0]


async def _decided(app: App, run: Run, decision: Decision) -> Approval:
    waiting = await _asked(app)
    await app.broker.approvals.decide(waiting.id, decision)
    await run.result()
    return await app.broker.approvals.get(waiting.id)


@pytest.mark.parametrize(
    ("pattern", "command", "asked"),
    [
        ("bash", "ls", True),
        ("*", "ls", True),
        ("web_fetch", "ls", False),
        ("bash(git push *)", "git push origin", True),
        ("bash(git push *)", "cd x && git push origin", True),
        ("bash(git push *)", "git status", False),
    ],
)
def test_the_settings_say_which_calls_wait(pattern: str, command: str, asked: bool) -> None:
    assert approvals.is_asked([pattern], "bash", {"command": command}) is asked


@pytest.mark.parametrize(
    ("rule", "command", "allowed"),
    [
        ("bash(git *)", "git status", True),
        ("bash(git *)", "git status; rm -rf /", False),
        ("bash(git *)", "git status $(rm x)", False),
        ("bash(git *)", "rm x", False),
        ("bash(a && b)", "a && b", True),
        ("bash(ls [a])", "ls a", False),
        ("bash", "anything; at all", True),
    ],
)
def test_a_rule_allows_no_more_than_it_says(rule: str, command: str, allowed: bool) -> None:
    assert approvals.is_allowed([rule], "bash", {"command": command}) is allowed


def test_always_suggests_calls_like_this_one() -> None:
    assert approvals.suggested("bash", {"command": "git status"}) == "bash(git *)"
    assert approvals.suggested("bash", {"command": "a | b"}) == "bash(a | b)"
    assert approvals.suggested("web_fetch", {"url": "https://x.ch/a"}) == "web_fetch(https://x.ch/*)"
    assert approvals.suggested("write_file", {"path": "/a/b/../c/d"}) == "write_file(/a/c/*)"


async def test_a_call_is_made_once_the_owner_allows_it(home: Home, tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        app_asking(home, server, "bash", directories=(f"{_desk(tmp_path)}:rw",)) as app,
    ):
        server.script(calls("echo made >> made.txt"), Turn("Done."))
        run = await app.send("Go")
        waiting = await _asked(app)
        assert (waiting.tool, waiting.arguments) == ("bash", {"command": "echo made >> made.txt"})
        assert not (tmp_path / "desk" / "made.txt").exists()
        assert (await _decided(app, run, "once")).scope == "once"
        assert (tmp_path / "desk" / "made.txt").read_text() == "made\n"


async def test_a_denied_call_is_not_made_and_the_model_is_told(home: Home, tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        app_asking(home, server, "bash", directories=(f"{_desk(tmp_path)}:rw",)) as app,
    ):
        server.script(calls("echo made >> made.txt"), Turn("As you wish."))
        run = await app.send("Go")
        await _decided(app, run, "deny")
        assert not (tmp_path / "desk" / "made.txt").exists()
        assert "declined" in server.requests[-1].tool_results[-1]


async def test_what_is_allowed_for_a_session_is_asked_again_in_another(home: Home) -> None:
    async with ModelServer() as server, app_asking(home, server, "bash") as app:
        server.script(calls("echo 1"), calls("date"), Turn("Done."))
        await _decided(app, await app.send("Go"), "session")
        server.script(calls("echo 1"), Turn("Done."))
        other = await app.send("Go", session_label="other")
        waiting = await _asked(app, "other")
        await app.broker.approvals.decide(waiting.id, "deny")
        await other.result()


async def test_what_is_always_allowed_is_allowed_in_every_session(home: Home) -> None:
    async with ModelServer() as server, app_asking(home, server, "bash") as app:
        server.script(calls("echo 1"), Turn("Done."))
        await _decided(app, await app.send("Go"), "always")
        server.script(calls("echo 2"), Turn("Done."))
        await (await app.send("Go", session_label="other")).result()
        server.script(calls("date"), Turn("Done."))
        run = await app.send("Go", session_label="other")
        waiting = await _asked(app, "other")
        assert waiting.arguments == {"command": "date"}
        await run.cancel()


async def test_nobody_is_asked_by_default(home: Home) -> None:
    async with ModelServer() as server, app_asking(home, server) as app:
        server.script(calls("echo 1"), Turn("Done."))
        assert (await (await app.send("Go")).result()).response.content == "Done."


async def test_the_owner_decides_with_a_message(home: Home) -> None:
    async with ModelServer() as server, app_asking(home, server, "bash") as app:
        server.script(calls("echo 1"), Turn("Done."))
        run = await app.send("Go")
        await _asked(app)
        answer = await (await app.send("allow")).result()
        assert answer.response.content == "Allowed once."
        assert (await run.result()).response.content == "Done."


async def test_a_stopped_run_waits_no_more(home: Home) -> None:
    async with ModelServer() as server, app_asking(home, server, "bash") as app:
        server.script(calls("echo 1"), Turn("Done."))
        run = await app.send("Go")
        await _asked(app)
        await run.cancel()
        with pytest.raises(WorkCancelledError):
            await run.result()
        assert await app.broker.approvals.waiting() == []
