"""The Anthropic Messages format: answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, cast

from nexus import ids
from nexus.testing.model_server.caching import MAX_POINTS
from nexus.testing.model_server.failures import Kind
from nexus.testing.model_server.record import Usage
from nexus.testing.model_server.request import (
    Json,
    KeptHeaders,
    Level,
    Lifetime,
    ModelRequest,
    Prompt,
    Segment,
    View,
    WireName,
    canonical,
    objects,
)
from nexus.testing.model_server.turn import ToolCall, Turn
from nexus.testing.model_server.wire import ErrorForm, Event, require

ROLES = ("user", "assistant", "system")
UNCACHEABLE = ("thinking", "redacted_thinking")


def _check_version(body: Json, version: str) -> None:
    """What the API takes no longer since its version of 2026-10-21; versions are dates and sort as text."""
    if version >= "2026-10-21":
        for name in ("temperature", "top_p", "top_k"):
            require(name not in body, f"{name}: Extra inputs are not permitted")
        spoken = [message for message in body["messages"] if message["role"] == "assistant"]
        kinds = [block["type"] for message in spoken for block in blocks(message.get("content", []))]
        require("document" not in kinds, "document blocks are not permitted in assistant messages")


def check_prompt(body: Json) -> None:
    """The part that counting tokens shares: model, messages, tools and cache points."""
    require(isinstance(body.get("model"), str) and body["model"], "model: Field required")
    messages = objects(body, "messages")
    require(messages, "messages: at least one message is required")
    for index, message in enumerate(messages):
        require(message.get("role") in ROLES, f"messages.{index}.role: Input should be one of {ROLES}")
        for place, block in enumerate(blocks(message.get("content", []))):
            _check_block(block, f"messages.{index}.content.{place}")
    names = [tool.get("name") for tool in objects(body, "tools")]
    require(len(names) == len(set(names)), "tools: Tool names must be unique.")
    _check_tool_results(messages)
    _check_points(body)


def blocks(content: Any) -> list[Json]:
    """Content as blocks: a string is short for one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _text(content: Any) -> str:
    return "\n".join(block["text"] for block in blocks(content) if block.get("type") == "text")


def _segments(body: Json) -> Iterator[Segment]:
    for tool in objects(body, "tools"):
        yield _segment("tools", "", tool)
    for block in blocks(body.get("system") or []):
        yield _segment("system", "", block)
    for message in body["messages"]:
        for block in blocks(message.get("content", [])):
            yield _segment("messages", message["role"], block)


def _segment(level: Level, role: str, block: Json) -> Segment:
    points = list(_points_in(block))
    data = b"%s:%s\n" % (role.encode(), canonical(_without_points(block)))
    return Segment(level, data, _lifetime(points[-1]) if points else None)


def _without_points(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_points(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        block = cast("Json", value)
        # The arguments of a call may have any keys of their own.
        return {
            key: item if key in ("input", "input_schema") else _without_points(item)
            for key, item in block.items()
            if key != "cache_control"
        }
    return value


def _points_in(block: Json) -> Iterator[Json]:
    content = block.get("content")
    if isinstance(content, list):
        for inner in cast("list[Json]", content):
            yield from _points_in(inner)
    if block.get("cache_control"):
        yield block["cache_control"]


def _lifetime(point: Json) -> Lifetime:
    return "1h" if point.get("ttl") == "1h" else "5m"


def _last_cacheable(segments: list[Segment]) -> int | None:
    thinking = tuple(f'assistant:{{"type":"{kind}"'.encode() for kind in UNCACHEABLE)
    cacheable = [i for i, segment in enumerate(segments) if not segment.data.startswith(thinking)]
    return cacheable[-1] if cacheable else None


def _check_block(block: Json, place: str) -> None:
    require(isinstance(block.get("type"), str), f"{place}.type: Field required")
    if block["type"] == "text":
        require(block.get("text"), f"{place}: text content blocks must be non-empty")
    if block["type"] in UNCACHEABLE:
        require("cache_control" not in block, f"{place}.cache_control: Extra inputs are not permitted")


def _check_points(body: Json) -> None:
    segments = list(_segments(body))
    marks = [segment.cache for segment in segments if segment.cache]
    automatic = body.get("cache_control")
    if automatic:
        last = _last_cacheable(segments)
        marked = segments[last].cache if last is not None else None
        require(
            marked in (None, _lifetime(automatic)),
            "cache_control: the last block already has a cache point with another ttl",
        )
        marks += [] if marked else [_lifetime(automatic)]
    require(
        len(marks) <= MAX_POINTS,
        f"A maximum of {MAX_POINTS} blocks with cache_control may be provided. Found {len(marks)}.",
    )
    short_first = "5m" in marks and "1h" in marks[marks.index("5m") :]
    require(not short_first, "cache_control: a ttl='1h' block must not come after a ttl='5m' block")


def _check_tool_results(messages: list[Json]) -> None:
    open_calls: set[str] = set()
    for role, content in _join_messages(messages):
        answered = {block.get("tool_use_id", "") for block in content if block["type"] == "tool_result"}
        unknown = sorted(answered - open_calls)
        _require_answered(open_calls - answered)
        require(not unknown, f"unexpected `tool_use_id` found in `tool_result` blocks: {unknown}")
        calls = {block.get("id", "") for block in content if block["type"] == "tool_use"}
        open_calls = calls if role == "assistant" else set()
    _require_answered(open_calls)


def _join_messages(messages: list[Json]) -> Iterator[tuple[str, list[Json]]]:
    """The API reads neighbouring messages of one role as one message."""
    spoken = [message for message in messages if message["role"] != "system"]
    for role, group in groupby(spoken, key=lambda message: str(message["role"])):
        yield role, [block for message in group for block in blocks(message.get("content", []))]


def _require_answered(open_calls: set[str]) -> None:
    require(
        not open_calls,
        f"`tool_use` ids were found without `tool_result` blocks right after: {sorted(open_calls)}",
    )


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
        """Refuse what the Messages API refuses."""
        require("anthropic-version" in headers, "anthropic-version: header is required")
        check_prompt(body)
        _check_version(body, headers["anthropic-version"])
        max_tokens = body.get("max_tokens")
        require(isinstance(max_tokens, int) and max_tokens >= 0, "max_tokens: Field required")

    def prompt(self, body: Json) -> Prompt:
        """Tools, system and messages as segments, with the cache points on them."""
        segments = list(_segments(body))
        automatic = body.get("cache_control")
        if automatic:
            last = _last_cacheable(segments)
            if last is not None:
                segments[last] = Segment(segments[last].level, segments[last].data, _lifetime(automatic))
        settings = {key: body[key] for key in ("tool_choice", "thinking") if body.get(key)}
        return Prompt(tuple(segments), canonical(settings) if settings else b"")

    def view(self, body: Json) -> View:
        """System text, last user text, last tool results and tool names."""
        messages: list[Json] = body["messages"]
        spoken = [_text(message["content"]) for message in messages if message["role"] == "user"]
        results = [block for block in blocks(messages[-1]["content"]) if block.get("type") == "tool_result"]
        return View(
            system=_text(body.get("system") or ""),
            last_user=next((text for text in reversed(spoken) if text), ""),
            tool_results=tuple(_text(block.get("content") or "") for block in results),
            tool_names=tuple(tool.get("name", "") for tool in objects(body, "tools")),
        )

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
