"""Messages made of blocks, as assistants write them: text, tool calls, their results, images."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from nexus.history.items import Attachment
from nexus.history.source import as_list, as_object, as_text
from nexus.ledgers.agents.imported import PastCall, PastResult

_BRIEF_CHARACTERS: Final = 300
_KEPT_CHARACTERS: Final = 20_000
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_CALLS: Final = frozenset({"tool_use", "toolCall", "function_call", "custom_tool_call"})
_RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output", "custom_tool_call_output"})


def read_words(content: object) -> str:
    """Return what is said in a message: its text, without tools and thoughts."""
    if isinstance(content, str):
        return content.strip()
    parts = (as_object(block) for block in as_list(content))
    return "\n".join(
        as_text(each.get("text")) or "" for each in parts if as_text(each.get("type")) in _TEXTS
    ).strip()


def brief_calls(content: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each tool call or result in brief, with what is kept of it."""
    for block in as_list(content):
        if call := brief_call(as_object(block)):
            yield call


def brief_call(block: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return a call or a result in brief, with what is kept of it. None for any other block."""
    type_ = as_text(block.get("type"))
    if type_ in _CALLS:
        name, said = as_text(block.get("name")) or "tool", _arguments(block)
    elif type_ in _RESULTS:
        name, said = "result", _output(block)
    else:
        return None
    return f"{name}: {said[:_BRIEF_CHARACTERS]}", {"tool": name, "text": said[:_KEPT_CHARACTERS]}


def read_calls(content: object) -> tuple[PastCall, ...]:
    """Return the tool calls among the blocks, in full."""
    found = (block for block in map(as_object, as_list(content)) if as_text(block.get("type")) in _CALLS)
    return tuple(
        PastCall(
            call_id=as_text(block.get("call_id")) or as_text(block.get("id")),
            tool_name=as_text(block.get("name")) or "tool",
            arguments_json=_as_json(_arguments(block)),
        )
        for block in found
    )


def read_results(content: object) -> tuple[PastResult, ...]:
    """Return the results of tools among the blocks, in full."""
    found = (block for block in map(as_object, as_list(content)) if as_text(block.get("type")) in _RESULTS)
    return tuple(
        PastResult(
            call_id=as_text(block.get("tool_use_id")) or as_text(block.get("call_id")),
            content=_output(block),
            is_error=block.get("is_error") is True,
        )
        for block in found
    )


def _arguments(block: dict[str, Any]) -> str:
    return _dump(block.get("input", block.get("arguments", "")))


def _output(block: dict[str, Any]) -> str:
    given = block.get("content", block.get("output", ""))
    return _dump(read_words(given) or given)


def _dump(given: object) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _as_json(arguments: str) -> str:
    """Arguments as a program wrote them; a text that isn't JSON becomes a JSON string."""
    try:
        json.loads(arguments)
    except ValueError:
        return json.dumps(arguments, ensure_ascii=False) if arguments else "{}"
    return arguments


def read_images(content: object) -> tuple[Attachment, ...]:
    """Return the images among the blocks."""
    found = (as_object(block) for block in as_list(content))
    return tuple(_image(block) for block in found if block.get("type") in ("image", "input_image"))


def _image(block: dict[str, Any]) -> Attachment:
    source = as_object(block.get("source"))
    type_ = as_text(source.get("media_type")) or as_text(block.get("mimeType"))
    packed = as_text(source.get("data")) or as_text(block.get("data"))
    url = as_text(block.get("image_url")) or ""
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
