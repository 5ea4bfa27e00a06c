"""Google's Gemini format: requests, answers, streams and errors."""

import json
from collections.abc import Iterator, Mapping

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

ROLES = ("user", "model", None)
ERRORS: Mapping[Kind, ErrorForm] = {
    "invalid_request": ErrorForm(400, "INVALID_ARGUMENT", "The request is not valid."),
    "authentication": ErrorForm(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
    "quota": ErrorForm(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    "permission": ErrorForm(403, "PERMISSION_DENIED", "The caller does not have permission."),
    "not_found": ErrorForm(404, "NOT_FOUND", "The model is not found for API version v1beta."),
    "too_large": ErrorForm(413, "INVALID_ARGUMENT", "The request is too large."),
    "rate_limit": ErrorForm(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."),
    "server": ErrorForm(500, "INTERNAL", "An internal error has occurred."),
    "unscripted": ErrorForm(501, "UNIMPLEMENTED", "Nothing is scripted for this request."),
    "timeout": ErrorForm(504, "DEADLINE_EXCEEDED", "The request timed out."),
    "overloaded": ErrorForm(503, "UNAVAILABLE", "The model is overloaded."),
}
FINISH: Mapping[StopReason, str] = {
    "end_turn": "STOP",
    "stop_sequence": "STOP",
    "pause_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "refusal": "SAFETY",
}


class GoogleWire:
    """`POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

    name: WireName = "google"
    errors = ERRORS

    def check(self, body: Json, headers: KeptHeaders) -> None:
        contents = objects(body, "contents")
        require(contents, "contents are required")
        for content in contents:
            require(content.get("role") in ROLES, "Please use a valid role: user, model.")
            require(objects(content, "parts"), "contents.parts must not be empty.")
        calls = [part for content in contents for part in content["parts"] if "functionCall" in part]
        results = [part for content in contents for part in content["parts"] if "functionResponse" in part]
        require(
            len(calls) == len(results),
            "Please ensure that the number of function response parts is equal to the number of function "
            "call parts of the function call turn.",
        )

    def prompt(self, body: Json) -> Prompt:
        tools = [Segment("tools", canonical(tool) + b"\n") for tool in objects(body, "tools")]
        system = body.get("systemInstruction")
        said = [Segment("messages", canonical(content) + b"\n") for content in body["contents"]]
        return Prompt((*tools, *([Segment("system", canonical(system) + b"\n")] if system else []), *said))

    def view(self, body: Json) -> View:
        contents: list[Json] = body["contents"]
        spoken = [_text(content) for content in contents if content.get("role") != "model"]
        last = contents[-1]["parts"]
        declared = [one for tool in objects(body, "tools") for one in objects(tool, "functionDeclarations")]
        return View(
            system=_text(body.get("systemInstruction") or {}),
            last_user=next((text for text in reversed(spoken) if text), ""),
            tool_results=tuple(
                json.dumps(part["functionResponse"]["response"], ensure_ascii=False)
                for part in last
                if "functionResponse" in part
            ),
            tool_names=tuple(one.get("name", "") for one in declared),
        )

    def body(self, request: ModelRequest, turn: Turn, usage: Usage) -> Json:
        parts = [part for part, _ in _parts(turn, whole=True)]
        return _answer(request, parts, FINISH[turn.reason], usage)

    def events(self, request: ModelRequest, turn: Turn, usage: Usage) -> list[Event]:
        pieces = [
            Event(event_bytes(_answer(request, [part])), "delta", size)
            for part, size in _parts(turn, whole=False)
        ]
        return [*pieces, Event(event_bytes(_answer(request, [], FINISH[turn.reason], usage)), "close")]

    def error_body(self, kind: Kind, message: str, request_id: str) -> Json:
        form = ERRORS[kind]
        return {"error": {"code": form.status, "message": message or form.message, "status": form.type}}

    def error_event(self, body: Json) -> bytes:
        return event_bytes(body)

    def request_id_header(self) -> str:
        return "x-request-id"


def event_bytes(data: Json) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\r\n\r\n".encode()


def _parts(turn: Turn, *, whole: bool) -> Iterator[tuple[Json, int]]:
    for text, kind in ((turn.thinking, {"thought": True}), (turn.content, {})):
        for piece in ([text] if text else []) if whole else turn.pieces(text):
            yield {"text": piece, **kind}, len(piece.encode())
    for call in turn.tool_calls:
        # Arguments are an object here, never a text in pieces.
        size = len(call.name.encode()) + len(call.arguments_json.encode())
        yield {"functionCall": {"name": call.name, "args": json.loads(call.arguments_json)}}, size


def _answer(
    request: ModelRequest, parts: list[Json], finish: str | None = None, usage: Usage | None = None
) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    answer: Json = {
        "candidates": [candidate],
        "modelVersion": request.model,
        "responseId": f"resp_{request.number}",
    }
    return answer if usage is None else {**answer, "usageMetadata": usage_json(usage)}


def usage_json(usage: Usage) -> Json:
    """The `usageMetadata` of an answer: thoughts are counted apart from what is said."""
    return {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.thinking_tokens,
        "thoughtsTokenCount": usage.thinking_tokens,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.output_tokens,
    }


def _text(content: Json) -> str:
    return "\n".join(part["text"] for part in objects(content, "parts") if "text" in part)
