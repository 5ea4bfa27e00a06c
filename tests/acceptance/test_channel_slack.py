"""Slack on a home that really runs: pairing, groups, files, kills and the setup."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.agents import environment, finish, until
from acceptance.on_channels import echo_word, recalling, sending
from acceptance.running import Served, serving
from attached_files import pdf, png
from long_form import times
from nexus import config
from nexus.home import Home
from nexus.testing import ModelServer
from slack_server import APP_TOKEN, BOT, DIRECT, GROUP, HANA, TOKEN, SlackServer

_SAM, _SAMS = "U0SAM", "D0SAM"


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    made = SlackServer()
    made.said[_SAMS] = []
    yield made
    made.close()


@pytest.fixture
def env(home: Home, server: ModelServer, slack: SlackServer) -> dict[str, str]:
    """A home with an app, whose owner is Hana."""
    with home.config_file.open("a") as file:
        file.write(
            '\n[channels.slack]\nkind = "slack"\nsecret = "env:BOT_TOKEN"\napp_token = "env:APP_TOKEN"\n'
            f'url = "{slack.url}"\nowner = ["{HANA}"]\n'
        )
    return environment(server, BOT_TOKEN=TOKEN, APP_TOKEN=APP_TOKEN)


def test_a_guest_in_a_group_or_alone_does_not_get_the_owners_memories(
    home: Home, env: dict[str, str], server: ModelServer, slack: SlackServer
) -> None:
    server.always(recalling)
    with serving(home, env):
        until(lambda: slack.connections)
        told = finish(home, env, "run", "--no-wait", "My door code is 4711-Zebra")
        assert told.returncode == 0, told.stderr
        slack.write("What is the door code? Owner")
        until(lambda: len(slack.sent) == 1)
        slack.write("Let me in", channel=_SAMS, user=_SAM)
        until(lambda: len(slack.sent) == 2)
        code = slack.texts()[1].split("code ")[1].rstrip(".")
        assert finish(home, env, "access", "approve", code).returncode == 0
        slack.write("What is the door code? Guest", channel=_SAMS, user=_SAM)
        until(lambda: len(slack.sent) == 3)
        slack.write("Nobody asked", channel=GROUP, user=_SAM)
        slack.write(f"<@{BOT}> What is the door code? Guest in a group", channel=GROUP, user=_SAM)
        until(lambda: len(slack.sent) == 4)
        slack.write(f"<@{BOT}> What is my door code? In public", channel=GROUP)
        until(lambda: len(slack.sent) == 5)
        assert finish(home, env, "doctor", "--deep").returncode == 0
    assert [each["channel"] for each in slack.sent] == [DIRECT, _SAMS, _SAMS, GROUP, GROUP]
    bodies = [request.body for request in server.requests]
    assert any(b"Owner" in body and b"Zebra" in body for body in bodies), "alone, the owner is told"
    others = [body for body in bodies if b"Guest" in body or b"In public" in body]
    assert len(others) >= 6
    assert not any(b"Zebra" in body for body in others)


def test_files_go_both_ways(
    home: Home, env: dict[str, str], server: ModelServer, slack: SlackServer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "map.png").write_bytes(png())
    slack.files["a.pdf"] = pdf("Zebra crossing")
    server.always(sending(shared / "map.png"))
    with serving(home, {**env, "NEXUS_TOOLS_DIRECTORIES": str(shared)}):
        until(lambda: slack.connections)
        attached = {
            "name": "a.pdf",
            "mimetype": "application/pdf",
            "url_private": f"{slack.origin}/files/a.pdf",
        }
        slack.write("Read this: word1", subtype="file_share", files=[attached])
        until(lambda: len(slack.sent) == 1)
        slack.write("Send me the file")
        until(lambda: slack.uploaded)
    assert b"Zebra crossing" in server.requests[0].body, "the model read the PDF"
    assert slack.texts() == ["You said word1", "Here is the file."]
    assert slack.uploaded == [("map.png", png())]


def test_killed_at_random_nothing_that_was_said_is_lost(
    home: Home, env: dict[str, str], server: ModelServer, slack: SlackServer
) -> None:
    """Slack has no idempotency keys: after a kill an answer may come again."""
    server.always(echo_word)
    chance = random.Random(4)
    expected: set[str] = set()
    with serving(home, env):
        until(lambda: slack.connections)
        slack.write("This is wordready")
        until(lambda: slack.sent)
    for round_ in range(times(1, long=10)):
        served = Served(home, env)
        for number in range(round_ * 2, round_ * 2 + 2):
            slack.write(f"This is word{number}x")
            expected.add(f"You said word{number}x")
        time.sleep(2 * chance.random())
        served.kill()
        slack.write(f"This is word{round_}down")
        expected.add(f"You said word{round_}down")
    with serving(home, env):
        until(lambda: expected <= {*slack.texts()})
        assert finish(home, env, "doctor", "--deep").returncode == 0
    assert {*slack.texts()} == {*expected, "You said wordready"}


def test_the_setup_by_questions_and_by_options(home: Home, server: ModelServer, slack: SlackServer) -> None:
    env = environment(server, SLACK_TOKEN=TOKEN, SLACK_APP_TOKEN=APP_TOKEN)
    asked = ("channels", "add", "slack", "--url", slack.url)
    done = finish(home, env, *asked, stdin=f"\n\n{HANA}\n")
    assert done.returncode == 0, done.stderr
    assert "Connected as @nexus." in done.stdout
    assert f"{HANA} is Hana Ito." in done.stdout
    settings = config.load(home.config_file, {}).channels["slack"]
    assert (settings.owner, settings.secret) == ((HANA,), "env:SLACK_TOKEN")
    assert settings.app_token == "env:SLACK_APP_TOKEN"
    unanswered = finish(home, env, *asked, "--name", "other")
    assert unanswered.returncode != 0
    assert "slack takes `--secret`, `--app-token`, `--owner`" in unanswered.stderr
    options = ("--secret", "env:SLACK_TOKEN", "--app-token", "env:SLACK_APP_TOKEN", "--owner", HANA)
    done = finish(home, env, *asked, "--name", "other", *options)
    assert done.returncode == 0, done.stderr
    wrong = finish(home, {**env, "SLACK_TOKEN": "wrong"}, *asked, "--name", "third", *options)
    assert "Can't log in: Slack: invalid_auth" in wrong.stderr
