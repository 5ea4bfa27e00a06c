"""An answer on a terminal: its text as it comes, tool calls as quiet lines, what it cost at the end."""

import json
import sys
from typing import TextIO

import click

from nexus.cli.terminal import printable
from nexus.runs import MICRO, Delta, Result, Run, Totals

_ARGUMENTS_SHOWN = 100


class Screen:
    """Where a person reads along. Notes go beside the answer, so that a pipe gets the answer alone."""

    def __init__(self, out: TextIO | None = None, notes: TextIO | None = None) -> None:
        self._given_out = out
        self._given_notes = notes
        self._live = self._out.isatty()
        self._in_line = False
        self._said = False

    # Looked up each time: a line editor puts its own in their place while somebody types.

    @property
    def _out(self) -> TextIO:
        return self._given_out or sys.stdout

    @property
    def _notes(self) -> TextIO:
        return self._given_notes or sys.stderr

    async def follow(self, run: Run) -> Result:
        """Show a run until it has ended; its result, or the error that says why it has none."""
        self._said = False
        async for delta in run.deltas():
            self._show(delta)
        result = await run.result()
        if not self._live:
            click.echo(result.response.content, file=self._out)
        elif not self._said:
            # What was written of it is gone already: another process answered some time ago.
            click.echo(printable(result.response.content), file=self._out)
        return result

    def line(self, text: str) -> None:
        """A line that was asked for."""
        self._end_line()
        click.echo(printable(text), file=self._out)

    def note(self, text: str) -> None:
        """A line beside the answer."""
        self._end_line()
        click.secho(printable(text), file=self._notes, dim=True)

    def _show(self, delta: Delta) -> None:
        if delta.kind == "begin":
            self._said = False
        elif delta.kind == "text" and self._live:
            self._said = True
            self._out.write(printable(delta.text))
            self._out.flush()
            self._in_line = not delta.text.endswith("\n")
        elif delta.kind == "tool_call":
            self.note(f"· {delta.tool} {_shortened(delta.text)}")
        elif delta.kind == "tool_result" and delta.failed:
            self.note(f"  failed: {delta.text.strip().partition(chr(10))[0]}")
        elif delta.kind == "restart":
            self.note(f"({self._withdrawn(delta)})")
            self._said = False
        elif delta.kind == "waiting":
            self.note(f"Waiting for the provider ({delta.text}). Press Ctrl-C to stop waiting.")
        elif delta.kind in {"done", "end"}:
            self._end_line()

    def _withdrawn(self, delta: Delta) -> str:
        """Why what was shown so far doesn't count."""
        if delta.text:
            return f"{delta.text}; the answer follows again, up to there"
        what = "the answer broke off" if self._said or self._in_line else "no answer came"
        return f"{what}; retrying"

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._out.flush()
            self._in_line = False


def cost_line(usage: Totals) -> str:
    """What an answer cost, in a line."""
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cached = f" ({usage.cache_read_tokens / read:.0%} cached)" if read and usage.cache_read_tokens else ""
    money = f" · ${usage.cost_microusd / MICRO:.4f}" if usage.cost_microusd else ""
    return f"{read:,} tokens in{cached}, {usage.output_tokens:,} out{money}"


def _shortened(arguments: str) -> str:
    try:
        told = " ".join(str(value) for value in json.loads(arguments).values())
    except (ValueError, AttributeError):
        told = arguments
    told = " ".join(told.split())
    return told if len(told) <= _ARGUMENTS_SHOWN else f"{told[: _ARGUMENTS_SHOWN - 1]}…"
