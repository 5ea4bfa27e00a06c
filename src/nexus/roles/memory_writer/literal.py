"""Aliases as they stand in a text: one letter off, an address is somebody else's."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from nexus.memory.normalisation import IDENTIFYING, normalised, typed

_BETWEEN_DIGITS = re.compile(r"[\s().\-/]")
# A number is written with its country, or without.
_DIGITS = 8


def aliases(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The aliases among an operation's arguments, each with its type."""
    listed = given.get("alias")
    items = cast("list[Any]", listed) if isinstance(listed, list) else [listed]
    return [_typed(item) for item in items if item]


def stands_in(texts: Iterable[str], alias: str, type_: str) -> bool:
    """Whether an alias was written in one of the texts."""
    if type_ == "phone":
        digits = re.sub(r"\D", "", alias)[-_DIGITS:]
        return any(digits in _BETWEEN_DIGITS.sub("", text) for text in texts)
    form = re.escape(normalised(alias, type_))
    # Part of an address is another address; part of a name is a name.
    before, after = (r"[\w.+-]", r"\w|[.-]\w") if type_ in IDENTIFYING else (r"\w", r"\w")
    whole = re.compile(rf"(?<!{before}){form}(?!{after})")
    return any(whole.search(normalised(text)) for text in texts)


def _typed(item: object) -> tuple[str, str]:
    if not isinstance(item, Mapping):
        return typed(str(item))
    fields = cast("Mapping[str, Any]", item)
    text, guessed = typed(str(fields.get("alias") or ""))
    return text, str(fields.get("type") or guessed)
