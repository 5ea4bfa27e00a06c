"""An answer on a terminal as it comes: finished blocks of Markdown are printed, the last one is redrawn."""

import asyncio
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Final, TextIO

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown
from rich.segment import Segment, Segments
from rich.spinner import Spinner
from rich.text import Text

from nexus.cli.place import printable
from nexus.runs import with_elapsed

if TYPE_CHECKING:
    from nexus.cli.message_input import TypeAhead

_FRAME_S: Final = 0.1
_PARSER: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# Of a block that is longer than the screen, the end is what is being written.
_ROOM_LINES: Final = 4
# So many make a token of most languages and models, more or less.
_TOKEN_CHARACTERS: Final = 4


class _Heading(Heading):
    """Flush left, as everything else is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


def render_markdown(text: str) -> Markdown:
    """Render Markdown for a terminal. Links show where they lead."""
    return _Markdown(text, hyperlinks=False, code_theme="ansi_dark")


def measure_finished(text: str) -> int:
    """Measure how much of a text is in blocks that what follows can't change."""
    begins = [token.map[0] for token in _PARSER.parse(text) if token.level == 0 and token.map]
    last = max(begins, default=0)
    return sum(len(line) for line in text.splitlines(keepends=True)[:last])


class Writing:
    """Where one answer appears. `status` says what is happening while nothing is written."""

    def __init__(self, out: TextIO, notes: TextIO, ahead: "TypeAhead | None" = None) -> None:
        self._ahead = ahead
        self._shows_text = out.isatty()
        stream = out if self._shows_text else notes
        # A line editor has the screen while somebody types: then nothing is redrawn.
        self._redraws = stream.isatty() and sys.stdout is sys.__stdout__
        self._console = Console(file=stream, highlight=False, soft_wrap=False)
        self._live: Live | None = None
        self._tail = ""
        self._said = False
        self._spinner = Spinner("dots", style="dim")
        self._status, self._since = "", 0.0
        self._characters = 0

    @property
    def shares_notes(self) -> bool:
        """Whether notes must be printed here, because the same screen is redrawn."""
        return self._live is not None

    @contextmanager
    def open(self) -> Generator["Writing"]:
        """Redraw until the answer has ended."""
        if not self._redraws:
            yield self
            return
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        ticking = asyncio.ensure_future(self._tick())
        try:
            with self._live:
                yield self
                self.end()
        finally:
            ticking.cancel()
            self._live = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Leave the screen to somebody else for a while."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()
                self._live = live

    def status(self, text: str, since: float | None = None) -> None:
        """Say what is happening, since now or a time of the system's clock."""
        if text != self._status:
            self._status, self._since = text, time.time() if since is None else since
            self._characters = 0
        self._show_status()
        self._draw()

    def _show_status(self) -> None:
        text = with_elapsed(self._status, time.time() - self._since)
        if tokens := self._characters // _TOKEN_CHARACTERS:
            text += f", about {tokens:,} tokens"
        self._spinner.update(text=Text(f"{text}…", style="dim"))

    def note(self, text: str) -> None:
        """A quiet line among the answer."""
        self._console.print(Text(text, style="dim"))

    def add(self, text: str) -> None:
        """Show a piece of the answer."""
        if not self._shows_text:
            return
        self._tail += text
        self._characters += len(text)
        if done := measure_finished(self._tail):
            complete, self._tail = self._tail[:done], self._tail[done:]
            self._print(complete)
        self._draw()

    def end(self) -> None:
        """Print what is left: the answer is complete, or no more of it comes."""
        rest, self._tail = self._tail, ""
        self._print(rest)
        self._said = False
        self._draw()

    def _print(self, text: str) -> None:
        if text.strip():
            self._draw()
            if self._said:
                self._console.print()
            self._console.print(render_markdown(text.strip("\n")))
            self._said = True

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(Group(*self._list_parts()), refresh=True)

    def _list_parts(self) -> list[Segments | Spinner | Text]:
        shown: list[Segments | Spinner | Text] = []
        if self._tail.strip():
            lines = self._console.render_lines(render_markdown(self._tail), pad=False)
            room = max(1, self._console.height - _ROOM_LINES)
            kept = [line for row in lines[-room:] for line in (*row, Segment.line())]
            shown.append(Segments([Segment.line(), *kept] if self._said else kept))
        return [*shown, self._spinner, *self._list_typed()]

    def _list_typed(self) -> list[Text]:
        """What the person typed meanwhile, in one line each."""
        if self._ahead is None:
            return []
        lines = [f"  queued: {each}" for each in self._ahead.queued]
        lines += [f"> {self._ahead.draft}"] if self._ahead.draft else []
        shown = [Text(" ".join(printable(line).splitlines()), style="dim") for line in lines]
        for line in shown:
            line.truncate(self._console.width - 1, overflow="ellipsis")
        return shown

    async def _tick(self) -> None:
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(_FRAME_S)
                if self._live is not None:
                    self._show_status()
                    self._draw()
