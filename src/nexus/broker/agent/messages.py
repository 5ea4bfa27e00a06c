"""Messages as the ledger keeps them: exact JSON to reload them from, and text to read.

The instructions are left out: they are the system prompt, which is built anew for every run.
"""

from dataclasses import replace

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)

from nexus.broker.agent.records import Message

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
