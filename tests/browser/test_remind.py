"""A reminder typed in a chat arrives once, at its time: in the terminal, in the browser and on a channel.

`nexus up`, `nexus chat`, a channel's program and Chromium really run. Each start sets the program's clock, so
nights and days pass between two of them.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from acceptance.agents import PATIENCE_S, environment, finish, until
from acceptance.running import Served
from acceptance.terminal import Terminal
from browser.conftest import PATIENCE_MS
from clocks import WrongClock
from long_form import times
from new_homes import new_home
from nexus import clock
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn

_SESSION: Final = "desk"
_THREAD: Final = "t1"
# Hands over the lines of `inbox`, each until it is accepted, and writes what it is given into `outbox`.
_ADAPTER: Final = """
import json, pathlib, sys, threading, time
folder, told = pathlib.Path(sys.argv[1]), threading.Lock()
def tell(**line):
    with told: print(json.dumps(line), flush=True)
def listen():
    read = 0
    while True:
        lines = (folder / "inbox").read_text().splitlines()
        for line in lines[read:]:
            tell(type="message", **json.loads(line))
        read = len(lines)
        time.sleep(0.05)
tell(type="ready")
threading.Thread(target=listen, daemon=True).start()
for line in sys.stdin:
    given = json.loads(line)
    if given["type"] == "deliver":
        with (folder / "outbox").open("a") as outbox: outbox.write(json.dumps(given) + "\\n")
        tell(type="delivered", key=given["key"], id=given["key"])
"""


@dataclass(kw_only=True)
class Scene:
    """A home whose program can be started at any time of its own, and killed."""

    home: Home
    model: ModelServer
    folder: Path
    browser: Browser
    clock: WrongClock
    missed: str = "once"
    env: dict[str, str] = field(default_factory=dict[str, str])
    running: Served | None = None

    @property
    def served(self) -> Served:
        assert self.running is not None
        return self.running

    def start(self, at: datetime) -> None:
        """Serve the home with a clock that shows a time now."""
        self.clock.show(at)
        self.env = environment(
            self.model, TZ="Europe/Berlin", NEXUS_AUTOMATIONS_MISSED=self.missed, **self.clock.variables
        )
        self.running = Served(self.home, self.env, "--port", "0")

    def kill(self) -> None:
        self.served.kill()
        self.running = None

    def stop(self) -> None:
        assert self.served.stop() == 0
        self.running = None

    def chat(self) -> Terminal:
        terminal = Terminal(self.home, self.env, "chat", "--session", _SESSION)
        terminal.wait_for(">")
        return terminal

    def page(self) -> Page:
        """The chat in a browser that has just come in."""
        context = self.browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        token = {"authorization": f"Bearer {self.home.token()}"}
        link = httpx.post(f"{self.served.url}/api/login-links", headers=token, timeout=PATIENCE_S)
        page.goto(link.json()["url"])
        page.wait_for_url("**/")
        page.goto(f"{self.served.url}/chat/{_SESSION}")
        return page

    def write(self, text: str) -> None:
        """The owner writes to the channel."""
        line = {"id": text, "thread": _THREAD, "sender": "me", "text": text}
        with (self.folder / "inbox").open("a") as inbox:
            inbox.write(json.dumps(line) + "\n")

    def delivered(self) -> list[str]:
        """What the channel's program was given to send: once by its key, for a kill may give it again."""
        given = [json.loads(line) for line in (self.folder / "outbox").read_text().splitlines()]
        return list({each["key"]: each["text"] for each in given}.values())

    def reminders(self) -> list[dict[str, Any]]:
        return json.loads(finish(self.home, self.env, "remind", "list", "--json").stdout)

    def sent(self) -> list[tuple[str, str, datetime]]:
        """Everything that was sent unasked: the channel, the text and the time."""
        query = (
            "SELECT channel, content, occurred_at FROM events"
            " WHERE direction = 'outbound' AND reply_to_event_id IS NULL ORDER BY channel, seq"
        )
        with closing(apsw.Connection(str(self.home.data / "events.db"))) as connection:
            rows = connection.execute(query).fetchall()
        return [(str(channel), str(text), clock.parse(str(at))) for channel, text, at in rows]


@pytest.fixture
def scene(tmp_path: Path, browser: Browser) -> Iterator[Scene]:
    home = new_home(tmp_path / "home")
    for file in ("inbox", "outbox"):
        (tmp_path / file).touch()
    adapter = tmp_path / "adapter.py"
    adapter.write_text(_ADAPTER)
    command = json.dumps([sys.executable, str(adapter), str(tmp_path)])
    with home.config_file.open("a") as config:
        config.write(f'\n[channels.post]\nkind = "program"\ncommand = {command}\nowner = ["me"]\n')
    with ModelServer() as model:
        model.always(_agent)
        made = Scene(home=home, model=model, folder=tmp_path, browser=browser, clock=WrongClock(tmp_path))
        yield made
        if made.running is not None:
            made.kill()


