"""Messages as the ledger keeps them: exact JSON to reload them from, and text to read.

The instructions are left out: they are the system prompt, which is built anew for every run.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from nexus.broker.agent import fitting, text_calls
from nexus.broker.agent.records import Message
from nexus.broker.agent.short_ids import ShortIds
from nexus.ledgers.agents.history import Turn

_ADAPTER: TypeAdapter[ModelMessage] = TypeAdapter(ModelMessage)


def dump_message(message: ModelMessage) -> Message:
    """A message for the ledger."""
    if isinstance(message, ModelResponse):
        return Message(
            role="assistant", content=text_of(message), parts_json=_dump(message), model=message.model_name
        )
    bare = replace(message, instructions=None)
    results = any(isinstance(part, ToolReturnPart) for part in message.parts)
    return Message(
        role="tool" if results else "user", content=_render_request(message), parts_json=_dump(bare)
    )


def load_message(parts_json: str) -> ModelMessage:
    """The message that was stored."""
    return _ADAPTER.validate_json(parts_json)


def dump_question(text: str) -> str:
    """The exact form of a message to the model."""
    return _dump(ModelRequest(parts=[UserPromptPart(text)]))


def dump_note(text: str) -> str:
    """The exact form of a message that no model gave, in the place where its answer would stand."""
    return _dump(ModelResponse(parts=[TextPart(text)]))


def text_of(response: ModelResponse) -> str:
    """What a model said, without its thinking and its tool calls."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _dump(message: ModelMessage) -> str:
    return _ADAPTER.dump_json(message).decode()


def _render_request(message: ModelRequest) -> str:
    return "\n\n".join(filter(None, map(_readable, message.parts)))


def _readable(part: ModelRequestPart) -> str:
    if isinstance(part, UserPromptPart):
        if isinstance(part.content, str):
            return part.content
        return "\n".join(item for item in part.content if isinstance(item, str))
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    return str(getattr(part, "content", ""))


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
        return fitting.find_urls(self.messages)

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
                found += fitting.texts_of(part)
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
    def make_message(role: str, content: str) -> ModelMessage:
        # It was not said, and stands for what is missing.
        if role == "assistant":
            return ModelResponse(parts=[TextPart(content)])
        return ModelRequest(parts=[UserPromptPart(content)])

    return Block(
        [
            load_message(each.parts_json) if each.parts_json else make_message(each.role, each.content)
            for each in turn.messages
        ]
    )
