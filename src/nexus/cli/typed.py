"""Where a chat gets its messages from: a line editor at a terminal, or the lines of a pipe."""

import asyncio
import termios
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import click
from prompt_toolkit import PromptSession
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from nexus.cli.place import lenient_input
from nexus.cli.terminal import printable
from nexus.cli.type_ahead import TypeAhead


class Typed(Protocol):
    """What a person types. None is the end."""

    async def next(self, draft: str = "", *, asks: bool = False) -> str | None:
        """The next message. It begins as the draft where it can be edited.

        With `asks` it answers a question, which what was typed before can't.
        """
        ...


class Editor:
    """A line with history and editing; Alt-Enter begins a further line of the same message."""

    def __init__(self, history: Sequence[str], ahead: TypeAhead) -> None:
        self._ahead = ahead
        remembered = InMemoryHistory()
        for line in history:
            remembered.append_string(line)
        self._session: PromptSession[str] = PromptSession(history=remembered, key_bindings=_keys())

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


async def asked(question: str, ahead: TypeAhead) -> str:
    """The answer to a question; nothing where Ctrl-C or Ctrl-D ended it.

    What was typed before the question was seen is no answer to it: it stays the beginning of the next
    message, or is thrown away.
    """
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


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction] - the decorator keeps it
        event.current_buffer.insert_text("\n")

    return keys
