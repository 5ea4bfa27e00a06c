"""Commands: one list and one parser, wherever people write."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import apsw
import pytest

from apps import app_on
from automating import let_in, register, runs, said_by
from nexus import commands
from nexus.app import App
from nexus.attachments import Attachment
from nexus.cli.chat import help_text
from nexus.config import Config
from nexus.engine.errors import WorkCancelledError
from nexus.errors import AccessError
from nexus.home import Home
from nexus.ledgers.agents import sessions
from nexus.testing import Hold, ModelServer, Turn

_NOTICE = "def run(ctx):\n    return None\n"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("/new", "new", ""),
        ("  /NEW \n", "new", ""),
        ("/remind in two hours\ncall Anna", "remind", "in two hours\ncall Anna"),
    ],
)
def test_a_command_is_its_first_word(text: str, name: str, words: str) -> None:
    found = commands.parse(text)
    assert found is not None
    assert (found[0].name, found[1]) == (name, words)


@pytest.mark.parametrize(
    "text",
    [
        *("", "new", "/etc/hosts is wrong", "/newer", "Type /new", "/quit", "/ new"),
        *("/new What is the weather?", "/stop the music", "/help me with tar", "/cost@other_bot"),
    ],
)
def test_anything_else_is_a_message(text: str) -> None:
    assert commands.parse(text) is None


def test_a_terminal_has_commands_of_its_own() -> None:
    assert commands.parse("/quit", "terminal") is not None
    assert commands.parse("/exit", "terminal") == commands.parse("/quit", "terminal")
    assert all(each.usage in help_text() for each in commands.list_for("terminal"))


def test_the_guide_names_every_command() -> None:
    guide = (Path(__file__).parents[2] / "docs/how-to/talk.md").read_text(encoding="utf-8")
    assert not [each.name for each in commands.COMMANDS if f"`/{each.name}" not in guide]


async def _say(app: App, text: str, channel: str = "api") -> str:
    return (await (await app.send(text, channel=channel)).result()).response.content


async def test_new_starts_over_fires_its_hook_and_keeps_the_transcript(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.script("Noted.", lambda request: Turn(str(len(request.json["messages"]))), "And again.")
    async with app_on(home, server) as app:
        await register(app, "leaving", _NOTICE, tmp_path, hook_point="command:new")
        await _say(app, "The boat is blue")
        assert "new session" in await _say(app, "/new")
        assert await _say(app, "What did I say?") == "1"
        assert await _say(app, "And now?") == "And again."
        assert len(server.requests[-1].json["messages"]) == 3, "what was said since is remembered"
        assert [each.hook_point for each in await runs(app, "leaving")] == ["command:new"]
        kept = await app.ledgers.agents.read(_contents)
    assert any("The boat is blue" in each for each in kept)
    server.assert_exhausted()


def _contents(connection: apsw.Connection) -> list[str]:
    return [cast("str", row[0]) for row in connection.execute("SELECT content FROM agent_messages")]


async def test_a_run_under_way_keeps_its_history_when_its_session_starts_over(
    home: Home, server: ModelServer
) -> None:
    server.script(
        "Noted.",
        Turn("Blue", faults=[Hold(gate="boat")]),
        lambda request: Turn(str(len(request.json["messages"]))),
    )
    async with app_on(home, server) as app:
        await _say(app, "The boat is blue")
        answering = await app.send("Which color?")
        await server.until(lambda: server.gate("boat").waiting)
        await _say(app, "/new")
        server.gate("boat").open()
        assert (await answering.result()).response.content == "Blue"
        assert await _say(app, "Hello") == "1"


async def test_new_hides_what_still_waits_for_its_turn(home: Home, server: ModelServer) -> None:
    server.script(
        Turn("One", faults=[Hold(gate="first")]),
        "Two",
        lambda request: Turn(str("SECRET" in request.body.decode())),
    )
    async with app_on(home, server) as app:
        first = await app.send("First")
        await server.until(lambda: server.gate("first").waiting)
        secret = await app.send("SECRET")
        await _say(app, "/new")
        hello = await app.send("Hello")
        server.gate("first").open()
        assert [(await each.result()).response.content for each in (first, secret, hello)] == [
            *("One", "Two", "False")
        ]


async def test_new_may_be_the_first_of_its_session(home: Home) -> None:
    async with App(home, Config()) as app:
        await _say(app, "/new")
        assert await app.ledgers.agents.read(sessions.get, label="main") is not None


def test_a_message_with_files_is_no_command() -> None:
    file = Attachment(name="a.png", media_type="image/png", sha256="0", size_bytes=1)
    assert said_by("ben", "/cost").is_command
    assert not replace(said_by("ben", "/cost"), attachments=(file,)).is_command


async def test_stop_cancels_the_answer_of_the_session(home: Home, server: ModelServer) -> None:
    server.script(Turn("Once upon a time", faults=[Hold(gate="story")]))
    async with app_on(home, server) as app:
        assert await _say(app, "/stop") == "Nothing to stop."
        story = await app.send("Tell me a story")
        await server.until(lambda: server.gate("story").waiting)
        assert await _say(app, "/stop") == "Stopped."
        with pytest.raises(WorkCancelledError):
            await story.result()


async def test_every_command_answers_without_a_model(home: Home) -> None:
    async with App(home, Config()) as app:
        told = {each.name: await _say(app, f"/{each.name}") for each in commands.list_for("message")}
        saved = await _say(app, "/remind in two hours call Anna")
        assert saved.startswith("Saved.")
        assert "reminder-" not in saved, "its words and time, and no name"
        assert "call Anna" in await _say(app, "/reminders")
        assert (await _say(app, "/remind whenever")).startswith("No time found in 'whenever'.")
    assert all(told.values())
    assert told["remind"] == "Say when and what, for example: /remind in two hours call Anna"
    assert "- `/model`: list models" in told["help"]
    assert "- none" not in told["model"], '`writer = "none"` names no model'
    assert all(f"`{each.usage}`" in told["help"] for each in commands.list_for("message"))


async def test_commands_and_what_they_print_are_not_remembered(home: Home, server: ModelServer) -> None:
    server.script("Nice.")
    async with app_on(home, server) as app:
        await _say(app, "We sail with the blue boat on Sunday")
        told = await _say(app, "/memory blue boat")
        again = await _say(app, "/memory blue boat")
        found = await app.recall("blue boat")
    assert "We sail with the blue boat" in told
    assert told == again
    assert not any(each.item.text.startswith(("/memory", "- 2")) for each in found.results)


async def test_a_guest_may_start_over_and_stop_but_not_look_around(home: Home, server: ModelServer) -> None:
    server.script("Hello Ben.", lambda request: Turn(str(len(request.json["messages"]))))
    async with app_on(home, server) as app:
        with pytest.raises(AccessError):
            await app.accept(said_by("ben", "/new"))
        await let_in(app, "ben")
        told: list[str] = []
        for text in ("Hi", "/cost", "/help", "/new", "Hi again", "/stop"):
            receipt = await app.accept(said_by("ben", text))
            told.append((await receipt.run.result()).response.content)
    assert told[1] == "Only the owner can use /cost."
    assert "/new" in told[2]
    assert "/cost" not in told[2]
    assert told[4:] == ["1", "Nothing to stop."]
