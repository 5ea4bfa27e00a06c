"""Discord on a home that really runs: pairing, groups, files, kills and the setup."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.agents import environment, finish, until
from acceptance.on_channels import echo_word, recalling, sending
from acceptance.running import Served, serving
from attached_files import pdf, png
from discord_server import BOT, DIRECT, GROUP, HANA, TOKEN, DiscordServer
from long_form import times
from nexus import config
from nexus.home import Home
from nexus.testing import ModelServer

_SAM = "8"
_ME = {"id": BOT, "username": "nexus", "discriminator": "0", "avatar": None}


@pytest.fixture
def discord() -> Iterator[DiscordServer]:
    made = DiscordServer()
    yield made
    made.close()


@pytest.fixture
def env(home: Home, server: ModelServer, discord: DiscordServer) -> dict[str, str]:
    """A home with a bot, whose owner is Hana."""
    with home.config_file.open("a") as file:
        file.write(
            f'\n[channels.discord]\nkind = "discord"\nsecret = "env:BOT_TOKEN"\nurl = "{discord.url}"\n'
            f'owner = ["{HANA}"]\n'
        )
    return environment(server, BOT_TOKEN=TOKEN)


def test_a_guest_in_a_group_does_not_get_the_owners_memories(
    home: Home, env: dict[str, str], server: ModelServer, discord: DiscordServer
) -> None:
    server.always(recalling)
    with serving(home, env):
        _connected(home, env)
        told = finish(home, env, "run", "--no-wait", "My door code is 4711-Zebra")
        assert told.returncode == 0, told.stderr
        discord.write("What is the door code? Owner")
        until(lambda: len(discord.sent) == 1)
        discord.write("Nobody asked", channel=GROUP, user=_SAM)
        discord.write(f"<@{BOT}> Let me in", channel=GROUP, user=_SAM, mentions=[_ME])
        until(lambda: len(discord.sent) == 2)
        code = discord.texts()[1].split("code ")[1].rstrip(".")
        assert finish(home, env, "access", "approve", code).returncode == 0
        discord.write(f"<@{BOT}> the door code? Guest", channel=GROUP, user=_SAM, mentions=[_ME])
        until(lambda: len(discord.sent) == 3)
        discord.write(f"<@{BOT}> my door code? In public", channel=GROUP, mentions=[_ME])
        until(lambda: len(discord.sent) == 4)
        assert finish(home, env, "doctor", "--deep").returncode == 0
    assert [each["channel"] for each in discord.sent] == [DIRECT, GROUP, GROUP, GROUP]
    bodies = [request.body for request in server.requests]
    assert any(b"Owner" in body and b"Zebra" in body for body in bodies), "alone, the owner is told"
    others = [body for body in bodies if b"Guest" in body or b"In public" in body]
    assert len(others) >= 4
    assert not any(b"Zebra" in body for body in others)


def test_files_go_both_ways(
    home: Home, env: dict[str, str], server: ModelServer, discord: DiscordServer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "map.png").write_bytes(png())
    discord.files["a.pdf"] = pdf("Zebra crossing")
    server.always(sending(shared / "map.png"))
    url = f"{discord.url}/files/a.pdf"
    with serving(home, {**env, "NEXUS_TOOLS_DIRECTORIES": str(shared)}):
        _connected(home, env)
        attached = {"id": "1", "filename": "a.pdf", "size": 900, "url": url, "proxy_url": url}
        discord.write("Read this: word1", attachments=[attached])
        until(lambda: len(discord.sent) == 1)
        discord.write("Send me the file")
        until(lambda: discord.uploaded)
    assert b"Zebra crossing" in server.requests[0].body, "the model read the PDF"
    assert discord.texts() == ["You said word1", "Here is the file."]
    assert discord.uploaded == [("map.png", png())]


def test_killed_at_random_everything_is_answered_once(
    home: Home, env: dict[str, str], server: ModelServer, discord: DiscordServer
) -> None:
    """Within the minutes for which Discord remembers a nonce, no answer comes twice."""
    server.always(echo_word)
    chance = random.Random(4)
    expected = ["You said wordready"]
    with serving(home, env):
        _connected(home, env)
        discord.write("This is wordready")
        until(lambda: discord.sent)
    for round_ in range(times(1, long=10)):
        served = Served(home, env)
        for number in range(round_ * 2, round_ * 2 + 2):
            discord.write(f"This is word{number}x")
            expected.append(f"You said word{number}x")
        time.sleep(2 * chance.random())
        served.kill()
        discord.write(f"This is word{round_}down")
        expected.append(f"You said word{round_}down")
    with serving(home, env):
        until(lambda: len(discord.sent) >= len(expected))
        assert finish(home, env, "doctor", "--deep").returncode == 0
    assert Counter(discord.texts()) == Counter(expected)


def test_the_setup_by_questions_and_by_options(
    home: Home, server: ModelServer, discord: DiscordServer
) -> None:
    env = environment(server, DISCORD_TOKEN=TOKEN)
    asked = ("channels", "add", "discord", "--url", discord.url)
    done = finish(home, env, *asked, stdin="\n\n")
    assert done.returncode == 0, done.stderr
    assert f"Connected as nexus. The bot belongs to hana ({HANA})." in done.stdout
    assert config.load(home.config_file, {}).channels["discord"].owner == (HANA,)
    unanswered = finish(home, env, *asked, "--name", "other")
    assert unanswered.returncode != 0
    assert "discord takes `--secret`, `--owner`" in unanswered.stderr
    wrong = finish(home, {**env, "DISCORD_TOKEN": "wrong"}, *asked, "--name", "other", stdin="\n\n")
    assert "the bot's token is wrong" in wrong.stderr


def _connected(home: Home, env: dict[str, str]) -> None:
    until(lambda: "connected" in finish(home, env, "channels", "list").stdout)
