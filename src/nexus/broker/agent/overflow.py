"""What a refusal teaches about a model: how long a prompt it takes, whether it takes tools, and streams."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai.exceptions import ModelContextWindowExceededError

_STATUSES: Final = frozenset({400, 413, 422, 500})
_NUMBER: Final = r"([\d][\d,._]*)"
_WORDED: Final = re.compile(
    r"context[ _](?:length|window|size)|exceed_context_size|prompt is too long|input is too long"
    r"|input token count .{0,40}exceeds|too many tokens|reduce the length of the messages",
    re.IGNORECASE,
)
# Anthropic, Gemini, vLLM and OpenAI, LM Studio, llama.cpp and others, in this order.
_WINDOWS: Final = (
    rf">\s*{_NUMBER}\s*maximum",
    rf"maximum number of tokens allowed\s*\(?{_NUMBER}",
    rf"maximum context length (?:is|of)(?: only)?\s*{_NUMBER}",
    rf"context (?:length|window|size)(?: of| is|:)?(?: only)?\s*\(?{_NUMBER}",
    rf"n_ctx\D{{0,6}}{_NUMBER}",
)
_PROMPTS: Final = (
    rf"prompt is too long:\s*{_NUMBER}",
    rf"input token count\s*\(?{_NUMBER}",
    rf"\(?{_NUMBER}\)? (?:tokens )?in the messages",
    rf"(?:resulted in|has|contains at least|request \()\s*{_NUMBER}(?: input)? tokens",
    rf"first {_NUMBER} tokens",
    rf"n_prompt_tokens\D{{0,6}}{_NUMBER}",
)
_NO_TOOLS: Final = re.compile(
    r"not support (?:tools|tool use|tool calling|function calling)|support tool use"
    r"|tool[ _]choice requires|tools param requires|tools? (?:is|are) not supported",
    re.IGNORECASE,
)
_NO_STREAM: Final = re.compile(
    r"\bstream(?:ing|ed)?\b.{0,40}(?:\bnot |n't |\bun)(?:be |yet )?(?:support|available|allowed|enabled)"
    r"|not support .{0,20}\bstream",
    re.IGNORECASE,
)
_NO_IMAGES: Final = re.compile(r"\bimages?\b|image_url|\bvision\b|multi-?modal|mmproj", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """A prompt that did not fit. None: the error does not say."""

    context_tokens: int | None = None
    prompt_tokens: int | None = None


def overflow(error: Exception) -> Overflow | None:
    """What an error says about the model's window; None where it is about something else."""
    text = _text(error)
    if not isinstance(error, ModelContextWindowExceededError):
        status = getattr(error, "status_code", None)
        if status not in _STATUSES or not _WORDED.search(text):
            return None
    return Overflow(context_tokens=_first(_WINDOWS, text), prompt_tokens=_first(_PROMPTS, text))


def refuses_tools(error: Exception) -> bool:
    """Whether a server takes no request that offers tools."""
    status = getattr(error, "status_code", None)
    return status in _STATUSES | {404, 501} and _NO_TOOLS.search(_text(error)) is not None


def refuses_streaming(error: Exception) -> bool:
    """Whether a server gives its answers only whole."""
    status = getattr(error, "status_code", None)
    return status in _STATUSES | {501} and _NO_STREAM.search(_text(error)) is not None


def refuses_images(error: Exception) -> bool:
    """Whether a request that holds images is refused for that, as far as the error says."""
    status = getattr(error, "status_code", None)
    return status in _STATUSES | {404, 415, 501} and _NO_IMAGES.search(_text(error)) is not None


def is_loading(error: Exception) -> bool:
    """Whether a server is there, and still loads the model."""
    return getattr(error, "status_code", None) == 503 and "loading" in _text(error).lower()


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        found = re.search(pattern, text, re.IGNORECASE)
        if found:
            return int(re.sub(r"\D", "", found[1]))
    return None


def _text(error: Exception) -> str:
    body: Any = getattr(error, "body", None)
    if isinstance(body, str):
        return body
    return str(error) if body is None else json.dumps(body, ensure_ascii=False)
