"""Make the vectors that are missing. Running it twice is running it once."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import apsw

from nexus.ledgers import Ledgers
from nexus.ledgers.database import Database
from nexus.ledgers.sql import named
from nexus.memory.embedding.vectors import Source, Vectors

_SQL = named(Path(__file__).with_name("queries.sql"))
_BATCH = 256
# A vector holds what a message is about; what lies past this is for the keyword arm.
_TEXT_CHARACTERS = 1200


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far the walk has come in each log; hand it back to go on from there."""

    events_seq: int = 0
    facts_seq: int = 0
    embedded: int = 0


def event_text(sender: str | None, content: str) -> str:
    """What is embedded of an event: who says it, then what."""
    return f"{sender}: {content[:_TEXT_CHARACTERS]}" if sender else content[:_TEXT_CHARACTERS]


async def embed_new(
    ledgers: Ledgers,
    vectors: Vectors,
    since: Progress | None = None,
    told: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Embed every event and fact after `since` that has no vector of its present text."""
    progress = since or Progress()
    while rows := await _after(ledgers.events, "events_after", progress.events_seq):
        sources = [
            Source(target_type="event", target_id=row[1], text=event_text(row[2], row[3])) for row in rows
        ]
        made = await _embed(vectors, sources)
        progress = Progress(
            events_seq=rows[-1][0], facts_seq=progress.facts_seq, embedded=progress.embedded + made
        )
        told(progress)
    while rows := await _after(ledgers.memory, "facts_after", progress.facts_seq):
        sources = [
            Source(target_type="fact", target_id=row[1], text=row[2][:_TEXT_CHARACTERS]) for row in rows
        ]
        made = await _embed(vectors, sources)
        progress = Progress(
            events_seq=progress.events_seq, facts_seq=rows[-1][0], embedded=progress.embedded + made
        )
        told(progress)
    return progress


async def _after(database: Database, query: str, seq: int) -> list[tuple[Any, ...]]:
    def work(connection: apsw.Connection) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", connection.execute(_SQL[query], (seq, _BATCH)).fetchall())

    return await database.read(work)


async def _embed(vectors: Vectors, sources: list[Source]) -> int:
    wanted = await vectors.missing(sources)
    if wanted:
        made = await asyncio.to_thread(vectors.embedder.embed, [source.text for source in wanted])
        await vectors.put(wanted, made)
    return len(wanted)
