"""Where a chat gets its messages from: a line editor at a terminal, or the lines of a pipe."""

import asyncio
import codecs
import os
import shlex
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

import click

from nexus import extras
from nexus.cli.place import lenient_input, printable

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent

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


# Each prints what the clipboard holds of a kind: Wayland's, X11's, and a common one for macOS.
_CLIPBOARDS: Final = (
    ("wl-paste", "--no-newline", "--type"),
    ("xclip", "-selection", "clipboard", "-out", "-target"),
    ("pngpaste", "-"),
)
_CLIPBOARD_S: Final = 5
_IMAGES: Final = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}


class MessageInput(Protocol):
    """What a person types. None is the end."""

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        """The next message. It begins as the draft where it can be edited.

        With `asks` it answers a question, which what was typed before can't.
        """
        ...


class Editor:
    """A line with history and editing; Alt-Enter begins a further line of the same message."""

    def __init__(self, history: Sequence[str], ahead: TypeAhead) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory

        self._ahead = ahead
        remembered = InMemoryHistory()
        for line in history:
            remembered.append_string(line)
        self._pasted = tempfile.TemporaryDirectory(prefix="nexus-pasted-")
        self._session: PromptSession[str] = PromptSession(history=remembered, key_bindings=self._keys())

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        """The next message. Ctrl-C clears the line, Ctrl-D on an empty one is the end."""
        if not draft and not asks:
            if (waiting := self._ahead.next_message()) is not None:
                click.echo(f"> {printable(waiting)}")
                self._session.history.append_string(waiting)
                return waiting
            draft = self._ahead.take_draft()
        self._ahead.stop()
        try:
            return await self._edit(draft)
        finally:
            self._ahead.start()

    async def _edit(self, draft: str) -> str | None:
        from prompt_toolkit.patch_stdout import patch_stdout

        while True:
            try:
                # What a worker's result leads to may be printed while somebody types. Raw, so that notes keep
                # their style: what others wrote was made printable before.
                with patch_stdout(raw=True):
                    return await self._session.prompt_async("> ", default=draft)
            except KeyboardInterrupt:
                if draft:
                    return ""
            except EOFError:
                return None

    def _keys(self) -> "KeyBindings":
        from prompt_toolkit.application import run_in_terminal
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: "KeyPressEvent") -> None:  # pyright: ignore[reportUnusedFunction] - the decorator keeps it
            event.current_buffer.insert_text("\n")

        @keys.add("c-v")
        async def _(event: "KeyPressEvent") -> None:  # pyright: ignore[reportUnusedFunction] - the decorator keeps it
            try:
                paths, problem = await asyncio.to_thread(read_clipboard, Path(self._pasted.name))
            except (OSError, ValueError) as error:
                paths, problem = [], printable(f"Can't read the clipboard: {error}")
            if problem:
                await run_in_terminal(lambda: click.secho(problem, dim=True))
                return
            # Files come first in a line, as a terminal types those that are dragged into it.
            buffer = event.current_buffer
            at = buffer.cursor_position
            buffer.cursor_position = 0
            buffer.insert_text("".join(f"{shlex.quote(str(path))} " for path in paths))
            buffer.cursor_position += at

        return keys


def read_clipboard(folder: Path) -> tuple[list[Path], str]:
    """Return the files that were copied, a picture as a new file in a folder, or what prevents it."""
    problem = "To paste pictures, install wl-clipboard (Wayland), xclip (X11) or pngpaste (macOS)."
    for command in _CLIPBOARDS:
        kinds = ("text/uri-list", "image/png", "image/jpeg") if command[0] != "pngpaste" else ("",)
        for kind in kinds:
            try:
                ended = subprocess.run(  # noqa: S603 - a fixed command
                    [*command, *filter(None, [kind])], capture_output=True, timeout=_CLIPBOARD_S, check=False
                )
            except (OSError, subprocess.SubprocessError):
                break
            given, words = ended.stdout, ended.stderr.decode(errors="replace").strip().splitlines()
            # Programs fail alike if the clipboard holds text only and if there is no display: they say which.
            why = f" ({printable(words[0][:200])})" if ended.returncode and words else ""
            problem = f"The clipboard gave no picture and no file{why}. To paste text, press Ctrl-Shift-V."
            if kind == "text/uri-list":
                addresses = (urlsplit(line) for line in given.decode(errors="replace").split())
                files = [Path(unquote(each.path)) for each in addresses if each.scheme == "file"]
                if found := [path for path in files if path.is_file()]:
                    return found, ""
            for begin, ending in _IMAGES.items():
                if given.startswith(begin):
                    path = folder / f"clipboard-{len(list(folder.iterdir())) + 1}.{ending}"
                    path.write_bytes(given)
                    return [path], ""
    return [], problem


class PlainEditor:
    """A line as Python's own `input` reads it, without the `terminal` extra."""

    def __init__(self, history: Sequence[str]) -> None:
        import readline

        for line in history:
            readline.add_history(line)

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        """The next message. Ctrl-C and Ctrl-D are the end."""
        return await _read_line("> ", draft)


class Lines:
    """The lines of standard input. They are read by a thread that does not outlive the program."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        return await self._lines.get()

    def _read(self) -> None:
        for line in lenient_input():
            self._add(line.rstrip("\n"))
        self._add(None)

    def _add(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


async def ask_approval(question: str, ahead: TypeAhead) -> str:
    """The answer to a question; nothing where Ctrl-C or Ctrl-D ended it.

    What was typed before the question was seen is no answer to it: it stays the beginning of the next
    message, or is thrown away.
    """
    if not extras.is_installed("terminal"):
        with suppress(termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        return await _read_line(question) or ""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input.typeahead import clear_typeahead
    from prompt_toolkit.patch_stdout import patch_stdout

    ahead.stop()
    session = PromptSession[str]()
    clear_typeahead(session.input)
    with suppress(termios.error):
        termios.tcflush(session.input.fileno(), termios.TCIFLUSH)
    try:
        # What else the run does meanwhile is printed above the question.
        with patch_stdout(raw=True):
            return await session.prompt_async(question)
    except (KeyboardInterrupt, EOFError):
        return ""
    finally:
        ahead.start()


async def _read_line(prompt: str, draft: str = "") -> str | None:
    """A line of the terminal, read by a thread that does not outlive the program; None is the end."""
    import readline

    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()
    keyboard = termios.tcgetattr(sys.stdin.fileno())

    def give(text: str | None) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = None
        with suppress(EOFError):
            text = input(prompt)
        if not loop.is_closed():
            loop.call_soon_threadsafe(give, text)

    readline.set_startup_hook(lambda: readline.insert_text(draft))
    threading.Thread(target=read, daemon=True).start()
    try:
        return await line
    finally:
        # Interrupted, the thread leaves the terminal as it was while somebody typed.
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, keyboard)
