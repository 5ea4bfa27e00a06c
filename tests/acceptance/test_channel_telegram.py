"""Telegram on a home that really runs: answered once, whenever the program is killed."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.agents import environment, finish, rows, until
from acceptance.on_channels import echo_word, sending
from acceptance.running import Served, serving
from attached_files import png
from long_form import times
from nexus import config, logs
from nexus.home import Home
from nexus.testing import ModelServer
from telegram_server import TOKEN, TelegramServer


@pytest.fixture
def telegram() -> Iterator[TelegramServer]:
    made = TelegramServer()
    yield made
    made.close()


@pytest.fixture
def env(home: Home, server: ModelServer, telegram: TelegramServer) -> dict[str, str]:
    """A home with a bot, whose owner has the id 7."""
    with home.config_file.open("a") as config:
        config.write(
            f'\n[channels.telegram]\nkind = "telegram"\nsecret = "env:BOT_TOKEN"\nurl = "{telegram.url}"\n'
            'owner = ["7"]\n'
        )
    return environment(server, BOT_TOKEN=TOKEN)


def test_killed_at_random_the_owner_is_answered_and_a_stranger_gets_a_code(
    home: Home, env: dict[str, str], server: ModelServer, telegram: TelegramServer
) -> None:
    """The Bot API has no idempotency keys: after a kill an answer may come again."""
    server.always(echo_word)
    chance = random.Random(3)
    asked: dict[int, str] = {}
    for round_ in range(times(1, long=10)):
        served = Served(home, env)
        for number in range(round_ * 2, round_ * 2 + 2):
            asked[telegram.write(f"This is word{number}x")] = f"You said word{number}x"
        time.sleep(2 * chance.random())
        served.kill()
    with serving(home, env):
        telegram.write("Let me in", sender=9)
        until(lambda: {*asked.values()} <= {*telegram.texts()} and len({*telegram.texts()}) == len(asked) + 1)
        assert finish(home, env, "doctor", "--deep").returncode == 0
    told = {each["text"]: each for each in telegram.sent}
    for id_, answer in asked.items():
        assert told[answer]["reply_parameters"]["message_id"] == id_
        assert told[answer]["chat_id"] == "7"
    [code] = [text for text in told if "code" in text]
    assert told[code]["chat_id"] == "9"
    assert len(server.requests) >= len(asked)


def test_a_file_leaves_and_one_that_is_too_large_is_named(
    home: Home, env: dict[str, str], server: ModelServer, telegram: TelegramServer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "map.png").write_bytes(png())
    server.always(sending(shared / "map.png"))
    with serving(home, {**env, "NEXUS_TOOLS_DIRECTORIES": str(shared)}):
        telegram.write("Send me the file")
        until(lambda: len(telegram.sent) == 2)
        film = {"file_id": "huge", "file_name": "film.mp4", "file_size": 50_000_000}
        telegram.write(caption="What is in it? word1", document=film)
        until(lambda: len(telegram.sent) == 3)
    assert telegram.sent[0]["text"] == "Here is the file."
    assert telegram.sent[1]["document"] == ("map.png", png())
    assert b"[Attachment not read: film.mp4 (larger than 20 MB)]" in server.requests[-1].body
    assert telegram.texts()[-1] == ("You said word1\n\nI couldn't read film.mp4: larger than 20 MB."), (
        "the person is told, whatever the model says"
    )


def test_an_edited_message_is_answered_again_in_place(
    home: Home, env: dict[str, str], server: ModelServer, telegram: TelegramServer
) -> None:
    server.always(echo_word)
    with serving(home, env):
        first = telegram.write("This is word1x")
        until(lambda: telegram.texts() == ["You said word1x"])
        assert {"chat_id": "7", "action": "typing"} in telegram.shown
        telegram.edit(first, "This is word1x", at=1_800_000_001)  # A preview was added.
        telegram.edit(first, "This is word2x", at=1_800_000_002)
        until(lambda: telegram.texts() == ["You said word2x"])
        telegram.edit(first, "This is word3x", at=1_800_000_003)
        until(lambda: telegram.texts() == ["You said word3x"])
        assert b"word1x" not in server.requests[-1].body, "the agent is told what counts now"
        telegram.write("This is word4x")
        until(lambda: telegram.texts() == ["You said word3x", "You said word4x"])
        # Something was said since: the change is on record, and the conversation stays as it was.
        asked = len(server.requests)
        telegram.edit(first, "This is word5x", at=1_800_000_005)
        telegram.write("This is word6x")
        until(lambda: telegram.texts()[2:] == ["You said word6x"])
        assert len(server.requests) == asked + 1
        assert finish(home, env, "doctor", "--deep").returncode == 0
    said = [row[0] for row in rows(home, "events", "SELECT content FROM events WHERE direction = 'inbound'")]
    assert said == [f"This is word{number}x" for number in (1, 2, 3, 4, 5, 6)]


def test_the_log_of_one_channel(home: Home, env: dict[str, str]) -> None:
    lines = [{"level": "info", "message": f"about {name}", "channel": name} for name in ("telegram", "other")]
    logs.path(home).parent.mkdir(parents=True, exist_ok=True)
    logs.path(home).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shown = finish(home, env, "channels", "logs", "telegram")
    assert "about telegram" in shown.stdout
    assert "about other" not in shown.stdout
    assert finish(home, env, "channels", "logs", "other").returncode != 0


def test_the_guided_setup_finds_the_owner(home: Home, server: ModelServer, telegram: TelegramServer) -> None:
    telegram.write("It is me")
    env = environment(server, TELEGRAM_TOKEN=TOKEN)
    done = finish(home, env, "channels", "add", "telegram", "--url", telegram.url, stdin="\n\n\n")
    assert done.returncode == 0, done.stderr
    assert "Connected as @nexus_agent_bot" in done.stdout
    settings = config.load(home.config_file, {}).channels["telegram"]
    assert (settings.owner, settings.secret, settings.url) == (("7",), "env:TELEGRAM_TOKEN", telegram.url)
    again = finish(home, env, "channels", "add", "telegram", stdin="\n\n\n")
    assert "already" in again.stderr
