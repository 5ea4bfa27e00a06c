"""What an error of a provider means: what happened, whether to ask again, what it teaches, what to do."""

import html
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from nexus.broker.agent.models import Candidate
from nexus.errors import NexusError
from nexus.text import join_lines

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
_OTHERWISE = "Check the error above, or add a fallback model in [models] in config.toml."
_BUSY = (
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)


# Of what a provider says about its failure.
_MOST_CHARACTERS = 500
_HTML = re.compile(r"\s*<(!doctype|html)\b", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def is_worth_repeating(error: Exception) -> bool:
    """Whether the same request may succeed later: not when the provider refused it, or has no money."""
    if isinstance(error, ModelQuotaExceededError | ModelRequestRejectedError) or own_error(error):
        return False
    if isinstance(error, ModelHTTPError) and error.provider_retry_hint is not None:
        return error.provider_retry_hint
    return isinstance(error, ModelAPIError | UnexpectedModelBehavior | OSError | TimeoutError | ValueError)


def is_outage(error: Exception) -> bool:
    """Whether the provider is out of reach or overloaded, and it is not the request that is at fault."""
    return is_worth_repeating(error) and isinstance(error, ModelAPIError | OSError | TimeoutError)


def retry_after_s(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, ModelAPIError) else None


def is_refusal(error: Exception) -> bool:
    """Whether it is the request that a provider does not take, which no key and no waiting changes."""
    return isinstance(error, ModelRequestRejectedError) and not isinstance(
        error, ModelAuthenticationError | ModelNotFoundError
    )


def describe(error: Exception, redact: Callable[[str], str]) -> str:
    """What happened, in a line, without secrets. Of a page that a proxy sent, the beginning of its text."""
    if own := own_error(error):
        return redact(own.message)
    status = getattr(error, "status_code", None)
    body = getattr(error, "body", None)
    if status is not None:
        return f"{status} {_excerpt(redact(_message(body))) or type(error).__name__}"
    return _excerpt(redact(_system(error) or str(error))) or type(error).__name__


def _excerpt(text: str) -> str:
    """A text for a line of a message; call it after secrets are masked, for it may cut one in two."""
    if _HTML.match(text):
        text = html.unescape(_TAG.sub(" ", _UNSEEN.sub(" ", text)))
    text = join_lines(text)
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}… ({len(text):,} characters)"


def _system(error: BaseException) -> str:
    """What the system says beneath a client's `Connection error.`, such as that nobody listens there."""
    number = system_number(error)
    return os.strerror(number) if number else ""


def system_number(error: BaseException) -> int | None:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return cause.errno
        cause = cause.__cause__ or cause.__context__
    return None


def _message(body: object) -> str:
    """The provider's own words, where its error has the usual shape."""
    while isinstance(body, dict):
        body = body.get("error") or body.get("message")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return body if isinstance(body, str) else ""


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """A prompt that did not fit. None: the error does not say."""

    context_tokens: int | None = None
    prompt_tokens: int | None = None


def find_overflow(error: Exception) -> Overflow | None:
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


def own_error(error: BaseException) -> NexusError | None:
    """Our own error beneath a client's: why a model that Nexus runs itself could not be started."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NexusError):
        cause = cause.__cause__ or cause.__context__
    return cause


def advise(error: Exception, candidate: Candidate) -> str:
    """What to do next, in a sentence or two."""
    if own := own_error(error):
        return own.hint
    match error:
        case ModelAuthenticationError():
            return _refused_key(candidate)
        case ModelNotFoundError():
            return (
                f"Fix the name `{candidate.name}` in [models] in config.toml, or run `nexus init` "
                f"to choose a model.{_address(candidate)}"
            )
        case _ if find_overflow(error) is not None:
            return (
                f"The message is longer than what {candidate.name} takes. Send less at a time, or serve the "
                "model with a larger window. `context_tokens` in [agents] in config.toml limits how much "
                "of the conversation is sent along."
            )
        case ModelQuotaExceededError():
            return "Check your account with the provider: its credit or quota is used up."
        case ModelConnectionError():
            return _out_of_reach(candidate)
        case _ if isinstance(error, _BUSY):
            return "Try again later, or add a fallback model in [models] in config.toml."
        case _:
            return _OTHERWISE


def _refused_key(candidate: Candidate) -> str:
    source = candidate.config.auth_token or candidate.config.api_key
    if not source:
        return f"Set `api_key` in [providers.{candidate.provider}] in config.toml."
    return f"Put a valid API key in {source}, or run `nexus init` to enter one."


def _out_of_reach(candidate: Candidate) -> str:
    if not candidate.config.base_url:
        return "Check your internet connection and try again."
    where = f"`base_url` in [providers.{candidate.provider}] in config.toml"
    return f"Start the server at {candidate.config.base_url}, or fix {where}."


def _address(candidate: Candidate) -> str:
    """A wrong address looks like an unknown model to whoever asks a server of one's own."""
    url = candidate.config.base_url
    return f" Or the URL {url} is wrong: check the server's documentation." if url else ""
