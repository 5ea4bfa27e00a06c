"""The formats that can be imported, in the order in which a file is tried against them."""

from pathlib import Path
from typing import Final

from nexus.errors import UsageError
from nexus.history import files
from nexus.history.source import Options, Source
from nexus.history.sources.assistants import ChatGpt, Claude
from nexus.history.sources.contacts import ICalendar, VCard
from nexus.history.sources.imessage import IMessage
from nexus.history.sources.jsonl import Jsonl
from nexus.history.sources.mail import Maildir, Mbox
from nexus.history.sources.memories import Hindsight, Letta, Mem0, Zep
from nexus.history.sources.notes import Markdown
from nexus.history.sources.sessions import ClaudeCode, Codex, OpenClaw
from nexus.history.sources.slack import Slack
from nexus.history.sources.telegram import Telegram
from nexus.history.sources.whatsapp import WhatsApp

# The general ones come last.
SOURCES: Final[tuple[type[Source], ...]] = (
    ChatGpt, Claude, Slack, Telegram, WhatsApp, Mbox, Maildir, IMessage, VCard, ICalendar, OpenClaw, Codex,
    ClaudeCode, Letta, Hindsight, Zep, Mem0, Jsonl, Markdown,
)  # fmt: skip


def open_source(path: Path, options: Options, format_: str | None = None) -> Source:
    """Return the export at a path, in the given format or the first one that recognizes it."""
    found = files.open_files(path.expanduser())
    for source in SOURCES:
        if source.name == format_ or (format_ is None and source.recognizes(found)):
            return source(found, options)
    names = ", ".join(source.name for source in SOURCES)
    if format_ is not None:
        raise UsageError(f"Unknown format {format_!r}", hint=f"Formats: {names}.")
    raise UsageError(
        f"{path}: unrecognized format",
        hint=f"Name it with --format. Formats: {names}. For a backup, use `nexus restore`.",
    )
