"""A conversation goes on, whatever goes wrong beside it."""

import asyncio
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from apps import app_on
from installed import Clock, opened, tick
from nexus.app import App
from nexus.cli import conversation as module
from nexus.cli.conversation import Conversation
from nexus.cli.place import user_name
from nexus.cli.screen import Screen
from nexus.cli.talk import There
from nexus.cli.talk_here import Here
from nexus.client import Client
from nexus.config import LedgersConfig
from nexus.errors import LedgerClosedError
from nexus.home import Home
from nexus.ledgers import events, sql
from nexus.ledgers.database import Database
from nexus.ledgers.runtime.trace import Node
from nexus.memory.recall.item import Item
from nexus.testing import ModelServer


async def test_an_error_while_looking_for_news_does_not_end_the_looking(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    shown = io.StringIO()
    async with ModelServer() as server, app_on(home, server) as app:
        server.script("Hello.", "One more thing.")
        conversation = Conversation(Here(app), Screen(shown), "main", "", interactive=False)
        await conversation.say("Hi")
        watching = asyncio.create_task(conversation.watch(home))
        sound, app.ledgers.runtime = app.ledgers.runtime, await _closed(home)
        with pytest.raises(LedgerClosedError):
            await app.runs_after("main")
        await asyncio.sleep(0.2)
        app.ledgers.runtime = sound
        await (await app.send("Anything else?", session_label="main")).result()
        async with asyncio.timeout(30):
            while "One more thing." not in shown.getvalue():
                assert not watching.done(), "the looking has ended"
                await asyncio.sleep(0.01)
        watching.cancel()


async def test_what_automations_sent_since_one_last_spoke_is_shown_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    shown = io.StringIO()
    async with ModelServer() as server, app_on(home, server) as app:
        server.always("Hello.")
        await _send(app, "Before anything was said")
        await (await app.send("Hi", session_label="main")).result()
        await _send(app, "While nobody looked")
        await _send(app, "Elsewhere", session_label="family")
        conversation = Conversation(Here(app), Screen(shown), "main", "", interactive=True)
        watching = asyncio.create_task(conversation.watch(home))
        await _until(lambda: "While nobody looked" in shown.getvalue())
        await conversation.say("And now?")
        await conversation.begin("another")
        await _send(app, "While one looked")
        await _until(lambda: "While one looked" in shown.getvalue())
        watching.cancel()
        quiet = io.StringIO()
        await Conversation(Here(app), Screen(quiet), "main", "", interactive=False).say("Not at a terminal")
    assert [shown.getvalue().count(f"While {who} looked") for who in ("nobody", "one")] == [1, 1]
    assert "Before" not in shown.getvalue()
    assert "Elsewhere" not in shown.getvalue()
    assert "looked" not in quiet.getvalue()


async def test_the_last_message_is_edited_and_answered_again_and_a_fact_corrected(home: Home) -> None:
    shown, picture = io.StringIO(), home.root / "a picture.txt"
    picture.write_text("A lake.")
    async with ModelServer() as server, app_on(home, server) as app:
        server.script("Hello Bob.", "Hello Ben.", "Good day, Ben.", "A lake, I see.")
        await app.remember("Ben lives in Bern")
        conversation = Conversation(Here(app), Screen(shown), "main", "", interactive=False)
        lines = [
            "I am Bob, of Bern",
            "/edit I am Ben, of Bern",
            "/retry",
            "/memory Ben lives in Bern",
            "/correct 1 Ben lives in Basel",
            f"'{picture}'",
            "What is it?",
        ]
        await module._talk(conversation, _Typed(lines), "")  # pyright: ignore[reportPrivateUsage]
        history = str(server.requests[-1].json["messages"])
        facts = [result.item.text for result in (await app.recall("Where does Ben live?")).results]
        by = await app.ledgers.memory.read(sql.rows, "SELECT metadata_json FROM facts")
    answers = [shown.getvalue().find(said) for said in ("Hello Bob.", "Hello Ben.", "Good day, Ben.")]
    assert answers == sorted(answers)
    assert answers[0] >= 0
    assert ("I am Bob" in history, "Hello Ben." in history, "A lake." in history) == (False, False, True)
    assert "Good day, Ben." in history
    assert "Ben lives in Basel" in facts
    assert user_name() in str(by)


async def test_the_last_message_is_found_in_the_session_and_the_fact_that_was_used_opened(home: Home) -> None:
    shown, notes = io.StringIO(), io.StringIO()
    async with ModelServer() as server, app_on(home, server) as app:
        server.script("Hello Bob.", "Hello Ben.", "Good day, Ben.")
        await (await app.send("I am Bob, of Bern", session_label="main")).result()
        conversation = Conversation(Here(app), Screen(shown, notes), "main", "", interactive=False)
        await conversation.edit()
        assert conversation.draft == "I am Bob, of Bern"
        await conversation.say("I am Ben, of Bern", replaces=conversation.edits)
        again = Conversation(Here(app), Screen(shown, notes), "main", "", interactive=False)
        await again.retry()
        assert "Bob" not in str(server.requests[-1].json["messages"])
        await again.begin("empty")
        await again.edit()
        assert (again.draft, again.edits) == ("", False)
    assert [said in shown.getvalue() for said in ("Hello Ben.", "Good day, Ben.")] == [True, True]
    assert "You haven't said anything here yet." in notes.getvalue()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


async def _send(app: App, text: str, session_label: str = "main") -> None:
    """As an automation that runs by the clock does."""

    def send(connection: apsw.Connection) -> None:
        thread_id = events.ensure_thread(connection, channel="cli", external_id=session_label)
        sent = events.NewEvent(channel="cli", content=text, direction="outbound", thread_id=thread_id)
        events.append(connection, [sent])

    await app.ledgers.events.write(send)


async def test_a_gateway_that_is_gone_for_a_new_session_does_not_end_the_conversation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Client("http://127.0.0.1:9", "t" * 43) as client:
        conversation = Conversation(There(client), Screen(io.StringIO()), "main", "", interactive=False)
        await module._talk(conversation, _Typed(["/new", "/help"]), "Still here")  # pyright: ignore[reportPrivateUsage]
    told = capsys.readouterr()
    assert "No response" in told.err
    assert "Still here" in told.out


class _Typed:
    """What a person types, line by line."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        return self._lines.pop(0) if self._lines else None


async def _closed(home: Home) -> Database:
    with ThreadPoolExecutor(1) as executor:
        database = Database(home.ledger("runtime"), "runtime", LedgersConfig(), executor)
        await database.close()
    return database


async def test_a_reminder_typed_at_a_terminal_is_shown_saved_and_arrives_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    clock, shown = Clock(datetime(2031, 5, 5, 10, 0, tzinfo=UTC)), io.StringIO()
    async with ModelServer() as server, opened(home, server, clock) as app:
        server.always("Two letters.")
        conversation = Conversation(Here(app), Screen(shown), "desk", "", interactive=True)
        lines = [
            "/remind in two hours call Anna",
            "n",
            "/remind in two hours call Ben",
            "y",
            "/remind in three hours what is open?",
            "",
            "/reminders",
        ]
        await module._talk(conversation, _Typed(lines), "")  # pyright: ignore[reportPrivateUsage]
        assert "Monday 2031-05-05 12:00 UTC.\nNexus says: call Anna" in shown.getvalue()
        assert [each.text for each in await app.reminders.load_all()] == ["call Ben", "what is open?"]
        await app.timetable.keep()
        watching = asyncio.create_task(conversation.watch(home))
        clock.forward(hours=2)
        before = shown.getvalue().count("call Ben")
        await tick(app, "reminder-1", clock)
        await _until(lambda: shown.getvalue().count("call Ben") > before)
        clock.forward(hours=1)
        await tick(app, "reminder-2", clock)
        await _until(lambda: "Two letters." in shown.getvalue())
        watching.cancel()
    assert shown.getvalue().count("call Ben") == before + 1
    assert shown.getvalue().count("Two letters.") == 1


def test_files_that_were_pasted_may_be_followed_by_words(tmp_path: Path) -> None:
    for name in ("a bill.txt", "b.txt"):
        (tmp_path / name).write_text("1")
    bill, other = f"'{tmp_path / 'a bill.txt'}'", str(tmp_path / "b.txt")
    escaped = str(tmp_path / "a bill.txt").replace(" ", "\\ ")
    both = [str(tmp_path / "a bill.txt"), other]
    assert module.pasted_files(f"{bill} {other}") == (both, "")
    assert module.pasted_files(f"{escaped} {other} which is due?") == (both, "which is due?")
    assert module.pasted_files("what's in it?") == ([], "what's in it?")
    assert module.pasted_files(f"{tmp_path}/missing.txt is gone") == ([], f"{tmp_path}/missing.txt is gone")


class _Remembering:
    """A home that remembers three things, of which the last answer used one."""

    where = ""

    async def recall(self, text: str) -> list[Item]:
        return [
            Item(kind="event", id="evt_1", at="2031-05-05", speaker="owner", text="Hello " * 100),
            Item(kind="fact", id="fact_2", at="2031-05-04", speaker=None, text="Ben is a cook"),
            Item(kind="fact", id="fact_1", at="2031-05-04", speaker=None, text="Ben lives in Bern"),
        ]

    async def trace(self, request_id: str) -> Node:
        memory = Node(kind="memory", id="fact_1", name="fact", status="used", started_at="", duration_ms=0)
        return Node(
            kind="request", id=request_id, name="", status="done", started_at="", duration_ms=0,
            children=[memory],
        )  # fmt: skip


async def test_memory_lists_what_the_answer_used_first_and_correct_names_facts() -> None:
    shown, notes = io.StringIO(), io.StringIO()
    talk = cast("Any", _Remembering())
    conversation = Conversation(talk, Screen(shown, notes), "main", "", interactive=False)
    await conversation.correct("1 Ben lives in Basel")
    conversation._said, conversation._request_id = "Where does Ben live?", "req_1"  # pyright: ignore[reportPrivateUsage]
    await conversation.memory("")
    first, second, _ = shown.getvalue().splitlines()
    assert first == " 1  2031-05-04  [fact] Ben lives in Bern · used in the answer"
    assert second.startswith(" 2  2031-05-05  You: Hello Hello")
    assert len(second) < 250
    await conversation.correct("2 Ben lives in Basel")
    await conversation.correct("")
    assert (conversation.draft, conversation.edits) == ("/correct 1 Ben lives in Bern", False)
    # A fact that isn't shown can't be meant.
    await conversation.correct("2 Ben lives in Basel")
    conversation._request_id = ""  # pyright: ignore[reportPrivateUsage]
    await conversation.correct("")
    await conversation.correct("1 Ben lives in Basel")
    told = notes.getvalue()
    assert told.count("List the fact first") == 2
    assert "used no fact" in told
    assert "the number of a fact (1)" in told
