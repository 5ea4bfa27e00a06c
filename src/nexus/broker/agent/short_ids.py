"""Short ids at the border to a model: it reads and writes `fact_12` where the ledgers have 26 characters.

Ids are numbered in the order in which a conversation first names them, so the same conversation always gets
the same numbers, and its cached prefix stays. Nothing outside of a request knows of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

_KINDS: Final = ("fact", "evt", "ent", "obs", "epi", "mod", "dsp")
_NAMED: Final = "|".join(_KINDS)
_LONG: Final = re.compile(rf"(?<![A-Za-z0-9_])({_NAMED})_[0-9A-HJKMNP-TV-Z]{{26}}(?![A-Za-z0-9])")
_SHORT: Final = re.compile(rf"(?<![A-Za-z0-9_])({_NAMED})_(\d{{1,6}})(?![A-Za-z0-9])")
# What may go on as a short id.
_UNFINISHED: Final = re.compile(r"(?<![A-Za-z0-9_])[a-z]{1,4}(?:_\d{0,6})?$")


@dataclass
class ShortIds:
    """The ids of one conversation, and their short forms."""

    _short: dict[str, str] = field(default_factory=dict[str, str])
    _long: dict[str, str] = field(default_factory=dict[str, str])
    _counts: Counter[str] = field(default_factory=Counter[str])
    """How many of each kind there are."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The whole ids, in the order in which they were named."""
        return tuple(self._short)

    def shorten(self, messages: Iterable[ModelMessage]) -> list[ModelMessage]:
        """The messages as a model is to read them."""
        return [self._message(message) for message in messages]

    def response(self, response: ModelResponse) -> ModelResponse:
        """An answer with whole ids in its text and in its calls."""
        if not self._long:
            return response
        return replace(response, parts=[_change_part(part, self.expand) for part in response.parts])

    def expand(self, text: str) -> str:
        """A text with whole ids."""
        return _SHORT.sub(lambda match: self._long.get(match[0], match[0]), text)

    def _message(self, message: ModelMessage) -> ModelMessage:
        parts: list[Any] = [_change_part(part, self._text) for part in message.parts]
        # Most messages name no id, and a copy costs more than all the looking.
        if all(new is old for new, old in zip(parts, message.parts, strict=True)):
            return message
        changed: ModelMessage = replace(message, parts=parts)
        return changed

    def _text(self, text: str) -> str:
        # A quick look first: few texts name an id, and a conversation is gone through for every request.
        return _LONG.sub(lambda match: self.number(match[0]), text) if "_" in text else text

    def number(self, id_: str) -> str:
        """The short form of an id."""
        if id_ not in self._short:
            kind = id_.partition("_")[0]
            self._counts[kind] += 1
            short = f"{kind}_{self._counts[kind]}"
            self._short[id_], self._long[short] = short, id_
        return self._short[id_]


class Expander:
    """Expands the ids of a text that comes in pieces."""

    def __init__(self, ids: ShortIds) -> None:
        self._ids = ids
        self._held = ""

    def add(self, text: str) -> str:
        """What can be shown now."""
        text = self._held + text
        cut = _UNFINISHED.search(text)
        may_go_on = cut is not None and any(_begins(cut[0], kind) for kind in _KINDS)
        end = cut.start() if cut is not None and may_go_on else len(text)
        self._held = text[end:]
        return self._ids.expand(text[:end])

    def rest(self) -> str:
        """What is still held back."""
        rest, self._held = self._held, ""
        return self._ids.expand(rest)


def _begins(text: str, kind: str) -> bool:
    return f"{kind}_".startswith(text) or text.startswith(f"{kind}_")


def _change_part(part: Any, change: Callable[[str], str]) -> Any:
    """A part of a message with its text changed."""
    if isinstance(part, ToolCallPart):
        call = cast("ToolCallPart[Any]", part)
        given = call.args_as_json_str()
        changed = change(given)
        return call if changed == given else replace(call, args=changed)
    if isinstance(part, TextPart | UserPromptPart | ToolReturnPart):
        content: Any = cast("Any", part).content
        if isinstance(content, list):
            items = cast("list[Any]", content)
            texts = [change(item) if isinstance(item, str) else item for item in items]
            whole = cast("Any", part)
            return whole if texts == items else replace(whole, content=texts)
        if isinstance(content, str) and (changed := change(content)) != content:
            return replace(cast("TextPart", part), content=changed)
    return cast("Any", part)
