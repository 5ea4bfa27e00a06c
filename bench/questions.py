"""How long a search over many events takes."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw
from corpus import Corpus

from nexus.config import LedgersConfig
from nexus.ledgers import Database
from nexus.ledgers.events.search import search

_HITS = 20
_FREQUENT_WORDS = 60


@dataclass(frozen=True)
class Question:
    """What is asked, and which event its words came from."""

    kind: str
    text: str
    event_id: str | None = None


@dataclass(frozen=True)
class Answered:
    """How long one answer took, and whether the event that the words came from was in it."""

    kind: str
    ms: float
    found: bool | None


def ask(path: Path, count: int) -> list[Answered]:
    """Ask `count` questions, one after the other, the way a program does."""
    return asyncio.run(_ask(path, count))


async def _ask(path: Path, count: int) -> list[Answered]:
    with ThreadPoolExecutor(2) as executor:
        database = Database(path, "events", LedgersConfig(), executor)
        questions = await database.read(lambda connection: list(_questions(connection, count)))
        answers = [await _answer(database, question) for question in questions]
        await database.close()
    return answers


async def _answer(database: Database, question: Question) -> Answered:
    started = time.perf_counter()
    hits = await database.read(search, question.text, _HITS)
    ms = (time.perf_counter() - started) * 1000
    found = None if question.event_id is None else question.event_id in [hit.id for hit in hits]
    return Answered(question.kind, ms, found)


def _questions(connection: apsw.Connection, count: int) -> list[Question]:
    """One to six words of a message, the words of a whole message, and nothing but frequent words."""
    choice, frequent = random.Random(11), Corpus().words[:_FREQUENT_WORDS]
    newest = cast("int", connection.execute("SELECT max(seq) FROM events").get)
    questions: list[Question] = []
    for number in range(count):
        row = connection.execute(
            "SELECT id, content FROM events WHERE seq = ?", (choice.randint(1, newest),)
        ).fetchone()
        event_id, content = cast("tuple[str, str]", row)
        words, asked = content.split(), choice.randint(1, 6)
        if number % 5 == 0:
            questions.append(Question("whole sentences", content + "?", event_id))
        elif number % 5 == 1:
            questions.append(Question("frequent words only", " ".join(choice.sample(frequent, asked))))
        else:
            chosen = choice.sample(words, min(asked, len(words)))
            questions.append(Question("1 to 6 words of a message", " ".join(chosen)))
    return questions
