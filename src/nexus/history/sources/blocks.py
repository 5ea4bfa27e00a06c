"""Messages made of blocks, as assistants write them: text, tool calls, their results, images."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from nexus.history.items import Attachment
from nexus.history.source import listed, record, text

_BRIEF_CHARACTERS: Final = 300
_KEPT_CHARACTERS: Final = 20_000
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_CALLS: Final = frozenset({"tool_use", "toolCall", "function_call", "custom_tool_call"})
_RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output", "custom_tool_call_output"})


def words(content: object) -> str:
    """What is said in a message: its text, without tools and thoughts."""
    if isinstance(content, str):
        return content.strip()
    parts = (record(block) for block in listed(content))
    return "\n".join(
        text(each.get("text")) or "" for each in parts if text(each.get("type")) in _TEXTS
    ).strip()


def tool_calls(content: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each tool call or result in brief, with what is kept of it."""
    for block in listed(content):
        if call := tool_call(record(block)):
            yield call


def tool_call(block: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """A call or a result in brief, with what is kept of it. None for any other block."""
    type_ = text(block.get("type"))
    if type_ in _CALLS:
        name = text(block.get("name")) or "tool"
        given = block.get("input", block.get("arguments", ""))
    elif type_ in _RESULTS:
        name = "result"
        given = block.get("content", block.get("output", ""))
        given = words(given) or given
    else:
        return None
    said = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return f"{name}: {said[:_BRIEF_CHARACTERS]}", {"tool": name, "text": said[:_KEPT_CHARACTERS]}


def images(content: object) -> tuple[Attachment, ...]:
    """The images among the blocks."""
    found = (record(block) for block in listed(content))
    return tuple(_image(block) for block in found if block.get("type") in ("image", "input_image"))


def _image(block: dict[str, Any]) -> Attachment:
    source = record(block.get("source"))
    type_ = text(source.get("media_type")) or text(block.get("mimeType"))
    packed = text(source.get("data")) or text(block.get("data"))
    url = text(block.get("image_url")) or ""
    if url.startswith("data:"):
        head, _, packed = url.removeprefix("data:").partition(",")
        type_ = head.partition(";")[0]
    try:
        data = base64.b64decode(packed or "", validate=True) or None
    except ValueError:
        data = None
    return Attachment(
        name=None,
        media_type=type_ or "image/unknown",
        size_bytes=None if data is None else len(data),
        data=data,
    )
