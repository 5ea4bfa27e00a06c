"""What a claim takes: heads only, of idle keys only, and every key in its turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus.engine import Lane, Settings, store
from nexus.engine.claims import Claims
from nexus.engine.database import Database
from nexus.engine.prepare import prepare_database
from nexus.engine.store import NewExecution

LANE = Lane(name="chat", limit=8)


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    is_url = database.startswith("postgres")
    made = prepare_database(Settings(database=database if is_url else Path(database), lanes=(LANE,)))
    yield made
    made.close()


def _add(database: Database, *items: tuple[str, str], version: str = "1") -> None:
    new = [
        NewExecution(id=id_, work="w", lane="chat", key=key, inputs="{}", version=version)
        for key, id_ in items
    ]
    with database.write() as connection:
        store.insert(database, connection, new)


def _end(database: Database, *ids: str) -> None:
    with database.write() as connection:
        for id_ in ids:
            connection.execute(
                database.sql("UPDATE {t}workflow_status SET status = 'SUCCESS' WHERE workflow_uuid = :id"),
                {"id": id_},
            )


def test_only_the_head_of_a_key_is_taken_and_the_next_after_its_end(opened: Database) -> None:
    _add(opened, ("a", "1"), ("a", "2"), ("b", "3"))
    claims = Claims(opened, LANE)
    assert sorted(claims.take("me", 8).ids) == ["1", "3"]
    assert claims.take("me", 8).ids == []
    _end(opened, "1")
    assert claims.take("me", 8).ids == ["2"]


def test_of_a_key_one_is_taken_though_an_earlier_one_waited_while_another_was_interrupted(
    opened: Database,
) -> None:
    _add(opened, ("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"))
    interrupt = opened.sql(
        "UPDATE {t}workflow_status SET recovery_attempts = 1 WHERE workflow_uuid IN :ids", "ids"
    )
    with opened.write() as connection:
        connection.execute(interrupt, {"ids": ["2", "3"]})
    claims = Claims(opened, LANE)
    assert sorted(claims.take("me", 8).ids) == ["2", "4"]
    _end(opened, "2")
    assert claims.take("me", 8).ids == ["3"]
    _end(opened, "3")
    assert claims.take("me", 8).ids == ["1"]


def test_no_more_is_taken_than_there_is_room_for(opened: Database) -> None:
    _add(opened, *[(f"k{n}", f"e{n}") for n in range(10)])
    assert len(Claims(opened, LANE).take("me", 3).ids) == 3


def test_every_key_gets_its_turn_though_each_claim_is_small(opened: Database) -> None:
    _add(opened, *[(f"k{n:03}", f"e{n:03}-{turn}") for n in range(30) for turn in range(3)])
    claims = Claims(opened, LANE)
    seen: list[str] = []
    for _ in range(6):
        taken = claims.take("me", 5).ids
        seen += [id_.partition("-")[0] for id_ in taken]
        _end(opened, *taken)
    assert sorted(seen) == [f"e{n:03}" for n in range(30)]


def test_idle_keys_are_found_behind_many_busy_ones(opened: Database) -> None:
    _add(opened, *[(f"busy{n:04}", f"b{n:04}-{turn}") for n in range(400) for turn in range(2)])
    claims = Claims(opened, LANE)
    assert len(claims.take("me", 400).ids) == 400
    _add(opened, ("idle", "i"))
    assert ["i"] in [claims.take("me", 1).ids for _ in range(8)]


def test_what_was_interrupted_goes_before_all_that_waits(opened: Database) -> None:
    _add(opened, *[(f"k{n:03}", f"e{n:03}") for n in range(200)])
    with opened.write() as connection:
        connection.execute(
            opened.sql("UPDATE {t}workflow_status SET recovery_attempts = 1 WHERE workflow_uuid = 'e150'")
        )
    assert Claims(opened, LANE).take("me", 1).ids == ["e150"]
