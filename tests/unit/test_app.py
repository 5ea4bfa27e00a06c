"""A home that is open: what is said into it is recorded, answered in its session, and recorded again."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from apps import app_on
from nexus.app import App
from nexus.config import ChannelConfig, Config, ToolsConfig
from nexus.engine.errors import EngineStateError, WorkCancelledError, WorkFailedError
from nexus.errors import ConfigError, UsageError
from nexus.home import Home
from nexus.ledgers.agents import history
from nexus.ledgers.runtime import requests
from nexus.memory.recall.item import Query
from nexus.memory.writing import Provenance
from nexus.pipeline import incoming
from nexus.request import Grant
from nexus.testing import Hold, ModelRequest, ModelServer, ToolCall, Turn, failures

OWNER = Provenance(actor="owner", kind="owner")


async def rows(app: App, ledger: str, query: str) -> list[tuple[Any, ...]]:
    def read(connection: apsw.Connection) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", connection.execute(query).fetchall())

    return await app.ledgers[ledger].read(read)


async def test_a_message_and_its_answer_are_events_of_one_thread(home: Home, server: ModelServer) -> None:
    server.script("It is in the blue tin.")
    async with app_on(home, server) as app:
        result = await (await app.send("Where is the tea?")).result()
        found = await rows(
            app,
            "events",
            "SELECT direction, sender, content, reply_to_event_id IS NULL FROM events ORDER BY seq",
        )
        threads = await rows(app, "events", "SELECT count(DISTINCT thread_id) FROM events")
        request = await app.ledgers.runtime.read(requests.get, request_id=result.request_id)
    assert found == [
        ("inbound", "owner", "Where is the tea?", 1),
        ("outbound", "nexus", "It is in the blue tin.", 0),
    ]
    assert threads == [(1,)]
    assert request is not None
    assert (request.status, request.depth, request.access.level) == ("done", 0, "owner")


async def test_what_is_said_into_a_run_reaches_it(home: Home, server: ModelServer) -> None:
    server.script(
        Turn("", [ToolCall("agent_send", {"op": "status"})], faults=[Hold(gate="first")]),
        lambda request: Turn(f"Heard {request.last_user}"),
    )
    async with app_on(home, server) as app:
        first = await app.send("Begin")
        await server.until(lambda: server.gate("first").waiting)
        second = await app.send("And hurry", mode="steer")
        server.gate("first").open()
        answers = [(await run.result()).response.content for run in (first, second)]
        shown = "".join([delta.text async for delta in second.deltas() if delta.kind == "text"])
    assert "And hurry" in answers[0]
    assert answers[0] == answers[1] == shown
    server.assert_exhausted()


async def test_an_interruption_stops_what_runs_and_is_answered(home: Home, server: ModelServer) -> None:
    server.script(Turn("Once upon a time", faults=[Hold(gate="story")]), "Noon.")
    async with app_on(home, server) as app:
        first = await app.send("Tell me a story")
        await server.until(lambda: server.gate("story").waiting)
        second = await app.send("What time is it?", mode="interrupt")
        with pytest.raises(WorkCancelledError):
            await first.result()
        assert (await second.result()).response.content == "Noon."
        past = await app.ledgers.agents.read(history.load, session_label="main")
        [stopped] = await rows(
            app,
            "runtime",
            "SELECT input_tokens + cache_write_tokens, output_tokens FROM usage "
            f"WHERE execution_id = '{first.id}'",
        )
    assert [turn.status for turn in past.turns] == ["cancelled", "done"]
    assert stopped[0] == server.exchanges[0].answer.usage.prompt_tokens, "what was stopped is paid for, too"
    assert stopped[1] > 0


async def test_a_failed_run_says_why_and_the_conversation_goes_on(home: Home, server: ModelServer) -> None:
    server.script(failures.unauthorized(), "Hello.")
    async with app_on(home, server) as app:
        with pytest.raises(WorkFailedError, match="No model answered") as raised:
            await (await app.send("Hi")).result()
        assert (await (await app.send("Hi again")).result()).response.content == "Hello."
        states = await rows(app, "runtime", "SELECT status FROM requests ORDER BY created_at")
    assert "ModelError" not in raised.value.message
    assert raised.value.hint.startswith("Set `api_key` in [providers.")
    assert states == [("failed",), ("done",)]


async def test_sessions_answer_side_by_side(home: Home, server: ModelServer) -> None:
    server.when(last_user="slow").script(Turn("Slow", faults=[Hold(gate="slow")]))
    server.when(last_user="quick").script("Quick")
    async with app_on(home, server) as app:
        slow = await app.send("slow", session_label="a")
        await server.until(lambda: server.gate("slow").waiting)
        async with asyncio.timeout(60):
            assert (await (await app.send("quick", session_label="b")).result()).response.content == "Quick"
        server.gate("slow").open()
        assert (await slow.result()).response.content == "Slow"


async def test_without_a_model_nothing_is_recorded(home: Home) -> None:
    async with App(home, Config()) as app:
        with pytest.raises(ConfigError, match="No model configured"):
            await app.send("Hello")
        assert await rows(app, "events", "SELECT count(*) FROM events") == [(0,)]


@pytest.mark.parametrize("label", ["", " "])
async def test_a_session_without_a_label_is_refused_and_not_waited_for(
    home: Home, server: ModelServer, label: str
) -> None:
    async with app_on(home, server) as app:
        with pytest.raises(UsageError, match="label is empty"):
            await app.send("Hello", session_label=label)
        assert await rows(app, "events", "SELECT count(*) FROM events") == [(0,)]


def test_the_owners_grants_come_from_the_settings(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    granted = incoming.owner(
        ToolsConfig(directories=("~/notes", "~/mail:ro", "/desk:rw"), network=True), home
    )
    assert granted.directories == (
        Grant(path="/home/ada/notes"),
        Grant(path="/home/ada/mail"),
        Grant(path="/desk", writable=True),
    )
    assert granted.network
    assert granted.tools is None


@pytest.mark.parametrize("wrong", ["notes", "~/notes/../keys:rw", "./here"])
def test_a_grant_is_an_absolute_path(home: Home, wrong: str) -> None:
    with pytest.raises(ConfigError, match="absolute path"):
        incoming.owner(ToolsConfig(directories=(wrong,)), home)


def test_an_agent_cannot_be_let_write_its_own_settings(home: Home) -> None:
    for holding in (home.root.resolve(), home.root.resolve().parent):
        incoming.owner(ToolsConfig(directories=(str(holding),)), home)
        with pytest.raises(ConfigError, match="holds the home itself"):
            incoming.owner(ToolsConfig(directories=(f"{holding}:rw",)), home)


@pytest.mark.parametrize("inside", ["state", "state/hooks/scripts", "state/meeseeks", "data", "new"])
def test_an_agent_cannot_be_let_write_its_own_prompt_scripts_or_ledgers(home: Home, inside: str) -> None:
    incoming.owner(ToolsConfig(directories=(str(home.root / inside),)), home)
    with pytest.raises(ConfigError, match="belongs to the home"):
        incoming.owner(ToolsConfig(directories=(f"{home.root / inside}:rw",)), home)


def test_a_link_to_the_homes_own_folders_is_no_way_around(home: Home, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(home.state)
    with pytest.raises(ConfigError, match="belongs to the home"):
        incoming.owner(ToolsConfig(directories=(f"{link}:rw",)), home)


def test_a_workspace_can_be_granted_for_writing(home: Home) -> None:
    workspace = home.meeseeks / "writer"
    granted = incoming.owner(ToolsConfig(directories=(f"{workspace}:rw",)), home)
    assert granted.directories == (Grant(path=str(workspace), writable=True),)


async def test_the_public_verbs_store_find_and_erase(home: Home) -> None:
    (home.config_file).touch()
    async with App.open(home.root) as app:
        await app.memory.run("entity", {"name": "Kofi Mensah", "type": "Person"}, OWNER)
        stored = await app.remember("Kofi keeps his tea in the blue tin", about="Kofi Mensah")
        found = await app.recall("Where does Kofi keep his tea?")
        assert found.results[0].item.id == stored.id
        report = await app.forget("Kofi Mensah")
        assert report.removed["memory.facts"] == 1
        assert (await app.recall(Query(text="Where does Kofi keep his tea?"))).results == ()


async def test_many_homes_are_open_in_one_process_and_one_of_them_answers(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.always("All right.")
    others = [Home(tmp_path / name) for name in ("second", "third")]
    for other in others:
        other.create()
    async with (
        app_on(home, server) as first,
        App.open(others[0], serve=False) as second,
        App.open(others[1], serve=False) as third,
    ):
        apps = (first, second, third)
        texts = [f"The tea is in tin {number}" for number in range(3)]
        await asyncio.gather(*(app.remember(text) for app, text in zip(apps, texts, strict=True)))
        for app, text in zip(apps, texts, strict=True):
            found = await app.recall("Where is the tea?", kinds=["fact"])
            assert [match.item.text for match in found.results] == [text]
        with pytest.raises(EngineStateError, match="another home") as refused:
            await App.open(others[0]).__aenter__()
        assert "serve=False" in refused.value.hint
        assert (await (await first.send("Hello")).result()).response.content == "All right."
    async with App.open(others[0]) as second:
        assert (await second.recall("tea", kinds=["fact"])).results[0].item.text == texts[1]


async def test_a_model_is_told_no_more_of_what_was_forgotten_and_replaced(
    home: Home, server: ModelServer
) -> None:
    server.always("Noted.")
    async with app_on(home, server) as app:
        await app.memory.run("entity", {"name": "Kofi Mensah", "type": "Person"}, OWNER)
        for text in ("Kofi Mensah drinks tea.", "I like rain.", "What is next?"):
            last = await app.send(text)
            await last.result()
        before = str(server.requests[-1].json["messages"])
        await app.forget("Kofi Mensah")
        edited = (await app.receive("What now?", replaces=last.id)).run
        await edited.result()
        await (await app.regenerate(edited.id)).result()
        after = [str(request.json["messages"]) for request in server.requests[-2:]]
    assert all(text in before for text in ("Kofi", "I like rain.", "What is next?"))
    for told in after:
        assert [text in told for text in ("Kofi", "I like rain.", "What is next?")] == [False, True, False]
        assert told.count("What now?") == 1


async def test_recall_does_not_find_the_message_that_it_is_asked_for(home: Home, server: ModelServer) -> None:
    asked = "Look up Elin's birthday and tell me the date."
    look = Turn("", [ToolCall("recall", {"query": "Look up Elin's birthday", "scope": "events"})])
    dispatch = {"op": "dispatch", "text": "Look up Elin's birthday"}
    found: list[str] = []

    def told(request: ModelRequest) -> str:
        found.append(request.tool_results[-1])
        return "Done."

    server.script(look, told)
    async with app_on(home, server) as app:
        await app.memory.run("fact", {"fact": "Elin has her birthday on 14 March"}, OWNER)
        await (await app.send(asked)).result()
        # Neither does a worker find the message that caused it.
        server.script(Turn("", [ToolCall("agent_send", {**dispatch, "wait": True})]), look, told, "Done.")
        await (await app.send(asked, session_label="other")).result()
    assert "14 March" in found[0]
    assert asked not in found[0]
    assert found[1].count(asked) == 1, "the message of the other session alone"


async def test_secrets_of_channels_are_masked_in_the_log(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hook-secret-4431")
    desk = ChannelConfig(kind="webhook", secret="env:HOOK_SECRET")
    async with App(home, replace(Config(), channels={"desk": desk}), memory_socket=True) as app:
        assert "4431" not in app.redact("refused: hook-secret-4431")
