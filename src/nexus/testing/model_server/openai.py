"""The OpenAI chat completions format: answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nexus import ids
from nexus.testing.model_server import openai_prompt
from nexus.testing.model_server.failures import Kind
from nexus.testing.model_server.prompt import Prompt
from nexus.testing.model_server.request import Json, KeptHeaders, ModelRequest, View, WireName
from nexus.testing.model_server.turn import StopReason, TokenLogprob, ToolCall, Turn
from nexus.testing.model_server.usage import Usage
from nexus.testing.model_server.wire import ErrorForm, Event

INVALID = "invalid_request_error"
ERRORS: Mapping[Kind, ErrorForm] = {
    "invalid_request": ErrorForm(400, INVALID, "The request is not valid."),
    "authentication": ErrorForm(401, INVALID, "Incorrect API key provided.", "invalid_api_key"),
    "quota": ErrorForm(429, "insufficient_quota", "You exceeded your current quota.", "insufficient_quota"),
    "permission": ErrorForm(403, INVALID, "The key may not use this.", "permission_denied"),
    "not_found": ErrorForm(404, INVALID, "The model does not exist.", "model_not_found"),
    "too_large": ErrorForm(413, INVALID, "The request is too large.", "request_too_large"),
    "rate_limit": ErrorForm(429, "requests", "Rate limit reached.", "rate_limit_exceeded"),
    "server": ErrorForm(500, "server_error", "The server had an error."),
    "unscripted": ErrorForm(501, "server_error", "Nothing is scripted for this request.", "unscripted"),
    "timeout": ErrorForm(504, "server_error", "The request timed out."),
    "overloaded": ErrorForm(503, "server_error", "The server is currently overloaded."),
}
FINISH: Mapping[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class OpenAIWire:
    """`POST /v1/chat/completions`."""

    name: WireName = "openai"
    errors = ERRORS

    def check(self, body: Json, headers: KeptHeaders) -> None:
        openai_prompt.check(body, headers)

    def prompt(self, body: Json) -> Prompt:
        return openai_prompt.prompt(body)

    def view(self, body: Json) -> View:
        return openai_prompt.view(body)

    def body(self, request: ModelRequest, turn: Turn, usage: Usage) -> Json:
        choice = {
            "index": 0,
            "message": _message(turn),
            "finish_reason": FINISH[turn.reason],
            "logprobs": _logprobs(request, turn.logprobs),
        }
        return {**_envelope(request, "chat.completion"), "choices": [choice], "usage": usage_json(usage)}

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        return list(_stream(request, turn, usage))

    def error_body(self, kind: Kind, message: str, request_id: str) -> Json:
        form = ERRORS[kind]
        return {
            "error": {
                "message": message or form.message,
                "type": form.type,
                "param": None,
                "code": form.code,
            }
        }

    def error_event(self, body: Json) -> bytes:
        return event_bytes(body)

    def request_id_header(self) -> str:
        return "x-request-id"


class MistralWire(OpenAIWire):
    """Mistral's form of it: in a stream a tool call comes whole."""

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        return list(_stream(request, turn, usage, whole_calls=True, counted=True))


class GroqWire(OpenAIWire):
    """Groq's form of it: in a stream the usage comes under `x_groq`, unasked."""

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        *events, end = _stream(request, turn, usage)
        told = {"id": ids.new("req"), "usage": usage_json(usage)}
        last: Json = {**_envelope(request, "chat.completion.chunk"), "choices": [], "x_groq": told}
        return [*events, Event(event_bytes(last)), end]


def usage_json(usage: Usage) -> Json:
    """The `usage` object of an answer."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }


def event_bytes(data: Json) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _envelope(request: ModelRequest, kind: str) -> Json:
    return {
        "id": ids.new("chatcmpl"),
        "object": kind,
        "created": int(request.at.timestamp()),
        "model": request.model,
        "system_fingerprint": "fp_nexus_testing",
    }


def _message(turn: Turn) -> Json:
    message: Json = {"role": "assistant", "content": turn.content or None, "refusal": None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.tool_calls:
        message["tool_calls"] = [_call(call) for call in turn.tool_calls]
    return message


def _size_bytes(call: ToolCall) -> int:
    return len(call.name.encode()) + len(call.arguments_json.encode())


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": call.arguments_json}
    return {"id": call.id or ids.new("call"), "type": "function", "function": function}


def _logprobs(request: ModelRequest, entries: Any) -> Json | None:
    if not request.json.get("logprobs") or not entries:
        return None
    return {"content": [_logprob(entry) for entry in entries], "refusal": None}


def _logprob(entry: TokenLogprob) -> Json:
    return {
        **_token(entry.token, entry.logprob),
        "top_logprobs": [_token(token, logprob) for token, logprob in entry.top],
    }


def _token(token: str, logprob: float) -> Json:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


def _stream(
    request: ModelRequest, turn: Turn, usage: Usage, *, whole_calls: bool = False, counted: bool = False
) -> Iterator[Event]:
    options: Json = request.json.get("stream_options") or {}
    counted = counted or options.get("include_usage") is True
    envelope = _envelope(request, "chat.completion.chunk") | ({"usage": None} if counted else {})

    def chunk(delta: Json, finish: str | None = None, logprobs: Json | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return event_bytes({**envelope, "choices": [choice]})

    yield Event(chunk({"role": "assistant", "content": "", "refusal": None}))
    for delta, output_bytes, logprobs in _deltas(request, turn, whole_calls):
        yield Event(chunk(delta, logprobs=logprobs), "delta", output_bytes)
    yield Event(chunk({}, FINISH[turn.reason]), "close")
    if counted:
        yield Event(event_bytes({**envelope, "choices": [], "usage": usage_json(usage)}))
    yield Event(b"data: [DONE]\n\n")


def _deltas(request: ModelRequest, turn: Turn, whole_calls: bool) -> Iterator[tuple[Json, int, Json | None]]:
    for piece in turn.pieces(turn.thinking):
        yield {"reasoning_content": piece}, len(piece.encode()), None
    if turn.logprobs and request.json.get("logprobs"):
        for entry in turn.logprobs:
            yield {"content": entry.token}, len(entry.token.encode()), _logprobs(request, [entry])
    else:
        for piece in turn.pieces(turn.content):
            yield {"content": piece}, len(piece.encode()), None
    for index, call in enumerate(turn.tool_calls):
        if whole_calls:
            yield {"tool_calls": [{**_call(call), "index": index}]}, _size_bytes(call), None
            continue
        opening = {**_call(call), "index": index, "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [opening]}, len(call.name.encode()), None
        for piece in turn.pieces(call.arguments_json):
            part = {"index": index, "function": {"arguments": piece}}
            yield {"tool_calls": [part]}, len(piece.encode()), None
