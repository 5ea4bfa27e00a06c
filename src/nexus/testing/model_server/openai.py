"""The OpenAI chat completions format: answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nexus import ids
from nexus.testing.model_server.failures import Kind
from nexus.testing.model_server.record import Usage
from nexus.testing.model_server.request import (
    Json,
    KeptHeaders,
    ModelRequest,
    Prompt,
    Segment,
    View,
    WireName,
    canonical,
    objects,
)
from nexus.testing.model_server.turn import StopReason, TokenLogprob, ToolCall, Turn
from nexus.testing.model_server.wire import ErrorForm, Event, require

ROLES = ("system", "developer", "user", "assistant", "tool")
FORMATS = ("text", "json_object", "json_schema")


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    parts: list[Json] = list(content)
    return "\n".join(part["text"] for part in parts if part.get("type") == "text")


def _check_format(form: Json | None) -> None:
    if form is None:
        return
    require(form.get("type") in FORMATS, f"response_format.type: must be one of {FORMATS}")
    if form["type"] == "json_schema":
        schema: Json = form.get("json_schema") or {}
        require(schema.get("name"), "Missing required parameter: 'response_format.json_schema.name'.")
        require(
            isinstance(schema.get("schema", {}), dict),
            "response_format.json_schema.schema: expected an object",
        )


def _check_tool_results(messages: list[Json]) -> None:
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            answered = str(message.get("tool_call_id"))
            require(
                answered in open_calls,
                f"messages[{index}]: role 'tool' must answer a preceding 'tool_calls': {answered}",
            )
            open_calls.discard(answered)
            continue
        _require_answered(open_calls)
        open_calls = {str(call.get("id")) for call in objects(message, "tool_calls")}
    _require_answered(open_calls)


def _require_answered(open_calls: set[str]) -> None:
    require(
        not open_calls,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. Not answered: {sorted(open_calls)}",
    )


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
        """Refuse what the chat completions API refuses."""
        require(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
        messages = objects(body, "messages")
        require(messages, "'messages' must have at least one message.")
        for index, message in enumerate(messages):
            require(message.get("role") in ROLES, f"messages[{index}].role: must be one of {ROLES}")
        require(body.get("n") in (None, 1), "n: this server answers with one choice")
        require(
            body.get("stream") is True or not body.get("stream_options"), "stream_options needs stream: true"
        )
        _check_format(body.get("response_format"))
        _check_tool_results(messages)

    def prompt(self, body: Json) -> Prompt:
        """Tools, the answer's schema, then messages: the order in which a prefix is shared."""
        tools = [Segment("tools", canonical(tool) + b"\n") for tool in objects(body, "tools")]
        form = body.get("response_format")
        schema = [Segment("tools", canonical(form) + b"\n")] if form else []
        messages = [Segment("messages", canonical(message) + b"\n") for message in body["messages"]]
        return Prompt((*tools, *schema, *messages))

    def view(self, body: Json) -> View:
        """System text, last user text, last tool results and tool names."""
        messages: list[Json] = body["messages"]
        system = [_text(m.get("content")) for m in messages if m["role"] in ("system", "developer")]
        spoken = [_text(m.get("content")) for m in messages if m["role"] == "user"]
        results: list[str] = []
        for message in reversed(messages):
            if message["role"] != "tool":
                break
            results.insert(0, _text(message.get("content")))
        names = [tool.get("function", {}).get("name", "") for tool in objects(body, "tools")]
        return View(
            system="\n".join(system),
            last_user=next((text for text in reversed(spoken) if text), ""),
            tool_results=tuple(results),
            tool_names=tuple(names),
        )

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
