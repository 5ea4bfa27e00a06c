"""Requests that fit a model: how long its answer may get, and what is left out of a prompt that is too long.

What is left out is left out of one request. The ledger keeps it, and compaction sums it up before the next
run.
"""

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from nexus.attachments import Attachment
from nexus.broker.tools.tool import clip
from nexus.context import compaction
from nexus.ledgers.runtime.models import Capabilities

_SCHEME: Final = "attachment:"
IMAGE_TOKENS: Final = 1_500
"""About what an image takes of a prompt."""

Load = Callable[[Attachment], Awaitable[bytes | None]]


async def no_bytes(attachment: Attachment) -> bytes | None:
    """Where nothing is attached."""
    return None


def add_images(text: str, images: Sequence[Attachment]) -> str | list[UserContent]:
    """Return what somebody says with the images that came along."""
    if not images:
        return text
    return [text, *(_reference(image) for image in images)]


@dataclass
class Images:
    """The images of one run, read when they are first needed."""

    load: Load = no_bytes
    _read: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])

    async def of(self, urls: Iterable[ImageUrl]) -> Mapping[str, bytes | None]:
        """The bytes of every image in a conversation, by its hash."""
        for image in urls:
            sha256 = image.url.removeprefix(_SCHEME)
            if sha256 not in self._read:
                self._read[sha256] = await self.load(_attachment(image, sha256))
        return self._read


def fill_in(
    messages: Sequence[ModelMessage], read: Mapping[str, bytes | None], *, reads_images: bool, model: str
) -> list[ModelMessage]:
    """The conversation with its images, or with a word about those that a model can't be shown."""

    def content(item: UserContent) -> UserContent:
        if not isinstance(item, ImageUrl) or not item.url.startswith(_SCHEME):
            return item
        data = read.get(item.url.removeprefix(_SCHEME))
        if data is None:
            return "(This image was deleted.)"
        if not reads_images:
            return f"(You can't see this image: {model} doesn't read images. Say so if it matters.)"
        return BinaryContent(data=data, media_type=item.media_type)

    def fill_in_message(message: ModelMessage) -> ModelMessage:
        if not isinstance(message, ModelRequest):
            return message
        parts = [
            replace(part, content=[content(item) for item in part.content])
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
            else part
            for part in message.parts
        ]
        return replace(message, parts=parts)

    return [fill_in_message(message) for message in messages]


def find_urls(messages: Sequence[ModelMessage]) -> list[ImageUrl]:
    """The images of a conversation, by their names in the ledger."""
    return [
        item
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        for item in part.content
        if isinstance(item, ImageUrl) and item.url.startswith(_SCHEME)
    ]


def _reference(image: Attachment) -> ImageUrl:
    return ImageUrl(url=f"{_SCHEME}{image.sha256}", media_type=image.media_type, identifier=image.name)


def _attachment(image: ImageUrl, sha256: str) -> Attachment:
    return Attachment(name=image.identifier, media_type=image.media_type, size_bytes=0, sha256=sha256)


BYTES_PER_TOKEN: Final = 4.0
# What chat templates add to each message.
_OVERHEAD_BYTES: Final = 24
# The part of a window that an answer may fill, and the part that is kept free because counts are estimates.
_ANSWER_SHARE: Final = 4
_SPARE_SHARE: Final = 32
# A model that thinks does so within the length of its answer.
_THINKING_TIMES: Final = 4
_OLD_RESULT_CHARACTERS: Final = 200
_NEW_RESULT_CHARACTERS: Final = 800
_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much of a model's window there is for what."""

    output_tokens: int
    """The most that an answer may have. 0: as much as the provider allows."""
    input_tokens: int | None
    """The most that a prompt may have. None: not known."""


