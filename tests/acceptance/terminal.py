"""The program on a terminal of its own, as a person has it in front of them."""

import os
import pty
import subprocess
import time
from contextlib import suppress

from acceptance.agents import PATIENCE_S
from acceptance.program import NEXUS
from nexus.home import Home

_AGAIN_S = 5.0


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, home: Home, env: dict[str, str], *arguments: str) -> None:
        self._terminal, inside = pty.openpty()
        self.process = subprocess.Popen(
            # Its own session, with this terminal as the one that Ctrl-C comes from. Whoever runs the tests in
            # the background ignores that signal, and so would the program.
            [
                "/usr/bin/env",
                "--default-signal=INT",
                "setsid",
                "--ctty",
                str(NEXUS),
                "--home",
                str(home.root),
                *arguments,
            ],
            env={**env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            stdin=inside,
            stdout=inside,
            stderr=inside,
        )
        os.close(inside)
        os.set_blocking(self._terminal, False)
        self.seen = ""
        """What was printed since what was last waited for."""
        self.all = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self, text: str) -> None:
        """Press Ctrl-C, and once more now and then until that is printed.

        Python does not notice a signal between its last look and the beginning of a read.
        """
        self.wait_for(text, typing="\x03")

    def wait_for(self, text: str, *, typing: str = "") -> None:
        """Wait until that was printed after what was waited for before; type something meanwhile."""
        deadline, typed = time.monotonic() + PATIENCE_S, 0.0
        while text not in self.seen:
            if typing and time.monotonic() - typed > _AGAIN_S:
                self.type(typing)
                typed = time.monotonic()
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.seen[-2000:]!r}"
            self._read()
            time.sleep(0.02)
        self.seen = self.seen.partition(text)[2]

    def ended(self) -> int:
        """Read to the end of the program; returns its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on: {self.seen[-2000:]!r}"
            self._read()
            time.sleep(0.02)
        self._read()
        return self.process.returncode

    def read(self) -> str:
        """Everything that was printed so far."""
        self._read()
        return self.all

    def _read(self) -> None:
        with suppress(OSError):
            text = os.read(self._terminal, 1 << 16).decode(errors="replace")
            self.seen += text
            self.all += text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._terminal)
