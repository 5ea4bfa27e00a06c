"""The chat in a real terminal: what is typed while the agent works, edit, retry and an approval in place."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.agents import answers, environment, until
from acceptance.program import NEXUS
from attached_files import png
from nexus.home import Home
from nexus.testing import Hold, ModelServer, ToolCall, Turn

# Where the line editor has the keyboard; while the agent works, nothing stands there.
_PROMPT = "\n>\n"


class Tmux:
    """A terminal of 100 columns and 40 rows, with a server of its own."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout

    def type(self, text: str, *keys: str) -> None:
        self.run("send-keys", "-l", text)
        for key in keys:
            self.run("send-keys", key)

    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-J")

    def wait_for(self, *texts: str) -> str:
        """Wait until all of that is on the screen."""
        until(lambda: all(text in self.screen() for text in texts))
        return self.screen()


@pytest.fixture
def tmux(home: Home, server: ModelServer, tmp_path: Path) -> Iterator[Tmux]:
    # The clipboard of this terminal: a picture, if `tmp_path / "copied"` holds one.
    clipboard = tmp_path / "wl-paste"
    clipboard.write_text(
        f'#!/bin/sh\ncd {tmp_path}\ncase "$*" in *image/png*) cat copied;; *uri-list*) cat listed;; esac\n'
    )
    clipboard.chmod(0o755)
    env = {**os.environ, **environment(server, NEXUS_TOOLS_ASK="bash"), "TERM": "screen-256color"}
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    made = Tmux(tmp_path)
    chat = shlex.join([str(NEXUS), "--home", str(home.root), "chat"])
    made.run("new-session", "-d", "-x", "100", "-y", "40", chat, env=env)
    try:
        yield made
    finally:
        subprocess.run(["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], timeout=60)


def test_what_is_typed_while_the_agent_works_waits_in_line(
    home: Home, server: ModelServer, tmux: Tmux
) -> None:
    server.script(Turn("Once upon a time. " * 5, faults=[Hold(gate="story", after_deltas=2)]))
    server.script("Two.", "Three.", "Four.")
    tmux.wait_for(">")
    tmux.type("Tell me a story", "Enter")
    server.wait_until(lambda: server.gate("story").waiting)
    tmux.type("and a second", "Enter")
    tmux.type("and a thirt", "BSpace")
    shown = tmux.wait_for("queued: and a second", "> and a thir")
    assert shown.count("and a second") == 1, "the terminal's echo isn't in the answer"
    server.gate("story").open()
    tmux.wait_for("Two.", "> and a thir")
    tmux.type("d", "Enter")
    shown = tmux.wait_for("Three.", _PROMPT)
    assert shown.index("Once upon") < shown.index("> and a second") < shown.index("Two.")
    assert shown.index("> and a third") < shown.index("Three.")
    tmux.run("send-keys", "Up")
    tmux.type("?", "Enter")
    tmux.wait_for("> and a third?", "Four.")
    until(lambda: answers(home)[1:] == ["Two.", "Three.", "Four."])


def test_edit_retry_and_an_approval_in_place(home: Home, server: ModelServer, tmux: Tmux) -> None:
    call = Turn("", [ToolCall("bash", {"command": "echo made"})])
    server.script("Hello Bob.", "Hello Ben.", "Good day, Ben.", call, "It is made.")
    tmux.wait_for(">")
    tmux.type("I am Bob", "Enter")
    tmux.wait_for("Hello Bob.")
    tmux.type("/edit", "Enter")
    tmux.wait_for("> I am Bob\n\n")
    tmux.type("", "BSpace", "BSpace")
    tmux.type("en", "Enter")
    tmux.wait_for("Hello Ben.")
    tmux.type("/retry", "Enter")
    tmux.wait_for("Good day, Ben.")
    assert "Bob" not in str(server.requests[-1].json["messages"])
    tmux.type("Make it", "Enter")
    tmux.wait_for("│ echo made", "[y]es, for this [s]ession")
    tmux.type("y", "Enter")
    tmux.wait_for("It is made.")
    until(lambda: answers(home)[-1] == "It is made.")


def test_a_copied_picture_is_pasted_with_the_words_around_it(
    server: ModelServer, tmux: Tmux, tmp_path: Path
) -> None:
    server.script("A map.")
    tmux.wait_for(">")
    tmux.run("send-keys", "C-v")
    tmux.wait_for("gave no picture and no file")
    (tmp_path / "listed").write_text("file://[broken")
    tmux.run("send-keys", "C-v")
    tmux.wait_for("Can't read the clipboard: Invalid IPv6 URL")
    (tmp_path / "listed").unlink()
    (tmp_path / "copied").write_bytes(png())
    tmux.type("what is this?", "C-v")
    tmux.wait_for("clipboard-1.png what is this?")
    tmux.type(" A map?", "Enter")
    tmux.wait_for("includes clipboard-1.png", "A map.")
    content = str(server.requests[-1].json["messages"][-1]["content"])
    assert "what is this? A map?" in content
    assert "image" in content
