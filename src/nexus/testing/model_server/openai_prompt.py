"""Reading an OpenAI chat completions request: the rules it must keep and its prompt."""

from typing import Any

from nexus.testing.model_server.prompt import Prompt, Segment
from nexus.testing.model_server.request import Json, KeptHeaders, View, objects
from nexus.testing.model_server.tokens import canonical
from nexus.testing.model_server.wire import require

ROLES = ("system", "developer", "user", "assistant", "tool")
FORMATS = ("text", "json_object", "json_schema")


def check(body: Json, headers: KeptHeaders) -> None:
    """Refuse what the chat completions API refuses."""
    require(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
    messages = objects(body, "messages")
    require(messages, "'messages' must have at least one message.")
    for index, message in enumerate(messages):
        require(message.get("role") in ROLES, f"messages[{index}].role: must be one of {ROLES}")
    require(body.get("n") in (None, 1), "n: this server answers with one choice")
    require(body.get("stream") is True or not body.get("stream_options"), "stream_options needs stream: true")
    _check_format(body.get("response_format"))
    _check_tool_results(messages)


def prompt(body: Json) -> Prompt:
    """Tools, the answer's schema, then messages: the order in which a prefix is shared."""
    tools = [Segment("tools", canonical(tool) + b"\n") for tool in objects(body, "tools")]
    form = body.get("response_format")
    schema = [Segment("tools", canonical(form) + b"\n")] if form else []
    messages = [Segment("messages", canonical(message) + b"\n") for message in body["messages"]]
    return Prompt((*tools, *schema, *messages))


def view(body: Json) -> View:
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
