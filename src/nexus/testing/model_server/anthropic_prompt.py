"""Reading an Anthropic Messages request: the rules it must keep, its cache points, its prompt."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, cast

from nexus.testing.model_server.caching import MAX_POINTS
from nexus.testing.model_server.prompt import Level, Lifetime, Prompt, Segment
from nexus.testing.model_server.request import Json, KeptHeaders, View, objects
from nexus.testing.model_server.tokens import canonical
from nexus.testing.model_server.wire import require

ROLES = ("user", "assistant", "system")
UNCACHEABLE = ("thinking", "redacted_thinking")


def check(body: Json, headers: KeptHeaders) -> None:
    """Refuse what the Messages API refuses."""
    require("anthropic-version" in headers, "anthropic-version: header is required")
    check_prompt(body)
    _check_version(body, headers["anthropic-version"])
    max_tokens = body.get("max_tokens")
    require(isinstance(max_tokens, int) and max_tokens >= 0, "max_tokens: Field required")


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


def prompt(body: Json) -> Prompt:
    """Tools, system and messages as segments, with the cache points on them."""
    segments = list(_segments(body))
    automatic = body.get("cache_control")
    if automatic:
        last = _last_cacheable(segments)
        if last is not None:
            segments[last] = Segment(segments[last].level, segments[last].data, _lifetime(automatic))
    settings = {key: body[key] for key in ("tool_choice", "thinking") if body.get(key)}
    return Prompt(tuple(segments), canonical(settings) if settings else b"")


def view(body: Json) -> View:
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
    for role, content in _joined(messages):
        answered = {block.get("tool_use_id", "") for block in content if block["type"] == "tool_result"}
        unknown = sorted(answered - open_calls)
        _require_answered(open_calls - answered)
        require(not unknown, f"unexpected `tool_use_id` found in `tool_result` blocks: {unknown}")
        calls = {block.get("id", "") for block in content if block["type"] == "tool_use"}
        open_calls = calls if role == "assistant" else set()
    _require_answered(open_calls)


def _joined(messages: list[Json]) -> Iterator[tuple[str, list[Json]]]:
    """The API reads neighbouring messages of one role as one message."""
    spoken = [message for message in messages if message["role"] != "system"]
    for role, group in groupby(spoken, key=lambda message: str(message["role"])):
        yield role, [block for message in group for block in blocks(message.get("content", []))]


def _require_answered(open_calls: set[str]) -> None:
    require(
        not open_calls,
        f"`tool_use` ids were found without `tool_result` blocks right after: {sorted(open_calls)}",
    )
