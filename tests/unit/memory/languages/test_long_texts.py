"""A message of any length, such as a log that is pasted into a chat, is read in time."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime

import pytest

from nexus.memory.languages import cues, dates, speech
from nexus.memory.recall import features, ranker
from nexus.memory.recall.item import Item, Stretch
from nexus.memory.recall.question import understand
from nexus.memory.recall.roles import Sentence
from nexus.memory.succession import pairs
from nexus.roles.memory_writer.evidence import Evidence

LENGTH = 50_000
# What the slowest takes on a slow machine; each took from ten seconds to minutes.
MOST_CPU_S = 3.0
TODAY = date(2026, 11, 19)
LANGUAGES = speech.list_languages()


def read_roles(text: str) -> object:
    return Sentence(text[:10_000], {}).phrases()


def weigh(text: str) -> object:
    question = understand("tea", datetime(2026, 11, 19, tzinfo=UTC))
    item = Item(kind="event", id="evt_1", text=text, at="2026-11-01T00:00:00.000Z")
    return features.table(question, features.build_pool(question, [Stretch([item], [True])], {}, {}))


def compare(text: str) -> object:
    old, new = (
        pairs.Statement(id=id_, text="It is tea", at="2026-11-01T00:00:00.000Z", seq=1, message=text)
        for id_ in ("fact_1", "fact_2")
    )
    return pairs.how_replaced(old, new)


CASES: list[tuple[Callable[[str], object], str]] = [
    (speech.sentences, "17. "),  # a game of chess, a list of numbers
    (speech.sentences, "Dr. "),
    (speech.clauses, "if "),  # nobody ends a sentence who dictates
    (speech.clauses, "„"),
    (lambda text: cues.asks_past(text, "en"), "was "),
    (cues.find_fact_topics, "a"),  # a picture in letters
    (lambda text: dates.find_moments(text, LANGUAGES), "12.05.2024, "),
    (lambda text: dates.find_moments(text, ["en"]), "May 5, "),
    (lambda text: dates.find_relative(text, [TODAY], ["en"]), "next Friday "),
    (ranker.identifiers, "x@"),
    (ranker.identifiers, "1"),
    (weigh, "x@"),
    (compare, " "),
    (lambda text: Evidence().remember([text]), "<a"),
    (read_roles, "son's "),
    (read_roles, "son of "),
]


@pytest.mark.parametrize(("read", "piece"), CASES)
def test_a_long_text_is_read_in_time(read: Callable[[str], object], piece: str) -> None:
    text = (piece * LENGTH)[:LENGTH]
    started = time.process_time()
    read(text)

    assert time.process_time() - started < MOST_CPU_S
