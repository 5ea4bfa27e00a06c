"""Searching what was said: what is found, in which order, and what no text can break."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from nexus.config import LedgersConfig
from nexus.ledgers import events, migrate
from nexus.ledgers.connection import connect
from nexus.ledgers.events.search import search

_START = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[apsw.Connection]:
    migrate.create(tmp_path / "events.db", "events")
    connection = connect(tmp_path / "events.db", "events", LedgersConfig(), writes=True)
    yield connection
    connection.close()


def say(connection: apsw.Connection, *contents: str, sender: str | None = None) -> list[str]:
    said = [
        events.NewEvent(
            channel="cli", content=content, sender=sender, occurred_at=_START + timedelta(minutes=minute)
        )
        for minute, content in enumerate(contents)
    ]
    return events.append(connection, said)


def found(connection: apsw.Connection, text: str, limit: int = 10) -> list[str]:
    return [hit.content for hit in search(connection, text, limit)]


def test_an_event_is_found_by_any_of_its_words(ledger: apsw.Connection) -> None:
    say(ledger, "the lease is signed", "see you at the harbour")
    assert found(ledger, "which harbour, please?") == ["see you at the harbour"]
    assert found(ledger, "LEASE") == ["the lease is signed"]


def test_other_forms_of_a_word_are_found(ledger: apsw.Connection) -> None:
    say(ledger, "we were running along the river")
    assert found(ledger, "runs") == ["we were running along the river"]


def test_accents_do_not_matter_however_they_are_written(ledger: apsw.Connection) -> None:
    say(ledger, "the r\u00e9sum\u00e9 is attached")
    for written in ("resume", "r\u00e9sum\u00e9", "re\u0301sume\u0301"):
        assert found(ledger, written) == ["the r\u00e9sum\u00e9 is attached"], written


def test_the_sender_is_found_too(ledger: apsw.Connection) -> None:
    say(ledger, "hello", sender="wilhelmina@example.org")
    assert found(ledger, "wilhelmina") == ["hello"]


def test_a_hit_tells_what_a_reader_needs(ledger: apsw.Connection) -> None:
    (event_id,) = say(ledger, "the lease is signed", sender="ana")
    (hit,) = search(ledger, "lease", 10)
    assert (hit.id, hit.channel, hit.sender, hit.thread_id) == (event_id, "cli", "ana", None)
    assert hit.occurred_at == "2026-02-01T00:00:00.000Z"
    assert hit.score > 0


def test_better_matches_come_first(ledger: apsw.Connection) -> None:
    say(
        ledger,
        *(f"unrelated talk number {number}" for number in range(50)),
        "the harbour was mentioned once in a long message about many other things of that day",
        "harbour lease",
        "harbour",
    )
    hits = search(ledger, "harbour lease", 10)
    assert hits[0].content == "harbour lease"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_of_equal_matches_the_newest_comes_first(ledger: apsw.Connection) -> None:
    ids = say(ledger, *["same words here"] * 5)
    assert [hit.id for hit in search(ledger, "words", 3)] == [ids[4], ids[3], ids[2]]


def test_no_more_than_the_limit_is_returned(ledger: apsw.Connection) -> None:
    say(ledger, *["same words here"] * 5)
    assert [len(search(ledger, "words", limit)) for limit in (-1, 0, 1, 3, 99)] == [0, 0, 1, 3, 5]


def test_a_forgotten_event_is_not_found(ledger: apsw.Connection) -> None:
    say(ledger, "the lease is signed")
    ledger.execute("DROP TRIGGER events_are_not_deleted; DELETE FROM events")
    assert found(ledger, "lease") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "\0",
        "lease\0harbour",
        '"',
        '"lease',
        "lease* OR",
        "NOT lease",
        "NEAR(lease harbour, 5)",
        "content : lease",
        "{content sender} : ^lease + x",
        "lease AND (harbour",
        "lease' ; DROP TABLE events; --",
        "\N{PILE OF POO} \N{FAMILY}\N{ZERO WIDTH JOINER}\N{GIRL}",
        "\ud800 lease \udfff",
        "契約はどこですか",
        "اين العقد",
        "\N{DESERET SMALL LETTER LONG I}\U0001e900\U0001e943",
        "ﬀ İ ß ǅ",
        "_ __ lease_harbour",
        "x" * 100_000,
        "word " * 20_000,
        " ".join(f"w{number}" for number in range(20_000)),
    ],
)
def test_any_text_is_a_safe_question(ledger: apsw.Connection, text: str) -> None:
    say(ledger, "the lease is signed", "see you at the harbour")
    assert set(found(ledger, text)) <= {"the lease is signed", "see you at the harbour"}
    assert found(ledger, "lease") == ["the lease is signed"]


def test_operators_are_only_words(ledger: apsw.Connection) -> None:
    say(ledger, "this and that or not", "lease")
    assert found(ledger, "NOT lease") == ["lease", "this and that or not"]


def test_scripts_without_spaces_are_found_by_the_whole_run(ledger: apsw.Connection) -> None:
    say(ledger, "契約は署名されました。港で会いましょう")
    assert len(found(ledger, "港で会いましょう")) == 1


def test_frequent_words_are_left_to_rarer_ones_in_a_large_ledger(ledger: apsw.Connection) -> None:
    with ledger:
        events.append(ledger, (events.NewEvent(channel="cli", content=f"the day {n}") for n in range(9_000)))
    say(ledger, "harbour of the west", "the harbour", "lease")
    assert "lease" in found(ledger, "what about the harbour and the lease of the day", 3)
    assert set(found(ledger, "the harbour")) == {"the harbour", "harbour of the west"}


def test_frequent_words_alone_give_the_newest_events_that_hold_them_all(ledger: apsw.Connection) -> None:
    with ledger:
        events.append(ledger, (events.NewEvent(channel="cli", content=f"what day {n}") for n in range(9_000)))
        events.append(
            ledger, (events.NewEvent(channel="cli", content=f"what else {n}") for n in range(9_000))
        )
    assert found(ledger, "what", 2) == ["what else 8999", "what else 8998"]
    assert found(ledger, "what day", 2) == ["what day 8999", "what day 8998"]
    assert found(ledger, "day else", 2) == ["what day 8999", "what day 8998"]
