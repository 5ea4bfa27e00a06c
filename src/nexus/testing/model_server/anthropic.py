"""The Anthropic Messages format: answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from nexus import ids
from nexus.testing.model_server import anthropic_prompt
from nexus.testing.model_server.failures import Kind
from nexus.testing.model_server.prompt import Prompt
from nexus.testing.model_server.request import Json, KeptHeaders, ModelRequest, View, WireName
from nexus.testing.model_server.turn import ToolCall, Turn
from nexus.testing.model_server.usage import Usage
from nexus.testing.model_server.wire import ErrorForm, Event

ERRORS: Mapping[Kind, ErrorForm] = {
    "invalid_request": ErrorForm(400, "invalid_request_error", "The request is not valid."),
    "authentication": ErrorForm(401, "authentication_error", "invalid x-api-key"),
    "quota": ErrorForm(402, "billing_error", "Your credit balance is too low."),
    "permission": ErrorForm(403, "permission_error", "The key may not use this."),
    "not_found": ErrorForm(404, "not_found_error", "Not found"),
    "too_large": ErrorForm(413, "request_too_large", "Request exceeds the maximum size"),
    "rate_limit": ErrorForm(429, "rate_limit_error", "This request would exceed the rate limit."),
    "server": ErrorForm(500, "api_error", "Internal server error"),
    "unscripted": ErrorForm(501, "api_error", "Nothing is scripted for this request."),
    "timeout": ErrorForm(504, "timeout_error", "The request timed out."),
    "overloaded": ErrorForm(529, "overloaded_error", "Overloaded"),
}


class AnthropicWire:
    """`POST /v1/messages`."""

    name: WireName = "anthropic"
    errors = ERRORS

    def check(self, body: Json, headers: KeptHeaders) -> None:
        anthropic_prompt.check(body, headers)

    def prompt(self, body: Json) -> Prompt:
        return anthropic_prompt.prompt(body)

    def view(self, body: Json) -> View:
        return anthropic_prompt.view(body)

    def body(self, request: ModelRequest, turn: Turn, usage: Usage) -> Json:
        return {
            **_message(request),
            "content": list(_content(turn)),
            "stop_reason": turn.reason,
            "usage": usage_json(usage),
        }

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        return list(_stream(request, turn, usage))

    def error_body(self, kind: Kind, message: str, request_id: str) -> Json:
        form = ERRORS[kind]
        error = {"type": form.type, "message": message or form.message}
        return {"type": "error", "error": error, "request_id": request_id}

    def error_event(self, body: Json) -> bytes:
        return event_bytes("error", body)

    def request_id_header(self) -> str:
        return "request-id"


def usage_json(usage: Usage) -> Json:
    """The `usage` object of an answer."""
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_tokens - usage.cache_write_1h_tokens,
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.thinking_tokens},
        "service_tier": "standard",
    }


def event_bytes(name: str, data: Json) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _message(request: ModelRequest) -> Json:
    return {
        "id": ids.new("msg"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _content(turn: Turn) -> Iterator[Json]:
    if turn.thinking:
        yield {"type": "thinking", "thinking": turn.thinking, "signature": _signature()}
    if turn.content:
        yield {"type": "text", "text": turn.content}
    for call in turn.tool_calls:
        yield {"type": "tool_use", "id": _call_id(call), "name": call.name, "input": _arguments(call)}


def _arguments(call: ToolCall) -> Json:
    try:
        value: Any = json.loads(call.arguments_json)
    except ValueError:
        value = None
    return cast("Json", value) if isinstance(value, dict) else {"INVALID_JSON": call.arguments_json}


def _call_id(call: ToolCall) -> str:
    return call.id or ids.new("toolu")


def _signature() -> str:
    return ids.new("signature")


def _stream(request: ModelRequest, turn: Turn, usage: Usage) -> Iterator[Event]:
    # The first output token is counted before any content is sent, as the provider does.
    opening = {**usage_json(usage), "output_tokens": 1}
    yield _event("message_start", message={**_message(request), "usage": opening})
    for index, (block, deltas) in enumerate(_streamed_blocks(turn)):
        yield _event("content_block_start", index=index, content_block=block)
        if index == 0:
            yield _event("ping")
        for delta, output_bytes in deltas:
            data = _event("content_block_delta", index=index, delta=delta).data
            yield Event(data, "delta", output_bytes)
        yield _event("content_block_stop", index=index)
    delta = {"stop_reason": turn.reason, "stop_sequence": None}
    final = {key: value for key, value in usage_json(usage).items() if key.endswith(("tokens", "details"))}
    yield Event(_event("message_delta", delta=delta, usage=final).data, "close")
    yield _event("message_stop")


def _event(name: str, **fields: Any) -> Event:
    return Event(event_bytes(name, {"type": name, **fields}))


def _streamed_blocks(turn: Turn) -> Iterator[tuple[Json, list[tuple[Json, int]]]]:
    if turn.thinking:
        thinking = _deltas(turn, "thinking_delta", "thinking", turn.thinking)
        signed = [*thinking, ({"type": "signature_delta", "signature": _signature()}, 0)]
        yield {"type": "thinking", "thinking": "", "signature": ""}, signed
    if turn.content:
        yield {"type": "text", "text": ""}, _deltas(turn, "text_delta", "text", turn.content)
    for call in turn.tool_calls:
        block: Json = {"type": "tool_use", "id": _call_id(call), "name": call.name, "input": {}}
        deltas = _deltas(turn, "input_json_delta", "partial_json", call.arguments_json)
        named = ({"type": "input_json_delta", "partial_json": ""}, len(call.name.encode()))
        yield block, [named, *deltas]


def _deltas(turn: Turn, kind: str, field: str, text: str) -> list[tuple[Json, int]]:
    return [({"type": kind, field: piece}, len(piece.encode())) for piece in turn.pieces(text)]
