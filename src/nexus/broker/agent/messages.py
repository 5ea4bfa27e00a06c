"""Messages as the ledger keeps them: exact JSON to reload them from, and text to read.

The instructions are left out: they are the system prompt, which is built anew for every run.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from nexus.broker.agent.records import Message, ToolCall

Step = tuple[ToolCall, str]
"""A call and what it gave."""

_ADAPTER: TypeAdapter[ModelMessage] = TypeAdapter(ModelMessage)


def stored(message: ModelMessage) -> Message:
    """A message for the ledger."""
    if isinstance(message, ModelResponse):
        return Message(
            role="assistant", content=text_of(message), parts_json=_dumped(message), model=message.model_name
        )
    bare = replace(message, instructions=None)
    results = any(isinstance(part, ToolReturnPart) for part in message.parts)
    return Message(role="tool" if results else "user", content=_asked(message), parts_json=_dumped(bare))


def loaded(parts_json: str) -> ModelMessage:
    """The message that was stored."""
    return _ADAPTER.validate_json(parts_json)


def asked(text: str) -> str:
    """The exact form of a message to the model."""
    return _dumped(ModelRequest(parts=[UserPromptPart(text)]))


def noted(text: str) -> str:
    """The exact form of a message that no model gave, in the place where its answer would stand."""
    return _dumped(ModelResponse(parts=[TextPart(text)]))


def exchange(said: str, steps: Sequence[Step], answer: str, at: datetime) -> list[str]:
    """The exact forms of a whole turn: what was said, calls and what they gave, the answer. For records
    that no run has made, such as an imported conversation."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(said, timestamp=at)], timestamp=at)]
    for call, result in steps:
        part = ToolCallPart(call.tool, call.arguments_json, call.call_id)
        given = ToolReturnPart(call.tool, result, call.call_id, timestamp=at)
        messages += [ModelResponse(parts=[part], timestamp=at), ModelRequest(parts=[given], timestamp=at)]
    messages.append(ModelResponse(parts=[TextPart(answer)], timestamp=at))
    return [_dumped(message) for message in messages]


def text_of(response: ModelResponse) -> str:
    """What a model said, without its thinking and its tool calls."""
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _dumped(message: ModelMessage) -> str:
    return _ADAPTER.dump_json(message).decode()


def _asked(message: ModelRequest) -> str:
    return "\n\n".join(filter(None, map(_readable, message.parts)))


def _readable(part: ModelRequestPart) -> str:
    if isinstance(part, UserPromptPart):
        if isinstance(part.content, str):
            return part.content
        return "\n".join(item for item in part.content if isinstance(item, str))
    if isinstance(part, ToolReturnPart):
        return part.model_response_str()
    return str(getattr(part, "content", ""))
