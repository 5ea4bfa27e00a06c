"""Images in a conversation: named by their hash in the ledger, with their bytes at the border to a model.

A text can't name one: only what the runtime itself put into a message is replaced.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    UserContent,
    UserPromptPart,
)

from nexus.attachments import Attachment

_SCHEME: Final = "attachment:"
TOKENS: Final = 1_500
"""About what an image takes of a prompt."""

Load = Callable[[Attachment], Awaitable[bytes | None]]


async def no_bytes(attachment: Attachment) -> bytes | None:
    """Where nothing is attached."""
    return None


def prompt(text: str, images: Sequence[Attachment]) -> str | list[UserContent]:
    """What somebody says, with the images that came along."""
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
