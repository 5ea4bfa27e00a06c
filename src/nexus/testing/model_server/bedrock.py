"""Amazon Bedrock's Converse format: requests, answers, errors, and streams in AWS's binary frames."""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping

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
from nexus.testing.model_server.turn import StopReason, Turn
from nexus.testing.model_server.wire import ErrorForm, Event, require

ERRORS: Mapping[Kind, ErrorForm] = {
    "invalid_request": ErrorForm(400, "ValidationException", "The request is not valid."),
    "authentication": ErrorForm(401, "UnrecognizedClientException", "The security token is invalid."),
    "quota": ErrorForm(429, "ServiceQuotaExceededException", "You exceeded your quota."),
    "permission": ErrorForm(403, "AccessDeniedException", "You don't have access to the model."),
    "not_found": ErrorForm(404, "ResourceNotFoundException", "The model is not found."),
    "too_large": ErrorForm(413, "ValidationException", "The request is too large."),
    "rate_limit": ErrorForm(429, "ThrottlingException", "Too many requests."),
    "server": ErrorForm(500, "InternalServerException", "The server had an error."),
    "unscripted": ErrorForm(501, "InternalServerException", "Nothing is scripted for this request."),
    "timeout": ErrorForm(504, "ModelTimeoutException", "The request timed out."),
    "overloaded": ErrorForm(503, "ServiceUnavailableException", "The service is unavailable."),
}
STOP: Mapping[StopReason, str] = {
    "end_turn": "end_turn",
    "stop_sequence": "stop_sequence",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "content_filtered",
}
_STRING = 7


class BedrockWire:
    """`POST /model/MODEL/converse` and `/converse-stream`."""

    name: WireName = "bedrock"
    errors = ERRORS

    def check(self, body: Json, headers: KeptHeaders) -> None:
        messages = objects(body, "messages")
        require(messages, "A conversation must start with a user message.")
        for message in messages:
            require(message.get("role") in {"user", "assistant"}, "Invalid role.")
            require(objects(message, "content"), "The content field is empty.")

    def prompt(self, body: Json) -> Prompt:
        tools = [Segment("tools", canonical(tool) + b"\n") for tool in _tools(body)]
        system = [Segment("system", canonical(part) + b"\n") for part in objects(body, "system")]
        said = [Segment("messages", canonical(message) + b"\n") for message in body["messages"]]
        return Prompt((*tools, *system, *said))

    def view(self, body: Json) -> View:
        messages: list[Json] = body["messages"]
        spoken = [_text(message["content"]) for message in messages if message["role"] == "user"]
        results = [part["toolResult"] for part in messages[-1]["content"] if "toolResult" in part]
        return View(
            system=_text(objects(body, "system")),
            last_user=next((text for text in reversed(spoken) if text), ""),
            tool_results=tuple(json.dumps(each["content"], ensure_ascii=False) for each in results),
            tool_names=tuple(tool["toolSpec"]["name"] for tool in _tools(body) if "toolSpec" in tool),
        )

    def body(self, request: ModelRequest, turn: Turn, usage: Usage) -> Json:
        content: list[Json] = []
        if turn.thinking:
            content.append({"reasoningContent": {"reasoningText": {"text": turn.thinking}}})
        if turn.content:
            content.append({"text": turn.content})
        for call in turn.tool_calls:
            used = {
                "toolUseId": call.id or ids.new("call"),
                "name": call.name,
                "input": json.loads(call.arguments_json),
            }
            content.append({"toolUse": used})
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": STOP[turn.reason],
            "usage": usage_json(usage),
            "metrics": {"latencyMs": 1},
        }

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        start = Event(frame("messageStart", {"role": "assistant"}))
        stop = Event(frame("messageStop", {"stopReason": STOP[turn.reason]}), "close")
        told = Event(frame("metadata", {"usage": usage_json(usage), "metrics": {"latencyMs": 1}}))
        return [start, *_blocks(turn), stop, told]

    def error_body(self, kind: Kind, message: str, request_id: str) -> Json:
        form = ERRORS[kind]
        return {"__type": form.type, "message": message or form.message}

    def error_event(self, body: Json) -> bytes:
        return frame("internalServerException", {"message": body["message"]}, kind="exception")

    def request_id_header(self) -> str:
        return "x-amzn-requestid"


def frame(event: str, data: Json, *, kind: str = "event") -> bytes:
    """One message of AWS's event streams: lengths, headers and payload, each with its checksum."""
    headers = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", _STRING, len(value))
        + value.encode()
        for name, value in (
            (f":{kind}-type", event),
            (":content-type", "application/json"),
            (":message-type", kind),
        )
    )
    payload = json.dumps(data, ensure_ascii=False).encode()
    prelude = struct.pack(">II", 12 + len(headers) + len(payload) + 4, len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def usage_json(usage: Usage) -> Json:
    """The `usage` of an answer: what came from the cache, or went to it, is counted apart."""
    fresh = usage.prompt_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    return {
        "inputTokens": fresh,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.prompt_tokens + usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }


def _blocks(turn: Turn) -> Iterator[Event]:
    index = 0
    for text, wrapped in ((turn.thinking, True), (turn.content, False)):
        if not text:
            continue
        for piece in turn.pieces(text):
            delta: Json = {"reasoningContent": {"text": piece}} if wrapped else {"text": piece}
            yield _delta(index, delta, len(piece.encode()))
        yield Event(frame("contentBlockStop", {"contentBlockIndex": index}))
        index += 1
    for call in turn.tool_calls:
        start = {"toolUse": {"toolUseId": call.id or ids.new("call"), "name": call.name}}
        yield Event(
            frame("contentBlockStart", {"contentBlockIndex": index, "start": start}),
            "delta",
            len(call.name.encode()),
        )
        for piece in turn.pieces(call.arguments_json):
            yield _delta(index, {"toolUse": {"input": piece}}, len(piece.encode()))
        yield Event(frame("contentBlockStop", {"contentBlockIndex": index}))
        index += 1


def _delta(index: int, delta: Json, output_bytes: int) -> Event:
    data = frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
    return Event(data, "delta", output_bytes)


def _tools(body: Json) -> list[Json]:
    return objects(body.get("toolConfig") or {}, "tools")


def _text(parts: list[Json]) -> str:
    return "\n".join(part["text"] for part in parts if "text" in part)
