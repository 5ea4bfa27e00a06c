"""What a person types at a terminal while the agent works: shown below the answer, and sent after it."""

import asyncio
import codecs
import os
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from nexus import extras

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyPress

_READ_BYTES: Final = 4096
_LOCAL_FLAGS: Final = 3
# Has the terminal mark what is pasted, so that its line breaks don't send it in pieces.
_MARK_PASTES, _UNMARK_PASTES = "\x1b[?2004h", "\x1b[?2004l"


class TypeAhead:
    """Messages that wait until the agent has answered, and the beginning of the next one.

    The terminal's own echo would land in the middle of the answer. Ctrl-C interrupts as always. Without the
    `terminal` extra the keyboard stays as it is.
    """

    def __init__(self) -> None:
        self.queued: list[str] = []
        self.draft = ""
        self._previous: list[int | list[bytes | int]] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._escaped = False

    def start(self) -> None:
        """Take over the keyboard, where there is one."""
        if self._previous is not None or not extras.is_installed("terminal"):
            return
        # Imported here, because not every home has it.
        from prompt_toolkit.input.vt100_parser import Vt100Parser

        self._parser = Vt100Parser(self.press)
        with suppress(termios.error, OSError, ValueError):
            keyboard = sys.stdin.fileno()
            previous = termios.tcgetattr(keyboard)
            attributes = termios.tcgetattr(keyboard)
            attributes[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(keyboard, termios.TCSANOW, attributes)
            self._previous = previous
            asyncio.get_running_loop().add_reader(keyboard, self._read)
            self._write(_MARK_PASTES)

    def stop(self) -> None:
        """Leave the keyboard to whoever reads it next, as it was."""
        if self._previous is None:
            return
        keyboard = sys.stdin.fileno()
        asyncio.get_running_loop().remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSANOW, self._previous)
        self._previous = None
        self._write(_UNMARK_PASTES)

    def next_message(self) -> str | None:
        """The message that has waited longest."""
        return self.queued.pop(0) if self.queued else None

    def take_draft(self) -> str:
        """What was typed and not sent."""
        draft, self.draft = self.draft, ""
        return draft

    def hold(self) -> None:
        """Send nothing of what waits: it becomes the draft, to be edited."""
        self.draft = "\n".join([*self.queued, *([self.draft] if self.draft else [])])
        self.queued.clear()

    def _read(self) -> None:
        with suppress(OSError):
            self._parser.feed(self._decoder.decode(os.read(sys.stdin.fileno(), _READ_BYTES)))
            self._parser.flush()

    def press(self, press: "KeyPress") -> None:
        """Take a key."""
        from prompt_toolkit.keys import Keys

        escaped, self._escaped = self._escaped, press.key == Keys.Escape
        if press.key in {Keys.ControlM, Keys.ControlJ}:
            if escaped:
                self.draft += "\n"
            elif self.draft.strip():
                self.queued.append(self.take_draft())
        elif press.key == Keys.ControlH:
            self.draft = self.draft[:-1]
        elif press.key == Keys.ControlU:
            self.draft = ""
        elif press.key == Keys.Up and self.queued:
            self.draft = self.queued.pop() + self.draft
        elif press.key == Keys.BracketedPaste:
            self.draft += press.data.replace("\r\n", "\n").replace("\r", "\n")
        elif len(press.data) == 1 and press.data.isprintable():
            self.draft += press.data

    def _write(self, code: str) -> None:
        with suppress(OSError, ValueError):
            sys.stdout.write(code)
            sys.stdout.flush()
