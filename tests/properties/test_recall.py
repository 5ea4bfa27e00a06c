"""Any text at all may be asked: recall raises nothing and keeps its deadline.

NEXUS_LONG=1 asks ten thousand.
"""

import asyncio
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from long_form import times
from new_homes import new_home
from nexus.config import LedgersConfig
from nexus.home import Home
from nexus.ledgers import Ledgers, events
from nexus.memory.embedding import DEFAULT_MODEL, MODELS, Embedder, Vectors, embed_new, find, load
from nexus.memory.recall.item import Budget, Query, preset
from nexus.memory.recall.recall import Recall

_QUERIES = times(200, long=10_000)
# The deadline is the program's; a loaded machine may wake it late, however late that is.
_SLACK_MS = 30_000

BUDGETS: list[Budget] = ["low", "mid", "high"]

HOSTILE = [
    "",
    " ",
    "\0",
    "\0" * 1000,
    '"',
    '""" OR *',
    "' OR 1=1; DROP TABLE events; --",
    "NEAR(a b, 5)",
    "content : cello",
    "sender:* AND NOT (",
    "^cello* -lessons + {x y}",
    "AND OR NOT",
    "a" * 100_000,
    "cello " * 20_000,
    "🎻" * 5_000,
    "👩‍👩‍👧‍👦 family",
    "チェロのレッスンはいつですか",
    "متى درس التشيلو؟",
    "когда урок виолончели",
    "\ud800 lone surrogate",
    "\u202eright to left\u202c",
    "between 31 February and 99 March 0000",
    "9999-99-99",
    "12 December 9999",
    "999 years ago",
    "[]{}()\\|/`~!@#$%^&*",
    "%s %d {0} ${HOME} $(id)",
    "\n\r\t\v\f",
]

QUERIES = st.one_of(
    st.text(max_size=200),
    st.text(st.characters(), max_size=50),
    st.lists(
        st.sampled_from(["cello", "AND", "OR", '"', "(", ")", "NEAR", "*", ":", "last", "May", "2023"])
    ).map(" ".join),
    st.sampled_from(HOSTILE),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return new_home(Path(tmp_path_factory.mktemp("recall")) / "home")


@cache
def model() -> Embedder:
    return load(find(MODELS[DEFAULT_MODEL]))


@pytest.fixture(autouse=True)
def patient() -> None:
    """The deadlines that people have are what is tested here."""


async def asked(home: Home, texts: list[str], budget: Budget) -> list[float]:
    """How much longer than its deadline each took, by words and by meaning."""
    late: list[float] = []
    async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
        await opened.events.write(
            events.append,
            [events.NewEvent(channel="test", content="cello lessons", sender="Ann", external_id="1")],
        )
        vectors = Vectors(opened.embeddings, model())
        await embed_new(opened, vectors)
        recall = Recall(opened, vectors, now=lambda: datetime(2026, 11, 15, tzinfo=UTC))
        for text in texts:
            started = time.perf_counter()
            await recall.find(Query(text=text, budget=budget))
            late.append((time.perf_counter() - started) * 1000 - preset(budget).deadline_ms)
    return late


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_fuzz_list_raises_nothing_and_keeps_the_deadline(home: Home, budget: Budget) -> None:
    assert max(asyncio.run(asked(home, HOSTILE, budget))) < _SLACK_MS


@given(texts=st.lists(QUERIES, min_size=20, max_size=20), budget=st.sampled_from(BUDGETS))
@settings(
    max_examples=_QUERIES // 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_text_may_be_asked(home: Home, texts: list[str], budget: Budget) -> None:
    assert max(asyncio.run(asked(home, texts, budget))) < _SLACK_MS