def _agent(request: ModelRequest) -> Turn:
    """Saves what it is asked to, with its tool."""
    if "tool_result" in str(request.json["messages"][-1]):
        return Turn("Saved.")
    _, _, asked = request.last_user.rpartition("Remind me: ")
    when, _, text = asked.partition(", ")
    return Turn("", [ToolCall("schedule", {"op": "say", "when": when, "text": text.strip()})])


def _ask(scene: Scene, when: str) -> None:
    """Type a reminder in the terminal, in the browser and on the channel."""
    with closing(scene.chat()) as terminal:
        terminal.type(f"/remind {when} call Anna\r")
        terminal.wait_for("Nexus says: call Anna")
        terminal.wait_for("Save it?")
        terminal.type("y\r")
        terminal.wait_for("Saved. /reminders lists them.")
    page = scene.page()
    page.get_by_label("Message").fill(f"/remind {when} water the roses")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Save reminder").click()
    expect(page.locator(".answer").last).to_contain_text("Saved: ")
    page.context.close()
    scene.write(f"Remind me: {when}, post the letter")
    until(scene.delivered)
    assert scene.delivered() == ["Saved."]


@pytest.mark.parametrize(
    ("asked", "when", "due"),
    [
        pytest.param(
            datetime(2031, 3, 29, 19, 0, tzinfo=UTC),
            "tomorrow at 9",
            datetime(2031, 3, 30, 7, 0, tzinfo=UTC),
            id="clocks go forward",
        ),
        pytest.param(
            datetime(2031, 10, 25, 18, 0, tzinfo=UTC),
            "tomorrow at 9",
            datetime(2031, 10, 26, 8, 0, tzinfo=UTC),
            id="clocks go back",
        ),
    ][-times(1, long=2) :],
)
def test_a_reminder_arrives_once_at_its_time_after_a_kill_and_a_night_in_which_clocks_change(
    scene: Scene, asked: datetime, when: str, due: datetime
) -> None:
    scene.start(asked)
    _ask(scene, when)
    scene.kill()

    # Half an hour early: nothing comes, whichever of the two clocks one goes by.
    scene.start(due - timedelta(minutes=30))
    assert [each["next_at"] for each in scene.reminders()] == [clock.timestamp(due)] * 3
    assert scene.sent() == []
    page = scene.page()
    with closing(scene.chat()) as terminal:
        scene.clock.show(due - timedelta(seconds=2))
        # Both screens show what was typed on either; nobody types or reloads anything.
        for text in ("call Anna", "water the roses"):
            expect(page.locator(".answer", has_text=text)).to_have_count(1)
        until(lambda: "call Anna" in terminal.read() and "water the roses" in terminal.read())
        until(lambda: "post the letter" in scene.delivered())
        expect(page.locator(".answer", has_text="water the roses")).to_have_count(1)
        scene.stop()
        terminal.read()
        assert [terminal.all.count(text) for text in ("call Anna", "water the roses")] == [1, 1]
    page.context.close()

    # A day later everything is done, and nothing comes again.
    scene.start(due + timedelta(days=1))
    assert [each["state"] for each in scene.reminders()] == ["done"] * 3
    page = scene.page()
    for text in ("call Anna", "water the roses"):
        expect(page.locator(".answer", has_text=text)).to_have_count(1)
    page.context.close()
    scene.stop()

    assert scene.delivered() == ["Saved.", "post the letter"]
    sent = scene.sent()
    assert [(channel, text) for channel, text, _ in sent] == [
        ("cli", "call Anna"),
        ("post", "post the letter"),
        ("web", "water the roses"),
    ]
    assert all(at >= due for _, _, at in sent)


@pytest.mark.parametrize("missed", ["once", "skip"][: times(1, long=2)])
def test_after_a_day_of_downtime_a_reminder_arrives_once_or_not_at_all_as_set(
    scene: Scene, missed: str
) -> None:
    scene.missed = missed
    asked = datetime(2031, 5, 5, 8, 0, tzinfo=UTC)
    scene.start(asked)
    _ask(scene, "in two hours")
    scene.kill()

    scene.start(asked + timedelta(days=1, hours=2))
    state = "done" if missed == "once" else "missed"
    until(lambda: [each["state"] for each in scene.reminders()] == [state] * 3)
    texts = ("call Anna", "water the roses", "post the letter")
    if missed == "once":
        until(lambda: len(scene.delivered()) > 1)
        page = scene.page()
        for text in texts[:2]:
            expect(page.locator(".answer", has_text=text)).to_contain_text("delivered late")
        page.context.close()
        with closing(scene.chat()) as terminal:
            until(lambda: all(text in terminal.read() for text in texts[:2]))
    scene.stop()

    scene.start(asked + timedelta(days=3))
    assert [each["state"] for each in scene.reminders()] == [state] * 3
    scene.stop()
    arrived = [text for _, text, _ in scene.sent()]
    expected = 1 if missed == "once" else 0
    assert [sum(text in each for each in arrived) for text in texts] == [expected] * 3
    assert sum("post the letter" in each for each in scene.delivered()) == expected
    assert all("delivered late because Nexus was not running" in each for each in arrived)
