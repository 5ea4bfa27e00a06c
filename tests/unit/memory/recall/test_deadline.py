"""A recall ends by its deadline: what is late is stopped, dropped and named."""

import asyncio
import threading
from collections.abc import Sequence

import apsw
import pytest

from nexus.ledgers import Ledgers, sql
from nexus.memory.embedding import Vectors
from nexus.memory.recall.item import Query, Sighting
from nexus.memory.recall.reading import Deadline, LateError
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import ARMS, Search
from unit.memory.recall.homes import LONG_MS, NOW, WordHashes, say

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture(autouse=True)
def patient() -> None:
    """The deadlines that people have are what is tested here."""


@pytest.fixture
def short_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of LONG_MS, three seconds for the arms; the rest is for what comes after them."""
    monkeypatch.setattr("nexus.memory.recall.recall._ARMS_SHARE", 0.05)


def endless(search: Search) -> list[Sighting]:
    search.connection.execute(ENDLESS).fetchall()
    return []


@pytest.mark.usefixtures("short_arms")
async def test_an_arm_that_is_late_is_dropped_and_named(opened: Ledgers) -> None:
    (event_id,) = await say(opened, "t", ("Ann", "The cello is in the hall."))
    recall = Recall(opened, None, now=lambda: NOW, arms={**ARMS, "slow": endless})
    answer = await recall.find(Query(text="Where is the cello?", budget="high", deadline_ms=LONG_MS))
    assert answer.late_arms == ("slow",)
    assert [result.item.id for result in answer.results] == [event_id]


async def test_a_recall_that_is_given_up_stops_its_arms(opened: Ledgers) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def slow(search: Search) -> list[Sighting]:
        begun.set()
        try:
            return endless(search)
        finally:
            stopped.set()

    recall = Recall(opened, None, now=lambda: NOW, arms={"slow": slow})
    query = Query(text="Where is the cello?", budget="high", deadline_ms=600_000)
    asking = asyncio.create_task(recall.find(query))
    await asyncio.to_thread(begun.wait)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(stopped.wait, 60)


async def test_a_query_may_have_a_deadline_of_its_own(opened: Ledgers) -> None:
    left_ms: list[float] = []

    def slow(search: Search) -> list[Sighting]:
        left_ms.append(search.deadline.left_ms)
        return endless(search)

    recall = Recall(opened, None, now=lambda: NOW, arms={**ARMS, "slow": slow})
    answer = await recall.find(Query(text="Where is the cello?", budget="high", deadline_ms=50))
    assert "slow" in answer.late_arms or "fetch" in answer.late_arms
    assert all(left <= 50 for left in left_ms)


def read_until(connection: apsw.Connection, ms: float, statement: str) -> object:
    with Deadline(ms).guard(connection):
        return sql.rows(connection, statement)


async def test_sql_that_was_stopped_leaves_its_connection_usable(opened: Ledgers) -> None:
    with pytest.raises(LateError):
        await opened.events.read(read_until, 20, ENDLESS)
    assert await opened.events.read(lambda c: c.execute("SELECT 1").get) == 1


async def test_a_full_text_query_can_be_stopped(opened: Ledgers) -> None:
    await say(opened, "t", *[("Ann", f"tea number {i}") for i in range(3_000)])
    query = (
        "SELECT count(*) FROM events_fts AS a, events_fts AS b "
        "WHERE a.content MATCH 'tea' AND b.content MATCH 'tea'"
    )
    with pytest.raises(LateError):
        await opened.events.read(read_until, 30, query)


async def test_time_that_is_over_starts_nothing(opened: Ledgers) -> None:
    with pytest.raises(LateError):
        await opened.events.read(read_until, 0, "SELECT 1")


class Slow(WordHashes):
    """A model that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()

    def embed(self, texts: object) -> object:  # type: ignore[override]
        self.may_end.wait(60)
        return super().embed(texts)  # type: ignore[arg-type]


@pytest.mark.usefixtures("short_arms")
async def test_a_slow_model_costs_the_meaning_and_not_the_answer(opened: Ledgers) -> None:
    (event_id,) = await say(opened, "t", ("Ann", "The cello is in the hall."))
    model = Slow()
    recall = Recall(opened, Vectors(opened.embeddings, model), now=lambda: NOW)  # type: ignore[arg-type]
    answer = await recall.find(Query(text="Where is the cello?", budget="high", deadline_ms=LONG_MS))
    model.may_end.set()
    assert {"gist", "semantic"} <= set(answer.late_arms)
    assert [result.item.id for result in answer.results] == [event_id]


class Unhurried:
    """A reranker that does not look at the clock."""

    languages: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.ended = False

    def fits(self, question: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        self.may_end.wait(60)
        self.ended = True
        return [1.0] * len(texts)


async def test_even_what_cannot_be_stopped_does_not_hold_up_the_answer(opened: Ledgers) -> None:
    await say(opened, "t", ("Ann", "The cello is in the hall."))
    reranker = Unhurried()
    recall = Recall(opened, None, now=lambda: NOW, reranker=reranker)
    answer = await recall.find(Query(text="Where is the cello?", budget="high", deadline_ms=10_000))
    assert not reranker.ended
    reranker.may_end.set()
    assert answer.late_arms == ("order",)
    assert answer.results == ()


async def test_an_error_in_an_arm_is_no_lateness(opened: Ledgers) -> None:
    def broken(search: Search) -> list[Sighting]:
        raise ValueError("broken")

    recall = Recall(opened, None, now=lambda: NOW, arms={**ARMS, "broken": broken})
    with pytest.raises(ValueError, match="broken"):
        await recall.find(Query(text="tea", deadline_ms=LONG_MS))
