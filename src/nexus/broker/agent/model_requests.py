"""A conversation as one model gets it: within its window and in the form that its server takes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from nexus import ids
from nexus.broker.agent import fitting, message_json, text_calls
from nexus.broker.agent.answering import Answering, Asked
from nexus.broker.agent.message_json import Block
from nexus.broker.agent.models import Candidate
from nexus.broker.agent.records import Limits
from nexus.broker.agent.short_ids import ShortIds
from nexus.broker.agent.text_calls import CALLS_IN_TEXT
from nexus.config import ProviderConfig
from nexus.context.wrapping import wrapped
from nexus.ledgers.runtime.models import Capabilities
from nexus.runs import Delta

_TOOLS_IN_WORDS: Final = """\
# How to call a tool

To call a tool, answer with one line of JSON and nothing else, such as
{"name": "TOOL", "arguments": {"ARGUMENT": "value"}}
Then you are told its result. The tools, with `?` at arguments that may be left out:
"""
# A small model takes the result of a call that it wrote as text for a reason to write the call again.
_NEXT: Final = "\n\nThat is the result of your call. Say in words what came of it, or call another tool."
_DEFAULTS: Final = ProviderConfig()
# Of a local server whose speed is not known, and how much slower than measured it may get.
_FIRST_MS: Final = 900_000
_SLOWER_TIMES: Final = 4
# Servers sample at 0.8 by default, at which a small model recites its tools instead of answering.
_LOCAL_TEMPERATURE: Final = 0.2
# A pause is as long as so many tokens take.
_STALL_TOKENS: Final = 32
_NAME: Final = "answer"


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What is to be answered. The last `own` messages are of the present turn."""

    blocks: Sequence[Block]
    own: int
    parameters: ModelRequestParameters
    images: Mapping[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    """The bytes of the images in the messages."""

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The JSON schema of the arguments of each tool."""
        return {tool.name: tool.parameters_json_schema for tool in self.parameters.function_tools}


@dataclass(frozen=True, kw_only=True)
class Form:
    """The form that the answers of a run have. The text of an answer is still the caller's to read."""

    schema: Mapping[str, Any]

    def asked_of(
        self, candidate: Candidate, known: Capabilities, parameters: ModelRequestParameters
    ) -> ModelRequestParameters:
        """The parameters of a request that asks for this form, unless the server refuses schemas."""
        if known.structured_output == "none":
            return parameters
        mode = "native" if candidate.model.profile.get("supports_json_schema_output", False) else "prompted"
        wanted = OutputObjectDefinition(json_schema=dict(self.schema), name=_NAME, strict=True)
        return replace(parameters, output_mode=mode, output_object=wanted)


def build_request(
    candidate: Candidate, known: Capabilities, conversation: Conversation, form: Form | None, limits: Limits
) -> Asked:
    """The request to one model."""
    short, parameters = ShortIds(), conversation.parameters
    blocks = [block.shorten(short) for block in conversation.blocks]
    plain = messages = [message for block in blocks for message in block.messages]
    if any(block.images for block in blocks):
        messages = fitting.fill_in(
            messages, conversation.images, reads_images=known.images is not False, model=candidate.name
        )
    reminded = _find_reminded(messages) if any(block.has_calls_in_text for block in blocks) else set[int]()
    if known.tool_calls == "none" and parameters.function_tools:
        messages, parameters = _in_words(messages, parameters)
    elif not parameters.function_tools and any(map(_has_calls, messages)):
        # Some providers refuse calls in the history of a request without tools.
        messages = list(map(_plain, messages))
    if reminded:
        messages = [
            _with_next(message) if number in reminded else message for number, message in enumerate(messages)
        ]
    if form is not None:
        parameters = form.asked_of(candidate, known, parameters)
    profile = candidate.model.profile
    can_stop_thinking = profile.get("supports_thinking") and not profile.get("thinking_always_enabled")
    room = fitting.room(known, limits.output_tokens, thinks=limits.thinks or not can_stop_thinking)
    fixed = fitting.fixed_bytes(parameters)
    is_plain = messages is plain
    length = fixed + (
        sum(block.length_bytes for block in blocks) if is_plain else fitting.length_bytes(messages)
    )
    if room.input_tokens is not None:
        per_token = known.bytes_per_token or fitting.BYTES_PER_TOKEN
        most_bytes = int(room.input_tokens * per_token)
        if length > most_bytes:
            messages = fitting.fit_messages(messages, conversation.own, most_bytes - fixed)
            length = fixed + fitting.length_bytes(messages)
    settings = ModelSettings(max_tokens=room.output_tokens) if room.output_tokens else ModelSettings()
    if not limits.thinks:
        settings["thinking"] = False
    temperature = _temperature(candidate.config, fills_form=form is not None)
    if temperature is not None:
        settings["temperature"] = temperature
    return Asked(
        messages=messages,
        parameters=parameters,
        settings=settings,
        known=known,
        length_bytes=length,
        first_ms=_first_ms(candidate, known, fitting.tokens(length, known)),
        stall_ms=_stall_ms(candidate, known),
        ids=short,
        holds_back=bool(conversation.schemas) and _may_write_calls(candidate, known),
        call_keys=tuple({key for _, key in text_calls.operations(conversation.schemas)}),
    )


def with_calls(
    response: ModelResponse,
    candidate: Candidate,
    known: Capabilities,
    conversation: Conversation,
    answering: Answering,
) -> ModelResponse:
    """The answer, with the calls that the model wrote as text turned into calls."""
    response = answering.asked.ids.response(response)
    text = message_json.text_of(response)
    found = None
    if not response.tool_calls and conversation.schemas and _may_write_calls(candidate, known):
        told = [each for block in conversation.blocks for each in block.told]
        found = text_calls.find(text, conversation.schemas, told)
    # Where calls arrive as calls, one that stands among other text is an example.
    if found is None or (known.tool_calls == "native" and found.text):
        answering.show_rest()
        return response
    calls = [
        ToolCallPart(call.tool, dict(call.arguments), tool_call_id=ids.new("call")) for call in found.calls
    ]
    for call in calls:
        answering.publish(
            Delta(
                kind="tool_call",
                text=call.args_as_json_str(),
                tool=call.tool_name,
                call_id=call.tool_call_id,
            )
        )
    other = [part for part in response.parts if not isinstance(part, TextPart)]
    said = [TextPart(found.text)] if found.text else []
    metadata = {**(response.metadata or {}), CALLS_IN_TEXT: True}
    return replace(response, parts=[*other, *said, *calls], metadata=metadata)


def _may_write_calls(candidate: Candidate, known: Capabilities) -> bool:
    """Whether calls may come as text: of the models of the public list, none do."""
    return known.tool_calls != "native" or candidate.config.is_local


def _temperature(config: ProviderConfig, *, fills_form: bool) -> float | None:
    """How freely to sample; None leaves it to the provider, whose models may refuse to be told."""
    if config.temperature >= 0:
        return config.temperature
    if not config.is_local or config.kind == "anthropic":
        return None
    return 0.0 if fills_form else _LOCAL_TEMPERATURE


def _first_ms(candidate: Candidate, known: Capabilities, prompt_tokens: int) -> int:
    """How long an answer may take to begin: on a server of one's own, as long as reading the prompt takes."""
    config = candidate.config
    if not config.is_local or config.timeout_ms != _DEFAULTS.timeout_ms:
        return config.timeout_ms
    speed = known.prompt_tokens_per_s
    return max(config.timeout_ms, int(_SLOWER_TIMES * prompt_tokens / speed * 1000) if speed else _FIRST_MS)


def _stall_ms(candidate: Candidate, known: Capabilities) -> int:
    config = candidate.config
    if not config.is_local or config.stall_ms != _DEFAULTS.stall_ms or not known.output_tokens_per_s:
        return config.stall_ms
    return max(config.stall_ms, int(_STALL_TOKENS / known.output_tokens_per_s * 1000))


def _find_reminded(messages: Sequence[ModelMessage]) -> set[int]:
    """The places of the messages that end with what to do next: successful results of calls in text.

    It depends on the answer with the calls alone, so that the cached prefix stays. What failed says itself
    what to do, and asked to tell of it, a small model makes up a success.
    """
    places: set[int] = set()
    for number, (before, message) in enumerate(pairwise(messages), start=1):
        last = message.parts[-1] if message.parts else None
        is_result = isinstance(last, ToolReturnPart) and last.outcome == "success"
        if is_result and isinstance(before, ModelResponse) and CALLS_IN_TEXT in (before.metadata or {}):
            places.add(number)
    return places


def _with_next(message: ModelMessage) -> ModelMessage:
    """A message that ends with the result of a call, with the reminder at its end."""
    if not isinstance(message, ModelRequest):
        return message
    *before, last = message.parts
    if isinstance(last, ToolReturnPart):
        last = replace(last, content=last.model_response_str() + _NEXT)
    elif isinstance(last, UserPromptPart):
        last = replace(last, content=f"{last.content}{_NEXT}")
    return replace(message, parts=[*before, last])


def _in_words(
    messages: list[ModelMessage], parameters: ModelRequestParameters
) -> tuple[list[ModelMessage], ModelRequestParameters]:
    """The same for a server that takes no tools: they are described in words, and so is what they gave."""
    lines = [
        _describe_tool(tool.name, tool.description, tool.parameters_json_schema)
        for tool in parameters.function_tools
    ]
    told = _TOOLS_IN_WORDS + "\n".join(lines)
    plain = [_plain(message) for message in messages]
    parts = [*(parameters.instruction_parts or []), InstructionPart(content=told)]
    return plain, replace(parameters, function_tools=[], instruction_parts=parts)


def _describe_tool(name: str, description: str | None, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    arguments = ", ".join(each if each in required else f"{each}?" for each in schema.get("properties", {}))
    return f"- {name}({arguments}): {description or ''}"


def _has_calls(message: ModelMessage) -> bool:
    return any(isinstance(part, (ToolCallPart, ToolReturnPart)) for part in message.parts)


def _plain(message: ModelMessage) -> ModelMessage:
    if isinstance(message, ModelResponse):
        return replace(message, parts=[_word_answer(part) for part in message.parts])
    return replace(message, parts=[_word_request(part) for part in message.parts])


def _word_answer(part: ModelResponsePart) -> ModelResponsePart:
    if not isinstance(part, ToolCallPart):
        return part
    return TextPart(json.dumps({"name": part.tool_name, "arguments": part.args_as_dict()}))


def _word_request(part: ModelRequestPart) -> ModelRequestPart:
    if isinstance(part, ToolReturnPart):
        return UserPromptPart(wrapped("tool_result", part.model_response_str(), tool=part.tool_name))
    if isinstance(part, RetryFeedbackPart):
        return UserPromptPart(str(part.content))
    return part


def may_refuse_form(known: Capabilities, error: Exception) -> bool:
    """Whether a request may succeed without the schema."""
    return known.structured_output != "none" and getattr(error, "status_code", None) in {400, 422, 501}
