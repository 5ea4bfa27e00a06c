"""Channels on a home that really runs: signed requests come in, and answers leave, each once."""

import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from acceptance.agents import environment, finish, until
from acceptance.on_channels import HOOK_SECRET, Receiver, echo_word, post_signed, recalling
from acceptance.running import Served, serving
from acceptance.terminal import Terminal
from long_form import times
from nexus.home import Home
from nexus.testing import ModelServer


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def env(home: Home, server: ModelServer, receiver: Receiver) -> dict[str, str]:
    """A home with a channel, whose owner writes as `me`."""
    with home.config_file.open("a") as config:
        config.write(
            f'\n[channels.desk]\nkind = "webhook"\nsecret = "env:HOOK_SECRET"\nurl = "{receiver.url}"\n'
            'owner = ["me"]\n'
        )
    return environment(server, HOOK_SECRET=HOOK_SECRET)


def test_a_message_is_answered_by_the_same_channel_once(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    server.always(echo_word)
    with serving(home, env) as served:
        assert post_signed(served, "1", "This is word1").status_code == 202
        assert post_signed(served, "1", "This is word1").status_code == 202, "it comes again"
        until(lambda: receiver.got)
        assert receiver.got[0]["thread"] == "t"
        assert receiver.got[0]["reply_to"] == "1"
        listed = json.loads(finish(home, env, "channels", "list", "--json").stdout)
        assert listed[0]["status"] == "connected"
        wrong = {"nexus-signature": "t=1,v1=" + "0" * 64}
        for name in ("desk", "nothing"):
            refused = httpx.post(f"{served.url}/hooks/{name}", content=b"{}", headers=wrong, timeout=60)
            assert refused.status_code == 401
            assert "signature" in refused.text
    assert receiver.texts() == ["You said word1"]


def test_strangers_get_a_code_and_groups_are_heard_silently(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    server.always(echo_word)
    with serving(home, env) as served:
        post_signed(served, "1", "Let me in", sender="sam")
        until(lambda: receiver.got)
        code = receiver.texts()[0].split("code ")[1].rstrip(".")
        post_signed(served, "2", "Nobody asked: word2", sender="ann", is_group=True, is_addressed=False)
        approved = finish(home, env, "access", "approve", code)
        assert (approved.returncode, approved.stdout[:3]) == (0, "sam")
        post_signed(served, "3", "And now word3", sender="sam")
        until(lambda: len(receiver.got) == 2)
        assert finish(home, env, "recall", "Nobody asked").stdout.count("word2")
    assert receiver.texts()[1] == "You said word3"
    assert len(server.requests) == 1, "neither the stranger nor the group was answered by a model"


def test_what_the_owner_asks_in_a_group_is_answered_without_the_memory(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    server.always(recalling)
    with serving(home, env) as served:
        told = finish(home, env, "run", "--no-wait", "My door code is 4711-Zebra")
        assert told.returncode == 0, told.stderr
        post_signed(served, "1", "What is my door code? In a group", is_group=True)
        until(lambda: receiver.got)
        post_signed(served, "2", "What is my door code? Alone", thread="alone")
        until(lambda: len(receiver.got) == 2)
    bodies = [request.body for request in server.requests]
    in_group = [body for body in bodies if b"In a group" in body and b"Alone" not in body]
    assert len(in_group) >= 2, "asked, and told what was found"
    assert not any(b"Zebra" in body for body in in_group)
    assert any(b"Alone" in body and b"Zebra" in body for body in bodies), "alone, the owner is told"


def test_answers_in_groups_and_quiet_hours_are_set_while_it_runs(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    server.always(echo_word)
    with serving(home, env) as served:
        done = finish(
            home, env, "channels", "set", "desk", "--answer", "never", "--quiet-hours", "00:00-23:59"
        )
        assert done.returncode == 0, done.stderr
        assert "answers in groups: never; quiet hours: 00:00-23:59" in done.stdout
        post_signed(served, "1", "In a group: word1", is_group=True)
        post_signed(served, "2", "Alone: word2", thread="alone")
        until(lambda: receiver.got)
        assert receiver.texts() == ["You said word2"], "an answer doesn't wait for the end of quiet hours"
        assert finish(home, env, "channels", "set", "desk", "--reset").returncode == 0
        post_signed(served, "3", "In a group: word3", is_group=True)
        until(lambda: len(receiver.got) == 2)
    assert receiver.texts()[1] == "You said word3"
    wrong = finish(home, env, "channels", "set", "desk", "--quiet-hours", "late")
    assert "are no quiet hours" in wrong.stderr


def test_an_answer_waits_for_a_receiver_that_is_away(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    server.always(echo_word)
    receiver.status = 503
    with serving(home, env) as served:
        post_signed(served, "1", "This is word1")
        until(lambda: "1 to send" in finish(home, env, "channels", "list").stdout)
        receiver.status = 204
        until(lambda: receiver.got)
    assert receiver.texts() == ["You said word1"]


def test_killed_at_random_nothing_is_lost_or_answered_twice(
    home: Home, env: dict[str, str], server: ModelServer, receiver: Receiver
) -> None:
    """After a kill between sending and noting it, an answer may come again, under the same key."""
    server.always(echo_word)
    chance = random.Random(7)
    rounds, each = times(2, long=20), 4
    sent = rounds * each

    def send(served: Served, number: int) -> bool:
        return post_signed(served, f"m{number}", f"This is word{number}x", thread=f"t{number % 3}").is_success

    for round_ in range(rounds):
        served = Served(home, env)
        for number in range(round_ * each + 1, (round_ + 1) * each + 1):
            until(partial(send, served, number))
        time.sleep(chance.random())
        served.kill()
    with serving(home, env) as served:
        for number in range(1, sent + 1):
            assert send(served, number)
        until(lambda: len({each["key"] for each in receiver.got}) == sent)
        assert finish(home, env, "doctor", "--deep").returncode == 0
    by_key = {each["key"]: each["text"] for each in receiver.got}
    assert sorted(by_key.values()) == sorted(f"You said word{n}x" for n in range(1, sent + 1))
    for thread in {each["thread"] for each in receiver.got}:
        first = dict.fromkeys(each["text"] for each in receiver.got if each["thread"] == thread)
        numbers = [int(text.removeprefix("You said word").rstrip("x")) for text in first]
        assert numbers == sorted(numbers), "answers of a thread leave in order"


def test_up_lists_its_channels_and_names_those_that_connect_or_reconnect(
    home: Home, env: dict[str, str], tmp_path: Path
) -> None:
    script = (
        "import pathlib, time\n"
        "for name, line in (('there', '{\"type\": \"ready\"}'), ('gone', '')):\n"
        f"    while not pathlib.Path({str(tmp_path)!r}, name).exists(): time.sleep(0.05)\n"
        "    print(line, flush=True)\n"
    )
    with home.config_file.open("a") as config:
        config.write(f"\n[channels.door]\ncommand = {json.dumps([sys.executable, '-c', script])}\n")
    with closing(Terminal(home, env, "up", "--port", "0")) as terminal:
        terminal.wait_for("door (connecting)")
        assert "channels     desk (connect" in terminal.all
        terminal.wait_for("Press Ctrl-C to stop.")
        (tmp_path / "there").touch()
        terminal.wait_for("Connected to door.")
        (tmp_path / "gone").touch()
        terminal.wait_for("Reconnecting to door in 1 s: the program ended with code 0")
        terminal.wait_for("Connected to door.")
        terminal.type("\x03")
        assert terminal.ended() == 0
