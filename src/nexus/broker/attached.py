"""What came with a message, as its text says it: the text of PDFs and text files, a line for each image."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from nexus import attachments
from nexus.attachments import Attachment, File
from nexus.broker.tools.web.text import text_of
from nexus.config import AttachmentsConfig
from nexus.context.wrapping import wrapped
from nexus.errors import ToolError, UsageError
from nexus.home import Home


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one message, checked and not yet kept."""

    files: Sequence[File]
    attachments: tuple[Attachment, ...]
    config: AttachmentsConfig

    @classmethod
    async def checked(cls, files: Sequence[File], config: AttachmentsConfig) -> "Files":
        """The files; an error where one can't be taken."""
        if len(files) > config.max_files:
            raise UsageError(
                f"{len(files)} files are too many for one message: at most {config.max_files} are taken",
                hint="Send fewer, or raise `max_files` below [attachments] in config.toml.",
            )
        found = [await asyncio.to_thread(attachments.checked, file, config.max_bytes) for file in files]
        return cls(files=files, attachments=tuple(found), config=config)

    @property
    def has_images(self) -> bool:
        return any(each.is_image for each in self.attachments)

    async def told(self, text: str, home: Home) -> str:
        """A message with what its files say. Their words are data, as those of a page are."""
        parts = [text.strip()]
        for file, each in zip(self.files, self.attachments, strict=True):
            if each.is_image:
                parts.append(f"[Attached image: {each.name}]")
            else:
                said = await self._said(each, file.data, home)
                parts.append(wrapped("attachment", said, name=each.name, type=each.media_type))
        return "\n\n".join(filter(None, parts))

    async def keep(self, home: Home) -> None:
        """Keep them in a home, before the event that names them."""
        for file, each in zip(self.files, self.attachments, strict=True):
            await asyncio.to_thread(attachments.keep, home, each, file.data)

    async def _said(self, attachment: Attachment, data: bytes, home: Home) -> str:
        try:
            # Parsed in the sandbox: a file may come from anybody.
            found = await text_of(data, attachment.media_type, cgroup=home.cgroup)
        except ToolError as error:
            raise UsageError(f"{attachment.name} can't be read: {error.message}", hint=error.hint) from error
        text, most = found.text.strip(), self.config.text_characters
        if not any(line.strip() and not line.startswith("[page ") for line in text.splitlines()):
            raise UsageError(
                f"{attachment.name} has no text", hint="If it is a scan, attach its pages as images."
            )
        if len(text) > most:
            return f"{text[:most]}\n[{len(text) - most:,} more characters were cut off]"
        return text
