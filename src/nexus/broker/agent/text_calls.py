"""Tool calls that a model writes into its text, because its server does not turn them into calls.

`{"name": …, "arguments": …}` alone or in a fence, Hermes' and Qwen's `<tool_call>`, Llama's `<|python_tag|>`
and `parameters`, Mistral's `[TOOL_CALLS]`. Only what is valid for a tool that was offered is a call, and
only where it does not quote what the model was told.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jsonschema import Draft202012Validator

CALLS_IN_TEXT: Final = "calls_in_text"
"""Kept with an answer whose calls the model wrote into its text."""
_DECODER: Final = json.JSONDecoder(strict=False)
_TAGS: Final = ("<tool_call>", "<function_call>", "<|python_tag|>", "[TOOL_CALLS]")
_LANGUAGES: Final = ("", "json", "tool_call", "tool_code", "xml")
# What may stand around the JSON of a call, and goes with it.
_BEFORE: Final = re.compile(
    r"(?:<tool_call>|<function_call>|<\|python_tag\|>|\[TOOL_CALLS\]|```(?:json|tool_call|tool_code|xml)?)\s*$"
)
_AFTER: Final = re.compile(r"\s*(?:</tool_call>|</function_call>|<\|eom_id\|>|<\|eot_id\|>|```|;)")
# Mistral's newer form names the tool before the arguments.
_NAMED: Final = re.compile(r"\[TOOL_CALLS\]\s*([\w.-]+)\s*(?:\[ARGS\])?\s*$")
_KEYS: Final = (
    "name",
    "function",
    "tool",
    "tool_name",
    "arguments",
    "parameters",
    "type",
    "id",
    "tool_calls",
)
_FIRST_KEY: Final = re.compile(r'(?:\[\s*)?\{\s*(?:"([^"\\]*)(")?|$)|\[\s*$')
_SUSPECT: Final = re.compile(r"[{\[<`]")
_FENCED: Final = re.compile(r"\A```\w*\s*(.*?)\s*```\Z", re.DOTALL)
_MOST_CALLS: Final = 8


@dataclass(frozen=True, kw_only=True)
class TextCall:
    """A call that stands in a text."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The calls of a text, and what is left of it without them."""

    calls: Sequence[TextCall]
    text: str


def find(text: str, tools: Mapping[str, Mapping[str, Any]], quoted: Collection[str] = ()) -> Found | None:
    """The calls that a text holds; None where there are none.

    `tools` has the JSON schema of each tool's arguments. What stands in `quoted` word for word was told to
    the model, and is not its call.
    """
    calls: list[TextCall] = []
    kept: list[str] = []
    end = 0
    for start, stop, value in _values(text):
        before = text[end:start]
        named = _NAMED.search(before)
        given = {"name": named[1], "arguments": value} if named else value
        found = [call for each in _flat(given) if (call := _call(each, tools)) is not None]
        if not found or any(text[start:stop] in told for told in quoted):
            continue
        opening = named or _BEFORE.search(before)
        kept.append(before[: opening.start()] if opening else before)
        closing = _AFTER.match(text, stop)
        end = closing.end() if closing else stop
        calls += found
    if not calls:
        return _find_unnamed(text, tools, quoted)
    kept.append(text[end:])
    return Found(calls=calls[:_MOST_CALLS], text="".join(kept).strip())


def operations(tools: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Tools with an argument that says which of their operations is meant, and that argument.

    Several tools may call it the same, as `agent_send` and `schedule` do with `op`.
    """
    return [
        (tool, each)
        for tool, schema in tools.items()
        for each in schema.get("required", ())
        if schema["properties"][each].get("enum")
    ]


def _find_unnamed(text: str, tools: Mapping[str, Mapping[str, Any]], quoted: Collection[str]) -> Found | None:
    """A text that is nothing but arguments with an operation in them: they name the tool as well."""
    bare = _FENCED.sub(r"\1", text.strip())
    try:
        value: Any = json.loads(bare, strict=False)
    except ValueError:
        return None
    if not isinstance(value, dict) or any(bare in told for told in quoted):
        return None
    given = cast("dict[str, Any]", value)
    for tool, key in operations(tools):
        if key in given and (call := _call({"name": tool, "arguments": given}, tools)) is not None:
            return Found(calls=[call], text="")
    return None


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """The JSON objects and lists of a text, with where each begins and ends."""
    at = 0
    while (opening := re.compile(r"[{\[]").search(text, at)) is not None:
        at = opening.start()
        try:
            value, stop = _DECODER.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        yield at, stop, value
        at = stop


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return _flat(given["tool_calls"]) if isinstance(given.get("tool_calls"), list) else [given]
    return [each for item in cast("list[Any]", value) if isinstance(item, dict) for each in _flat(item)]


def _call(value: Any, tools: Mapping[str, Mapping[str, Any]]) -> TextCall | None:
    given = cast("dict[str, Any]", value)
    if isinstance(given.get("function"), dict):
        given = cast("dict[str, Any]", given["function"])
    name = next((given[key] for key in ("name", "function", "tool", "tool_name") if key in given), None)
    arguments = next((given[key] for key in ("arguments", "parameters") if key in given), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    if name not in tools:
        name, arguments = _find_meant_tool(name, cast("dict[str, Any]", arguments), tools)
    if name not in tools:
        return None
    stated = {
        key: value
        for key, value in cast("dict[str, Any]", arguments).items()
        if value is not None or key in tools[name].get("required", ())
    }
    if not Draft202012Validator(tools[name]).is_valid(stated):  # pyright: ignore[reportUnknownMemberType]
        return None
    return TextCall(tool=name, arguments=stated)


def _find_meant_tool(
    name: str, arguments: dict[str, Any], tools: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """The tool that has an operation of that name: small models take the one for the other."""
    for tool, schema in tools.items():
        for each in schema.get("required", ()):
            if name in schema["properties"][each].get("enum", ()):
                return tool, {**arguments, each: name}
    return name, arguments


class Holdback:
    """Lets through the pieces of a text as they come, but nothing that may turn out to be a call.

    `keys` are further first keys of an object that may be one.
    """

    def __init__(self, keys: Collection[str] = ()) -> None:
        self._keys = (*_KEYS, *keys)
        self._held = ""

    def add(self, text: str) -> str:
        """What can be shown now."""
        self._held += text
        suspects = (found.start() for found in _SUSPECT.finditer(self._held))
        end = next((at for at in suspects if _may_be_call(self._held[at:], self._keys)), len(self._held))
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def rest(self) -> str:
        """What is still held back."""
        rest, self._held = self._held, ""
        return rest


def _may_be_call(text: str, keys: Collection[str]) -> bool:
    """Whether what begins here is a call, or may become one."""
    if any(text.startswith(tag) or tag.startswith(text) for tag in (*_TAGS, "```")) and text[:3] != "```":
        return True
    if text.startswith("```"):
        language, newline, rest = text[3:].partition("\n")
        language, rest = language.strip().lower(), rest.lstrip()
        if not newline:
            return any(known.startswith(language) for known in _LANGUAGES)
        return language in _LANGUAGES and (not rest or _may_be_call(rest, keys))
    key = _FIRST_KEY.match(text)
    if key is None:
        return False
    if key[1] is None:
        return True
    return key[1] in keys if key[2] else any(known.startswith(key[1]) for known in keys)
