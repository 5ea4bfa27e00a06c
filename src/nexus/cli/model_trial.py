"""Trying models, and saying in a few words what they can do."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from nexus.cli.terminal import printable
from nexus.config import Config
from nexus.home import Home
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    from nexus.broker.agent.trial import Trial


def run(settings: Config, name: str, environ: Mapping[str, str] = os.environ) -> "Trial":
    """Try a model and print what came of it."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent import trial

    click.echo(f"Testing {printable(name)}…")
    done = asyncio.run(
        trial.tried(settings, name, environ, on_wait=lambda reason: click.echo(f"  {printable(reason)}…"))
    )
    click.echo(f"  Answered in {done.duration_ms / 1000:.1f} s: {', '.join(facts(done.known))}.")
    for line in concerns(done.known):
        click.echo(f"  {line}")
    return done


def keep(home: Home, settings: Config, trials: "Sequence[Trial]") -> None:
    """Keep in a home what trials showed."""
    if trials:
        asyncio.run(_kept(home, settings, trials))


async def _kept(home: Home, settings: Config, trials: "Sequence[Trial]") -> None:
    from nexus.broker.agent import trial
    from nexus.ledgers import Ledgers

    async with Ledgers(home, settings.ledgers) as ledgers:
        for each in trials:
            await trial.keep(ledgers.runtime, each)


def facts(known: Capabilities) -> Iterator[str]:
    """What is known of a model, a few words each."""
    if known.context_tokens:
        yield f"context window {known.context_tokens:,} tokens"
    if known.calls_tools is not None or known.tool_calls is not None:
        yield _tools(known)
    if known.writes_json is not None:
        yield "JSON answers" if known.writes_json else "no JSON answers"
    if known.images:
        yield "reads images"
    if known.streams is False:
        yield "not streamed"
    if known.prompt_tokens_per_s:
        yield f"reads {_speed(known.prompt_tokens_per_s)}"
    if known.output_tokens_per_s:
        yield f"writes {_speed(known.output_tokens_per_s)}"
    if known.slots:
        yield f"{known.slots} request{'s' * (known.slots != 1)} at a time"


def concerns(known: Capabilities) -> Iterator[str]:
    """What of that limits the agent, and what to do."""
    if known.calls_tools is False:
        yield "It didn't call a tool when asked to. It may not reach files, the memory or workers."
    if known.writes_json is False:
        yield "It gave no valid JSON when asked to. If the memory stays empty, choose another `writer`."


def _tools(known: Capabilities) -> str:
    if known.calls_tools is False:
        return "no tool calls"
    how = {"text": " (as text)", "none": " (described in words)"}.get(known.tool_calls or "", "")
    return f"tool calls{how}"


def _speed(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f} tokens/s" if tokens_per_s >= 10 else f"{tokens_per_s:.1f} tokens/s"