def room(known: Capabilities, output_tokens: int, *, thinks: bool = True) -> Room:
    """How a window is shared out, where an answer should have that many tokens at most."""
    most = output_tokens * (_THINKING_TIMES if known.reasoning and thinks else 1)
    window = known.context_tokens
    if window is None:
        return Room(output_tokens=most, input_tokens=None)
    answer = min(most or window, window // _ANSWER_SHARE)
    return Room(
        output_tokens=answer if most else 0, input_tokens=window - answer - max(32, window // _SPARE_SHARE)
    )


def tokens(length_bytes: int, known: Capabilities) -> int:
    """About how many tokens so many bytes are."""
    return math.ceil(length_bytes / (known.bytes_per_token or BYTES_PER_TOKEN))


def length_bytes(messages: Sequence[ModelMessage]) -> int:
    """About how much of a prompt messages are."""
    return sum(map(_message_bytes, messages))


def fit_messages(messages: list[ModelMessage], own: int, most_bytes: int) -> list[ModelMessage]:
    """The messages, shortened to that many bytes where that is possible.

    The last `own` are of the present turn. Old results of tools are cut first, then the oldest turns go,
    but not their summary, then results of the present turn are cut.
    """
    past, present = messages[:-own] if own else messages, messages[-own:] if own else []
    if length_bytes(messages) <= most_bytes:
        return messages
    past = [_cut(message, _OLD_RESULT_CHARACTERS) for message in past]
    turns = _turns(past)
    summary = turns.pop(0) if turns and _first_text(turns[0][0]) == compaction.TASK else []
    left_out: list[list[ModelMessage]] = []
    while turns and length_bytes([*summary, *_stand_in(left_out), *chain(*turns), *present]) > most_bytes:
        left_out.append(turns.pop(0))
    kept = [*summary, *_stand_in(left_out), *chain(*turns)]
    if length_bytes([*kept, *present]) > most_bytes:
        present = [_cut(message, _OLD_RESULT_CHARACTERS) for message in present[:-1]] + present[-1:]
    if length_bytes([*kept, *present]) > most_bytes and present:
        over = length_bytes([*kept, *present]) - most_bytes
        present[-1] = _cut(present[-1], max(_NEW_RESULT_CHARACTERS, _longest(present[-1]) - over))
    return [*kept, *present]


def _message_bytes(message: ModelMessage) -> int:
    images = sum(
        not isinstance(item, str)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        for item in part.content
    )
    return (
        _OVERHEAD_BYTES
        + sum(len(text.encode()) for text in _texts(message))
        + images * int(IMAGE_TOKENS * BYTES_PER_TOKEN)
    )


def texts_of(part: UserPromptPart) -> list[str]:
    """The texts of what somebody says, without images."""
    return (
        [part.content] if isinstance(part.content, str) else [i for i in part.content if isinstance(i, str)]
    )


def _texts(message: ModelMessage) -> list[str]:
    texts: list[str] = []
    for part in message.parts:
        match part:
            case ToolCallPart():
                texts.append(part.tool_name + part.args_as_json_str())
            case ToolReturnPart():
                texts.append(part.model_response_str())
            case ThinkingPart():
                pass  # of earlier turns it is not sent
            case _:
                texts += (
                    texts_of(part)
                    if isinstance(part, UserPromptPart)
                    else [str(getattr(part, "content", ""))]
                )
    return texts


def _turns(past: list[ModelMessage]) -> list[list[ModelMessage]]:
    """The messages by turns: each begins with what somebody said."""
    turns: list[list[ModelMessage]] = []
    for message in past:
        if not turns or _first_text(message):
            turns.append([])
        turns[-1].append(message)
    return turns


def _first_text(message: ModelMessage) -> str:
    if not isinstance(message, ModelRequest):
        return ""
    texts = [text for part in message.parts if isinstance(part, UserPromptPart) for text in texts_of(part)]
    return next(iter(texts), "")


def _stand_in(left_out: list[list[ModelMessage]]) -> list[ModelMessage]:
    """What is told of turns that do not fit: that there were some, and how they began."""
    if not left_out:
        return []
    begun = [_first_text(turn[0]).rpartition("</situation>")[2] for turn in left_out]
    lines = [f"- {' '.join(text.split())[:_SHOWN_CHARACTERS]}" for text in begun[-20:] if text.strip()]
    told = f"(The first {len(left_out)} turns of this conversation did not fit. They began:"
    return [
        ModelRequest(parts=[UserPromptPart("\n".join([told, *lines]) + ")")]),
        ModelResponse(parts=[TextPart("(Noted.)")]),
    ]


def _longest(message: ModelMessage) -> int:
    results = [part for part in message.parts if isinstance(part, ToolReturnPart)]
    return max((len(part.model_response_str()) for part in results), default=0)


def _cut(message: ModelMessage, characters: int) -> ModelMessage:
    """The message with no result of a tool longer than that."""
    if not isinstance(message, ModelRequest):
        return message
    parts = [
        replace(part, content=clip(text, characters))
        if isinstance(part, ToolReturnPart) and len(text := part.model_response_str()) > characters
        else part
        for part in message.parts
    ]
    return replace(message, parts=parts)


def tool_texts(parameters: ModelRequestParameters) -> list[tuple[str, str | None, dict[str, Any]]]:
    """What a model is shown of its tools."""
    return [(tool.name, tool.description, tool.parameters_json_schema) for tool in parameters.function_tools]


def fixed_bytes(parameters: ModelRequestParameters) -> int:
    """About how much of a prompt the instructions and the tools are."""
    tools = json.dumps(tool_texts(parameters)) if parameters.function_tools else ""
    return len(tools.encode()) + sum(
        len(part.content.encode()) for part in parameters.instruction_parts or []
    )
