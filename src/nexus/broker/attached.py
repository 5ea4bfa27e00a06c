"""What came with a message, as its text says it: the text of PDFs and text files, a line for each image."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from nexus import attachments
from nexus.attachments import Attachment, File
from nexus.broker.tools.web.text import PDF, UnfinishedError, text_of
from nexus.config import AttachmentsConfig
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError, UsageError
from nexus.home import Home

_LATE: Final = "[Attached PDF, not read yet: {}]"
_RECORDING: Final = "[Voice note: {}]"


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one message, checked and not yet kept."""

    files: Sequence[File]
    attachments: tuple[Attachment, ...]
    config: AttachmentsConfig

    @classmethod
    async def check(cls, files: Sequence[File], config: AttachmentsConfig) -> "Files":
        """The files; an error where one can't be taken."""
        if len(files) > config.max_files:
            raise UsageError(
                f"{len(files)} files are too many for one message: at most {config.max_files} are taken",
                hint="Send fewer, or raise `max_files` below [attachments] in config.toml.",
            )
        found = [await asyncio.to_thread(attachments.identify, file, config.max_bytes) for file in files]
        return cls(files=files, attachments=tuple(found), config=config)

    @property
    def has_images(self) -> bool:
        return any(each.is_image for each in self.attachments)

    async def append_to(self, text: str, home: Home, within_s: int | None = None) -> str:
        """A message with what its files say. Their words are data, as those of a page are.

        A PDF that takes more than `within_s` seconds to read is only named: `read_late` reads it.
        """
        parts = [text.strip()]
        for file, each in zip(self.files, self.attachments, strict=True):
            if each.is_image:
                parts.append(f"[Attached image: {each.name}]")
            elif each.is_audio:
                parts.append(mark_recording(each))
            else:
                try:
                    said = await _read_text(each, file.data, home, self.config, within_s)
                    parts.append(wrapped("attachment", said, name=each.name, type=each.media_type))
                except UnfinishedError:
                    parts.append(_LATE.format(each.name))
        return "\n\n".join(filter(None, parts))

    async def keep(self, home: Home) -> None:
        """Keep them in a home, before the event that names them."""
        for file, each in zip(self.files, self.attachments, strict=True):
            await asyncio.to_thread(attachments.keep, home, each, file.data)


def mark_recording(recording: Attachment) -> str:
    """What stands for the words of a recording until they are known."""
    return _RECORDING.format(recording.name)


async def read_late(
    message: str, attachments_: Iterable[Attachment], home: Home, config: AttachmentsConfig
) -> str:
    """The texts of a message's files that were only named when it came in, for the agent that answers it."""
    parts: list[str] = []
    for each in attachments_:
        if each.media_type == PDF and _LATE.format(each.name) in message:
            data = await asyncio.to_thread(attachments.read, home, each)
            try:
                said = "" if data is None else await _read_text(each, data, home, config)
                parts.append(wrapped("attachment", said, name=each.name, type=each.media_type))
            except UsageError as error:
                parts.append(f"[Attachment not read: {error.message}]")
    return "\n\n".join(parts)


async def _read_text(
    attachment: Attachment, data: bytes, home: Home, config: AttachmentsConfig, within_s: int | None = None
) -> str:
    """The text of a file, cut if it is long; UnfinishedError if there is a time, and it is over."""
    try:
        if within_s is None:
            found = await text_of(data, attachment.media_type, cgroup=home.cgroup)
        elif within_s < 1 and attachment.media_type == PDF:
            raise UnfinishedError("no time is left")
        else:
            # Parsed in the sandbox: a file may come from anybody.
            found = await text_of(data, attachment.media_type, cgroup=home.cgroup, cpu_seconds=within_s)
    except ToolError as error:
        if within_s is not None and isinstance(error, UnfinishedError):
            raise
        raise UsageError(f"{attachment.name} can't be read: {error.message}", hint=error.hint) from error
    text, most = found.text.strip(), config.text_characters
    if not any(line.strip() and not line.startswith("[page ") for line in text.splitlines()):
        raise UsageError(
            f"{attachment.name} has no text", hint="If it is a scan, attach its pages as images."
        )
    if len(text) > most:
        return f"{text[:most]}\n[{len(text) - most:,} more characters were cut off]"
    return text
