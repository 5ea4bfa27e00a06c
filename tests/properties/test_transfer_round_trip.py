"""Whatever a home holds, an export and an import bring all of it back, to the byte."""

import io
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contents import execute, files, rows, writing
from long_form import times
from new_homes import new_home
from nexus import ids
from nexus.home import Home
from nexus.ledgers import events, memory, transfer
from nexus.ledgers.events.search import search

_MEGABYTE = 1_000_000
_WORD = "platypus"

# What breaks lines, terminals and parsers: controls, line separators, marks of direction, halves of pairs.
_ODD = "\0\x01\x1b\x7f\x85\r\n\u2028\u2029\ufeff\u200f\u202e\u05e9\u0644\u200d\ud83e\udd8a🦊👩'\"\\%{}"
_LARGE = ["x" * _MEGABYTE, "\n" * _MEGABYTE, "🦊" * (_MEGABYTE // 4), '\\"\0' * (_MEGABYTE // 3)]
_texts = st.one_of(
    st.text(st.characters(), max_size=40),
    st.text(st.sampled_from(_ODD), max_size=20),
    st.sampled_from(_LARGE),
)
_FOREIGN = "INSERT INTO threads (id, channel, title) VALUES (?1, CAST(?2 AS TEXT), CAST(?2 AS TEXT))"
_VECTOR = """
INSERT INTO embeddings (target_id, vector, target_type, model_id, source_text_hash)
VALUES (?, ?, 'event', 'm', '')
"""
_SPAN = """
INSERT INTO spans (id, duration_ms, request_id, root_request_id, kind, name, started_at)
VALUES (?, ?, '', '', '', '', '')
"""
_INJECTION = """
INSERT INTO injections (id, rank, invocation_id, request_id, root_request_id, item_kind, item_id, text_sha256,
                        score, probability, decided_by, injected)
VALUES (?1, ?2, ?1, '', '', '', '', '', 0, 0, 'model', 0)
"""
_numbers = st.integers(-(2**63), 2**63 - 1)
_reals = st.one_of(st.floats(allow_nan=False), st.sampled_from([math.inf, -math.inf, -0.0, 5e-324, 0.1]))


@dataclass(frozen=True)
class Things:
    """What is put into a home."""

    said: list[str]
    learned: list[str]
    foreign: list[bytes]
    vectors: list[bytes]
    durations: list[float]
    ranks: list[int]
    kept: list[bytes]


_things = st.builds(
    Things,
    said=st.lists(_texts, max_size=5),
    learned=st.lists(_texts, max_size=5),
    foreign=st.lists(st.binary(max_size=30), max_size=5),
    vectors=st.lists(st.binary(max_size=30), max_size=5),
    durations=st.lists(_reals, max_size=5),
    ranks=st.lists(_numbers, max_size=5),
    kept=st.lists(st.binary(max_size=300), max_size=3),
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return new_home(tmp_path_factory.mktemp("empty") / "home")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@given(things=_things)
@settings(max_examples=times(8, long=100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everything_comes_back_to_the_byte(empty: Home, place: Path, things: Things) -> None:
    folder = place / ids.new("try")
    home, other = Home(folder / "home"), Home(folder / "other")
    shutil.copytree(empty.root, home.root)
    furnish(home, things)

    first = exported(home)
    transfer.read(io.BytesIO(first), other, trust=True)

    assert rows(other) == rows(home)
    assert files(other) == files(home)
    assert found(other) == 1
    assert exported(other).splitlines()[1:] == first.splitlines()[1:]
    shutil.rmtree(folder)


def exported(home: Home) -> bytes:
    stream = io.BytesIO()
    transfer.write(home, stream)
    return stream.getvalue()


def found(home: Home) -> int:
    connection = writing(home, "events")
    try:
        connection.execute("INSERT INTO events_fts (events_fts, rank) VALUES ('integrity-check', 1)")
        return len(search(connection, _WORD, 10))
    finally:
        connection.close()


def furnish(home: Home, things: Things) -> None:
    """Texts go the usual way; the rest by plain SQL, as another program would write it."""
    connection = writing(home, "events")
    with connection:
        events.append(connection, [_event(text) for text in [*things.said, _WORD]])
    connection.close()
    connection = writing(home, "memory")
    with connection:
        memory.append_facts(connection, [memory.NewFact(fact=text) for text in things.learned])
    connection.close()
    execute(home, "embeddings", "INSERT INTO embedding_models (id, dimensions) VALUES ('m', 2)")
    _insert(home, "events", _FOREIGN, things.foreign)
    _insert(home, "embeddings", _VECTOR, things.vectors)
    _insert(home, "runtime", _SPAN, things.durations)
    _insert(home, "runtime", _INJECTION, things.ranks)
    for number, content in enumerate(things.kept):
        (home.state / f"file {number}").write_bytes(content)
    if things.ranks:
        # A row that is gone leaves its number used.
        execute(home, "events", "INSERT INTO bus_events (type) VALUES ('x')")
        execute(home, "events", "DELETE FROM bus_events")


def _event(text: str) -> events.NewEvent:
    some = text[:50]
    sender = events.Participant(role="sender", identifier=some, display_name=some)
    return events.NewEvent(
        channel="cli", content=text, sender=some, metadata={"text": some}, participants=(sender,)
    )


def _insert(home: Home, ledger: str, statement: str, values: Sequence[bytes | float]) -> None:
    connection = writing(home, ledger)
    with connection:
        connection.executemany(statement, [(str(number), value) for number, value in enumerate(values)])
    connection.close()
