"""What is known of a model, in words."""

from collections.abc import Iterator

from nexus.ledgers.runtime.models import Capabilities


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
        yield "It didn't call a tool when asked to, so it may be unable to use files, the memory or workers."
    if known.writes_json is False:
        yield "It gave no valid JSON when asked to. If the memory stays empty, choose another `writer`."


def _tools(known: Capabilities) -> str:
    if known.calls_tools is False:
        return "no tool calls"
    how = {"text": " (as text)", "none": " (described in words)"}.get(known.tool_calls or "", "")
    return f"tool calls{how}"


def _speed(tokens_per_s: float) -> str:
    return f"{tokens_per_s:,.0f} tokens/s" if tokens_per_s >= 10 else f"{tokens_per_s:.1f} tokens/s"
