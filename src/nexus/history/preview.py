"""What an import would bring: counted in one pass, with nothing recorded."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from nexus import clock
from nexus.history.files import total_bytes
from nexus.history.importer import Chunk, Progress, chunks
from nexus.history.source import Source
from nexus.ledgers import Ledgers
from nexus.ledgers.events import imports
from nexus.ledgers.events.imports import SetAsides


@dataclass(slots=True)
class Preview:
    """Counts, the span of time, and what would be set aside."""

    source: str
    title: str
    size_bytes: int = 0
    threads: int = 0
    messages: int = 0
    known: int = 0
    people: int = 0
    attachments: int = 0
    attachments_absent: int = 0
    """Those whose bytes the export doesn't hold."""
    unverified: int = 0
    """Mail that says it is from the owner, without proof."""
    first: str | None = None
    last: str | None = None
    kinds: Counter[str] = field(default_factory=Counter[str])
    undated: int = 0
    set_aside: SetAsides = field(default_factory=SetAsides)

    def record(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "format": self.source,
            "size_bytes": self.size_bytes,
            "threads": self.threads,
            "messages": self.messages,
            "already_imported": self.known,
            "people": self.people,
            "attachments": self.attachments,
            "attachments_absent": self.attachments_absent,
            "unverified": self.unverified,
            "first": self.first,
            "last": self.last,
            "kinds": dict(self.kinds),
            "without_time": self.undated,
            "set_aside": dict(self.set_aside.counts),
            "examples": self.set_aside.examples,
        }


async def preview(
    ledgers: Ledgers, source: Source, progress: Progress = lambda messages, size: None
) -> Preview:
    """Read a source to its end, and say what it holds."""
    seen = Preview(source=source.name, title=source.title)
    seen.size_bytes = await asyncio.to_thread(total_bytes, source.files)
    for name, reason in source.files.refused:
        seen.set_aside.add(reason, name)
    threads: set[int] = set()
    people: set[int] = set()
    parts = chunks(source, None)
    while (chunk := await asyncio.to_thread(next, parts, None)) is not None:
        # Hashes, because an archive may name a million people.
        threads.update(hash(thread) for thread in chunk.threads)
        people.update(hash(person.identifier) for each in chunk.messages for person in
                      (*((each.sender,) if each.author == "person" and each.sender else ()), *each.recipients,
                       *each.copied))  # fmt: skip
        _count(seen, chunk)
        ids = [each.external_id for each in chunk.messages]
        seen.known += len(
            await ledgers.events.read(imports.find_recorded, channel=source.channel, external_ids=ids)
        )
        progress(seen.messages, source.files.read_bytes)
    seen.threads, seen.people = len(threads), len(people)
    return seen


def _count(seen: Preview, chunk: Chunk) -> None:
    seen.messages += len(chunk.messages)
    for each in chunk.messages:
        seen.kinds[each.kind] += 1
        seen.attachments += len(each.attachments)
        seen.attachments_absent += sum(file.member is None and file.data is None for file in each.attachments)
        seen.unverified += "unverified_sender" in each.metadata
        if each.at is None:
            seen.undated += 1
            continue
        at = clock.timestamp(each.at)
        seen.first = min(seen.first or at, at)
        seen.last = max(seen.last or at, at)
    for each in chunk.set_aside:
        seen.set_aside.add(each.reason, each.place)
