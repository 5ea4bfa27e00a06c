"""The benchmark's conversations: read from a folder that is named on the command line, kept in homes.

Each conversation is a memory of its own, so each becomes a home, filled through the ordinary ingest:
every turn an event with its speaker and time, every session a thread. Homes and their embeddings are
kept in a cache folder, so that a second run starts at once.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.memory.embedding import Vectors, embed_new

DATA_SETS = ("locomo", "beam-100k", "beam-500k", "realtalk")
_CHANNEL = "bench"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    id: str
    session: str
    at: datetime
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the turns that answer it."""

    id: str
    category: str
    text: str
    evidence: frozenset[str]


@dataclass(slots=True)
class Conversation:
    """One memory: its turns in order and the questions that are asked of it."""

    name: str
    turns: list[Turn] = field(default_factory=list[Turn])
    questions: list[Question] = field(default_factory=list[Question])

    @property
    def asked_at(self) -> datetime:
        """Questions are asked the day after the last turn."""
        return max(turn.at for turn in self.turns) + timedelta(days=1)


def read(folder: Path) -> list[Conversation]:
    """The conversations of one data set, with the questions whose evidence exists."""
    found: dict[str, Conversation] = {}
    for row in _rows(folder / "corpus.jsonl.gz"):
        conversation = found.setdefault(row["conversation"], Conversation(row["conversation"]))
        conversation.turns.append(_turn(row, len(conversation.turns)))
    known = {name: {turn.id for turn in conversation.turns} for name, conversation in found.items()}
    for row in _rows(folder / "queries.jsonl.gz"):
        evidence = frozenset(str(id_) for id_ in row["evidence"]) & known[row["conversation"]]
        if evidence:
            question = Question(str(row["id"]), row["category"], row["question"], evidence)
            found[row["conversation"]].questions.append(question)
    return list(found.values())


def tuning(conversations: list[Conversation]) -> set[str]:
    """The half on which weights may be chosen: every second conversation, starting with the first."""
    return {conversation.name for conversation in conversations[::2]}


def home_of(conversation: Conversation, cache: Path) -> Home:
    """The conversation's home, made where there is none."""
    home = Home(cache / conversation.name)
    if not home.exists:
        home.create()
    return home


def opened(home: Home) -> Ledgers:
    """The home's ledgers; a benchmark's copy needs no sync for each write."""
    return Ledgers(home, LedgersConfig(synchronous="normal"))


async def fill(
    opened: Ledgers, conversation: Conversation, vectors: Vectors, told: Callable[[int], None]
) -> dict[str, str]:
    """Append and embed what is missing; returns which turn each event is."""
    ids = await opened.events.write(append, conversation)
    await embed_new(opened, vectors, told)
    return {event_id: turn.id for event_id, turn in zip(ids, conversation.turns, strict=True)}


def append(connection: apsw.Connection, conversation: Conversation) -> list[str]:
    """Record the turns through the ordinary ingest; those recorded before keep their ids."""
    threads: dict[str, str] = {}
    for turn in conversation.turns:
        if turn.session not in threads:
            threads[turn.session] = events.ensure_thread(
                connection, channel=_CHANNEL, external_id=turn.session, kind="session"
            )
    return events.append(
        connection,
        [
            events.NewEvent(
                channel=_CHANNEL,
                content=turn.text,
                direction="outbound" if turn.speaker == "assistant" else "inbound",
                thread_id=threads[turn.session],
                external_id=turn.id,
                sender=turn.speaker,
                occurred_at=turn.at,
            )
            for turn in conversation.turns
        ],
    )


def _turn(row: dict[str, Any], position: int) -> Turn:
    caption = row.get("image_caption")
    text = f"{row['text']} [image: {caption}]".strip() if caption else row["text"]
    return Turn(str(row["id"]), str(row["session"]), _moment(row["time"], position), row["speaker"], text)


def _moment(text: str, position: int) -> datetime:
    # Turns of one session carry the session's time; seconds keep their order visible.
    if "T" in text:
        start = datetime.fromisoformat(text)
    else:
        start = datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC)
    return start + timedelta(seconds=position)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
