"""No text, said or asked, breaks the search, and a word that was said is found again."""

from collections.abc import Generator

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus.ledgers import events, sql
from nexus.ledgers.events.search import search
from nexus.ledgers.text import match_all, match_any, words

# Any code point, half surrogates included; FTS5's operators and quotes far more often than by chance.
hostile = st.lists(
    st.one_of(
        st.text(st.characters(), max_size=30),
        st.text(st.characters(categories=["Cs", "Mn", "Mc", "Cf", "Lo", "So"]), max_size=10),
        st.sampled_from(
            [
                '"',
                "'",
                "*",
                "^",
                "+",
                "-",
                "(",
                ")",
                "{",
                "}",
                ":",
                "\0",
                "AND",
                "OR",
                "NOT",
                "NEAR(a b, 2)",
                "content:",
            ]
        ),
    ),
    max_size=12,
).map(" ".join)


@pytest.fixture(scope="module")
def ledger() -> Generator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(sql.text("events", "schema.sql"))
    yield connection
    connection.close()


@given(text=hostile)
def test_any_text_may_be_asked(ledger: apsw.Connection, text: str) -> None:
    for hit in search(ledger, text, 5):
        assert hit.score >= 0


@given(text=hostile)
def test_every_query_made_of_words_is_one_that_the_index_understands(
    ledger: apsw.Connection, text: str
) -> None:
    statement = sql.queries("events")["newest_matches"]
    asked = words(text) or ["nothing"]
    for match in (match_any(asked), match_all(asked)):
        ledger.execute(statement, (match, 5)).fetchall()


@given(text=hostile)
def test_what_was_said_is_found_by_what_was_said(ledger: apsw.Connection, text: str) -> None:
    ledger.execute("SAVEPOINT said")
    try:
        (event_id,) = events.append(ledger, [events.NewEvent(channel="cli", content=f"{text} harbourmaster")])
        assert event_id in [hit.id for hit in search(ledger, "harbourmaster", 5)]
        search(ledger, text, 5)
    finally:
        ledger.execute("ROLLBACK TO said; RELEASE said")
