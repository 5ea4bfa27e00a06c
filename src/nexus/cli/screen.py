"""An answer on a terminal: Markdown rendered as it comes, tool calls as quiet lines, a spinner meanwhile."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TextIO

import click

from nexus import clock
from nexus.cli.place import printable
from nexus.runs import MICRO, Delta, Result, Run, Totals
from nexus.text import join_lines, shorten

if TYPE_CHECKING:
    from nexus.cli.message_input import TypeAhead
    from nexus.cli.writing import Writing

_ARGUMENTS_SHOWN = 100


Approve = Callable[[Delta], Awaitable[None]]
"""Asks the person at the terminal about a call that waits."""


class _Questions:
    """The calls of a run that wait for the owner: each is shown and asked about after the one before."""

    def __init__(
        self, writing: "Writing", show: Callable[[Delta, "Writing"], None], approve: Approve
    ) -> None:
        self._writing = writing
        self._show = show
        self._approve = approve
        self._waiting: dict[str, Delta] = {}
        """By the id of the call, the oldest first."""
        self._current: tuple[Delta, asyncio.Future[None]] | None = None
        self._work: asyncio.Task[None] | None = None

    def update(self, delta: Delta) -> None:
        """Ask about a call that waits now, and no longer about calls that ended."""
        if delta.kind in {"begin", "end"}:  # the model goes on, so none of its calls waits
            for call_id in tuple(self._waiting):
                self._drop(call_id)
        elif delta.kind == "tool_result":
            self._drop(delta.call_id)
        elif delta.kind == "approval" and self._waiting.get(delta.call_id) != delta:
            self._drop(delta.call_id)
            self._waiting[delta.call_id] = delta
            if self._work is None or self._work.done():
                self._work = asyncio.ensure_future(self._ask())

    async def close(self) -> None:
        """Take back the question that is being asked, and all others."""
        self.update(Delta(kind="end"))
        if self._work is not None:
            await self._work

    def _drop(self, call_id: str) -> None:
        dropped = self._waiting.pop(call_id, None)
        if dropped is not None and self._current is not None and self._current[0] is dropped:
            self._current[1].cancel()

    async def _ask(self) -> None:
        while self._waiting:
            delta = next(iter(self._waiting.values()))
            self._show(delta, self._writing)
            with self._writing.paused():
                answer = asyncio.ensure_future(self._approve(delta))
                self._current = delta, answer
                await asyncio.wait({answer})
            if not answer.cancelled():
                answer.result()
            if self._waiting.get(delta.call_id) is delta:
                del self._waiting[delta.call_id]


class Screen:
    """Where a person reads along. Notes go beside the answer, so that a pipe gets the answer alone."""

    def __init__(
        self, out: TextIO | None = None, notes: TextIO | None = None, *, ahead: "TypeAhead | None" = None
    ) -> None:
        self._ahead = ahead
        self._given_out = out
        self._given_notes = notes
        self._live = self._out.isatty()
        self._writing: Writing | None = None
        self._said = False
        self._waits_for = ""

    # Looked up each time: a line editor puts its own in their place while somebody types.

    @property
    def _out(self) -> TextIO:
        return self._given_out or sys.stdout

    @property
    def _notes(self) -> TextIO:
        return self._given_notes or sys.stderr

    async def follow(self, run: Run, approve: Approve | None = None) -> Result:
        """Show a run until it has ended; its result, or the error that says why it has none.

        `approve` is told of calls that wait for the owner, one at a time. It is canceled once its call was
        decided elsewhere.
        """
        self._said = False
        with self._new_writing().open() as writing:
            self._writing = writing
            writing.status("thinking")
            questions = _Questions(writing, self._show, approve) if approve is not None else None
            try:
                async for delta in run.deltas():
                    if questions is not None:
                        questions.update(delta)
                    if questions is None or delta.kind != "approval":
                        self._show(delta, writing)
                    if questions is None and delta.kind == "approval":
                        self.note(f"  Allow it with `nexus approvals allow {delta.approval_id}`.")
                writing.end()
            finally:
                if questions is not None:
                    await questions.close()
                self._writing = None
        result = await run.result()
        if not self._live:
            click.echo(result.response.content, file=self._out)
        elif not self._said:
            # What was written of it is gone already: another process answered some time ago.
            self.markdown(result.response.content)
        return result

    def _new_writing(self) -> "Writing":
        # Imported here: by now the agent is at work, and drawing takes longer to import than to ask it.
        from nexus.cli.writing import Writing

        return Writing(self._out, self._notes, self._ahead)

    def line(self, text: str) -> None:
        """A line that was asked for."""
        click.echo(printable(text), file=self._out)

    def markdown(self, text: str) -> None:
        """A text that somebody wrote, rendered at a terminal."""
        if not self._live:
            click.echo(printable(text), file=self._out)
            return
        writing = self._new_writing()
        writing.add(printable(text))
        writing.end()

    def note(self, text: str) -> None:
        """A line beside the answer."""
        if self._writing is not None and self._writing.shares_notes:
            self._writing.note(printable(text))
        else:
            click.secho(printable(text), file=self._notes, dim=True)

    def _show(self, delta: Delta, writing: "Writing") -> None:
        if delta.kind not in {"waiting", "restart", "status"}:
            self._waits_for = ""
        if delta.kind == "begin":
            self._said = False
            writing.status("thinking")
        elif delta.kind == "status":
            writing.status(printable(delta.doing), clock.parse(delta.at).timestamp() if delta.at else None)
        elif delta.kind == "text" and self._live:
            self._said = True
            writing.status("writing")
            writing.add(printable(delta.text))
        elif delta.kind == "tool_call":
            writing.end()
            called = f"{delta.tool} {shorten_arguments(delta.text)}"
            self.note(f"· {called}")
            writing.status(f"using {printable(called)}")
        elif delta.kind == "approval":
            self.note(f"Waiting for your approval. {delta.text}")
            writing.status("waiting for your approval")
        elif delta.kind == "tool_result":
            if delta.failed:
                self.note(f"  failed: {delta.text.strip().partition(chr(10))[0]}")
            writing.status("thinking")
        elif delta.kind == "restart":
            writing.end()
            if not self._waits_for:
                self.note(f"({self._explain_restart(delta)})")
            self._said = False
        elif delta.kind == "waiting":
            if delta.text != self._waits_for:
                self.note(f"{delta.text}. Waiting; press Ctrl-C to stop.")
            self._waits_for = delta.text
            writing.status("waiting for the model")
        elif delta.kind in {"done", "end"}:
            writing.end()

    def _explain_restart(self, delta: Delta) -> str:
        """Why what was shown so far doesn't count."""
        if delta.text:
            return f"{delta.text}; the answer follows again, up to there"
        what = "the answer broke off" if self._said else "no answer came"
        return f"{what}; retrying"


def cost_line(usage: Totals) -> str:
    """What an answer cost, in a line."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({usage.cache_read_tokens / read:.0%} cached)" if read and usage.cache_read_tokens else ""
    money = f" · ${usage.cost_microusd / MICRO:.4f}" if usage.cost_microusd else ""
    return f"{read:,} tokens in{cached}, {usage.output_tokens:,} out{money}"


def shorten_arguments(arguments: str) -> str:
    """The values of a call in a line."""
    try:
        told = " ".join(str(value) for value in json.loads(arguments).values())
    except (ValueError, AttributeError):
        told = arguments
    return shorten(join_lines(told), _ARGUMENTS_SHOWN)
