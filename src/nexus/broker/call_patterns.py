"""Patterns of tool calls: which ones the owner wants to be asked about, and which a rule allows.

Patterns are a convenience, not a boundary: a shell runs one command in many spellings (`env rm`, `bash -c`).
What a call can reach is decided by the sandbox.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast
from urllib.parse import urlsplit

from nexus.text import join_lines

_PATTERN: Final = re.compile(r"(?P<tool>[^()]+)(?:\((?P<value>.*)\))?", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
# With one of these, a command may do more than its beginning says.
_JOINED: Final = re.compile(r"[;&|`$<>(){}\\\r\n]")
_SEPARATORS: Final = re.compile(r"&&|\|\||[;|&\n]")
# Our own tools: the argument by which calls are alike, and those that may then be anything.
_ALIKE: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "bash": ("command", frozenset({"timeout_ms"})),
    "read": ("path", frozenset({"first_line", "lines"})),
    "write": ("path", frozenset({"content"})),
    "edit": ("path", frozenset({"old", "new"})),
    "web_fetch": ("url", frozenset({"offset"})),
}


def find_pattern(patterns: Sequence[str], tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The first pattern that a call matches.

    `tool` matches all its calls, `tool(VALUE)` those with such a value in any argument, and
    `tool(NAME=VALUE)` those with such a value in that argument. Each command of a line counts.
    """
    for pattern in patterns:
        found = _PATTERN.fullmatch(pattern.strip())
        if found is None or not _is_like(found["tool"].strip(), tool):
            continue
        wanted = found["value"]
        if wanted is None or _has_value(wanted, arguments.values()):
            return pattern
        named = _NAMED.fullmatch(wanted)
        if named and named["name"] in arguments and _has_value(named["value"], [arguments[named["name"]]]):
            return pattern
    return None


def _has_value(wanted: str, values: Iterable[Any]) -> bool:
    return any(_is_like(wanted, text) for value in values for text in _spellings(value))


def _spellings(value: Any) -> Iterator[str]:
    """The texts in an argument, each as it is given and as it is meant."""
    if isinstance(value, Mapping):
        given = cast("Mapping[Any, Any]", value)
        for each in (*given.keys(), *given.values()):
            yield from _spellings(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _spellings(each)
    elif isinstance(value, str):
        yield value
        yield posixpath.normpath(value)
        yield from (join_lines(part) for part in _SEPARATORS.split(value))
    else:
        yield json.dumps(value)


def _is_like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern, in which only `*` is special. Takes time in proportion to the text."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *between, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for piece in between:
        # The first place is as good as any: it leaves the most for what follows.
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Calls that the owner allowed from now on. All arguments of a call must be as the rule says."""

    tool: str
    exact: Mapping[str, Any] | None = None
    """Arguments with the values they must have. None, with no `like`: any arguments."""
    like: Mapping[str, str] | None = None
    """Arguments with the patterns they must fit."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps({"tool": self.tool, "exact": self.exact, "like": self.like}, ensure_ascii=False)

    def allows(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it allows a call. A pattern allows no command that is made of several."""
        if tool != self.tool:
            return False
        if self.exact is None and self.like is None:
            return True
        exact, like = self.exact or {}, self.like or {}
        missing = exact.keys() | {name for name, wanted in like.items() if wanted != "*"}
        return missing <= arguments.keys() and all(
            _is_same(exact[name], value) if name in exact else name in like and _fits(name, like[name], value)
            for name, value in arguments.items()
        )

    def __str__(self) -> str:
        if self.exact is None and self.like is None:
            return self.tool
        given = {
            **{name: _render_value(value) for name, value in (self.exact or {}).items()},
            **(self.like or {}),
        }
        return f"{self.tool}({', '.join(f'{name}={value}' for name, value in given.items())})"


def suggest_rule(tool: str, arguments: Mapping[str, Any]) -> Rule:
    """What "always" allows: calls like this one for our own tools, otherwise this very call."""
    name, free = _ALIKE.get(tool, ("", frozenset[str]()))
    value = arguments.get(name)
    wanted = _generalize(name, value) if isinstance(value, str) and "*" not in value else None
    if wanted is None:
        return Rule(tool=tool, exact=dict(arguments), like={})
    others = {each: given for each, given in arguments.items() if each != name and each not in free}
    return Rule(tool=tool, exact=others, like={name: wanted, **dict.fromkeys(sorted(free), "*")})


def _generalize(name: str, value: str) -> str | None:
    """The pattern of values like this one; None where only the value itself will do."""
    if name == "command":
        words = value.split()
        return f"{words[0]} *" if len(words) > 1 and not _JOINED.search(value) else None
    if name == "url":
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.netloc}/*" if parts.scheme and parts.netloc else None
    folder = posixpath.dirname(posixpath.normpath(value))
    return f"{folder.rstrip('/')}/*" if folder.startswith("/") else None


def _fits(name: str, wanted: str, value: Any) -> bool:
    if wanted == "*":
        return True
    if not isinstance(value, str) or (name == "command" and _JOINED.search(value)):
        return False
    return _is_like(wanted, posixpath.normpath(value) if name == "path" else value)


def _is_same(one: Any, other: Any) -> bool:
    # As JSON: `1 == True` in Python, and a server may tell them apart.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _render_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
