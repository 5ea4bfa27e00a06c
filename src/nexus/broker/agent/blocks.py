"""A conversation in blocks: each turn before the present one is prepared once, and kept with it."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from nexus.broker.agent import fitting, images, messages, text_calls
from nexus.broker.agent.short_ids import ShortIds
from nexus.ledgers.agents.history import Turn


class Block:
    """Messages that stand together, as a provider takes them, and what a request must know of them."""

    def __init__(self, said: Sequence[ModelMessage]) -> None:
        self.messages = repair_messages(said)
        first, last = (self.messages[0], self.messages[-1]) if self.messages else (None, None)
        self.is_whole = isinstance(first, ModelRequest) and isinstance(last, ModelResponse)
        """Whether it begins with a question and ends with an answer: then its neighbors change nothing."""
        self._shortened: tuple[tuple[str, ...], Block] = ((), self)

    @cached_property
    def length_bytes(self) -> int:
        return fitting.length_bytes(self.messages)

    @cached_property
    def images(self) -> list[ImageUrl]:
        return images.find_urls(self.messages)

    @cached_property
    def has_calls_in_text(self) -> bool:
        """Whether a model wrote calls into the text of an answer."""
        return any(
            text_calls.CALLS_IN_TEXT in (message.metadata or {})
            for message in self.messages
            if isinstance(message, ModelResponse)
        )

    @cached_property
    def told(self) -> list[str]:
        """What a model was told by others, and may quote."""
        found: list[str] = []
        for part in chain.from_iterable(message.parts for message in self.messages):
            if isinstance(part, ToolReturnPart):
                found.append(part.model_response_str())
            elif isinstance(part, UserPromptPart):
                found += fitting.said(part)
        return found

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        named = ShortIds()
        named.shorten(self.messages)
        return named.ids

    def shorten(self, short: ShortIds) -> "Block":
        """The block with short ids. In a conversation that goes on they are the same each time."""
        if not self._ids:
            return self
        numbers = tuple(map(short.number, self._ids))
        if numbers != self._shortened[0]:
            self._shortened = (numbers, Block(short.shorten(self.messages)))
        return self._shortened[1]


def join(past: Sequence[Turn], present: Sequence[ModelMessage]) -> list[Block]:
    """The blocks of a conversation; the present turn is in the last one."""
    blocks = [turn.derive(_prepare) for turn in past]
    if all(block.is_whole for block in blocks):
        return [*blocks, Block(present)]
    return [Block([*chain.from_iterable(block.messages for block in blocks), *present])]


def _prepare(turn: Turn) -> Block:
    def said(role: str, content: str) -> ModelMessage:
        # It was not said, and stands for what is missing.
        if role == "assistant":
            return ModelResponse(parts=[TextPart(content)])
        return ModelRequest(parts=[UserPromptPart(content)])

    return Block(
        [
            messages.loaded(each.parts_json) if each.parts_json else said(each.role, each.content)
            for each in turn.messages
        ]
    )
