"""Tools that ask first."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import settings
from nexus.app import App
from nexus.broker.agent.mcp.servers import argument_names, guess_effects
from nexus.broker.approvals import Decision
from nexus.broker.questions import Rule, code_of, find_pattern, suggest_rule
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
    ("pattern", "tool", "arguments", "asked"),
    [
        ("bash", "bash", {"command": "ls"}, True),
        ("*", "bash", {"command": "ls"}, True),
        ("web_fetch", "bash", {"command": "ls"}, False),
        ("bash(git push *)", "bash", {"command": "git push origin"}, True),
        ("bash(git push *)", "bash", {"command": "cd x && git push origin"}, True),
        ("bash(git push *)", "bash", {"command": "git\tpush  origin"}, True),
        ("bash(git push *)", "bash", {"command": "git status"}, False),
        ("f__delete(/etc/*)", "f__delete", {"command": "ls", "path": "/etc/x"}, True),
        ("f__delete(/etc/*)", "f__delete", {"path": "/home/../etc/x"}, True),
        ("f__delete(/etc/*)", "f__delete", {"paths": ["/a", {"deep": "/etc/x"}]}, True),
        ("f__delete(path=/etc/*)", "f__delete", {"path": "/etc/x"}, True),
        ("f__delete(path=/etc/*)", "f__delete", {"note": "/etc/x"}, False),
        ("f__delete(recursive=true)", "f__delete", {"path": "x", "recursive": True}, True),
        ("bash(A=1 make*)", "bash", {"command": "A=1 make"}, True),
    ],
)
def test_the_settings_say_which_calls_wait(
    pattern: str, tool: str, arguments: dict[str, Any], asked: bool
) -> None:
    assert (find_pattern([pattern], tool, arguments) is not None) is asked


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        *[("rm\t-rf x", True), ("ls;  rm   -rf x", True), ("env rm -rf x", False)],
        *[("\\rm -rf x", False), ("rm${IFS}-rf x", False), ("bash -c 'rm -rf x'", False)],
    ],
)
def test_patterns_are_evaded_as_the_guide_says(command: str, asked: bool) -> None:
    assert (find_pattern(["bash(rm *)"], "bash", {"command": command}) is not None) is asked


@pytest.mark.parametrize(
    ("given", "call", "allowed"),
    [
        ({"command": "git log"}, {"command": "git status"}, True),
        ({"command": "git log"}, {"command": "git status", "timeout_ms": 5}, True),
        ({"command": "git log"}, {"command": "git status; rm -rf /"}, False),
        ({"command": "git log"}, {"command": "git status $(rm x)"}, False),
        ({"command": "git log"}, {"command": "git status", "other": "x"}, False),
        ({"command": "git log"}, {"command": "rm x"}, False),
        ({"command": "a && b"}, {"command": "a && b"}, True),
        ({"command": "a && b*"}, {"command": "a && b; c"}, False),
        ({"command": "ls *"}, {"command": "ls /etc"}, False),
    ],
)
def test_a_rule_allows_no_more_than_it_says(
    given: dict[str, Any], call: dict[str, Any], allowed: bool
) -> None:
    assert suggest_rule("bash", given).allows("bash", call) is allowed


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_only_a_star_is_special_in_a_pattern(pattern: str, text: str) -> None:
    fits = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert Rule(tool="x", like={"y": pattern}).allows("x", {"y": text}) == (fits or pattern == "*")


def test_a_pattern_with_many_stars_is_matched_in_one_pass() -> None:
    """By backtracking this takes years."""
    assert find_pattern(["bash(" + "a*" * 30 + "b)"], "bash", {"command": "a" * 100_000}) is None


def test_a_rule_for_a_servers_tool_allows_this_very_call() -> None:
    rule = suggest_rule("mail__send", {"to": "bo@x.ch", "urgent": True})
    assert rule.allows("mail__send", {"urgent": True, "to": "bo@x.ch"})
    assert not rule.allows("mail__send", {"to": "bo@x.ch", "urgent": 1})
    assert not rule.allows("mail__send", {"to": "bo@x.ch"})
    assert not rule.allows("mail__send", {"to": "bo@x.ch", "urgent": True, "bcc": "eve@x.ch"})
    assert Rule.from_json(rule.to_json()) == rule


def test_always_suggests_calls_like_this_one() -> None:
    def told(tool: str, **arguments: Any) -> str:
        return str(suggest_rule(tool, arguments))

    assert told("bash", command="git status") == "bash(command=git *, timeout_ms=*)"
    assert told("bash", command="a | b") == "bash(command=a | b)"
    assert told("web_fetch", url="https://x.ch/a") == "web_fetch(url=https://x.ch/*, offset=*)"
    assert told("write", path="/a/b/../c/d", content="x") == "write(path=/a/c/*, content=*)"


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("send_email", {"send"}),
        ("deleteFile", {"delete"}),
        ("create_post", {"publish"}),
        ("transfer", {"pay"}),
        ("get_message", set[str]()),
        ("list_orders", set[str]()),
        ("get_and_delete", {"delete"}),
        ("add_note", {"send"}),
        ("http_request", {"send"}),
        ("execute", {"send"}),
    ],
)
def test_a_servers_tool_is_known_by_its_name(name: str, effects: set[str]) -> None:
    assert guess_effects(name, is_read_only=False, is_destructive=False) == effects
    certain = effects if name in {"send_email", "deleteFile", "get_and_delete"} else set[str]()
    assert guess_effects(name, is_read_only=True, is_destructive=False) == certain
    assert "delete" in guess_effects(name, is_read_only=False, is_destructive=True)


def test_arguments_that_a_servers_schema_knows() -> None:
    inner: dict[str, Any] = {"properties": {"b": {}}}
    assert argument_names({"properties": {"a": {}}}) == {"a"}
    assert argument_names({"properties": {"a": {}}, "anyOf": [inner]}) == {"a", "b"}
    assert argument_names({"$ref": "#/$defs/x", "$defs": {"x": inner}}) == {"b"}
    assert argument_names({"type": "object", "properties": {}}) == frozenset()
    assert argument_names({"properties": {"a": {}}, "additionalProperties": True}) is None
    assert argument_names({"type": "object"}) is None


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
        code = code_of(await _asked(app))
        refused = await (await app.send("allow")).result()
        assert f"allow {code}" in refused.response.content
        answer = await (await app.send(f"Allow {code.lower()}.")).result()
        assert answer.response.content == "Allowed once."
        again = await (await app.send(f"deny {code}")).result()
        assert "is no longer waiting" in again.response.content
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
