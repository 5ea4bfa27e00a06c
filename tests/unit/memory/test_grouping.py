"""Events of a thread become episodes by themselves, once, in versions where some come late."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nexus.errors import ConfigError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.events import NewEvent, Participant
from nexus.memory.grouping import group_events
from nexus.memory.operations import Memory

START = datetime(2026, 2, 13, 10, tzinfo=UTC)


def later() -> datetime:
    return START + timedelta(days=30)


async def rows(ledgers: Ledgers, ledger: str, query: str) -> list[tuple[Any, ...]]:
    return await ledgers[ledger].read(lambda c: [tuple(row) for row in c.execute(query)])


async def say(
    ledgers: Ledgers, *minutes: float, thread: str = "t", people: tuple[str, ...] = ()
) -> list[str]:
    def work(connection: Any) -> list[str]:
        thread_id = events.ensure_thread(connection, channel="cli", external_id=thread)
        present = tuple(
            Participant(role="sender" if place == 0 else "recipient", identifier=each, entity_id=each)
            for place, each in enumerate(people)
        )
        said = [
            NewEvent(
                channel="cli",
                content=f"At {minute}",
                thread_id=thread_id,
                occurred_at=START + timedelta(minutes=minute),
                participants=present,
            )
            for minute in minutes
        ]
        return events.append(connection, said)

    return await ledgers.events.write(work)


async def test_events_are_grouped_once_at_silences(opened: Ledgers) -> None:
    said = await say(opened, 0, 1, 2, 200, 201)
    await say(opened, 0, 500, thread="other")

    first, second = await group_events(opened, now=later), await group_events(opened, now=later)

    assert (len(first.episode_ids), first.events, second.episode_ids) == (4, 7, [])
    assert await rows(
        opened, "memory", "SELECT event_count, version, start_time FROM episodes ORDER BY start_time, id"
    ) == [
        (3, 1, "2026-02-13T10:00:00.000Z"),
        (1, 1, "2026-02-13T10:00:00.000Z"),
        (2, 1, "2026-02-13T13:20:00.000Z"),
        (1, 1, "2026-02-13T18:20:00.000Z"),
    ]
    linked = await rows(opened, "memory", "SELECT event_id FROM episode_events ORDER BY episode_id, position")
    assert {row[0] for row in linked} > set(said)
    logged = await rows(opened, "memory", "SELECT DISTINCT processor, target_type FROM processing_log")
    assert logged == [("episodes", "event")]


async def test_a_conversation_that_goes_on_waits_and_is_seen_by_the_next_pass(opened: Ledgers) -> None:
    await say(opened, 0, 300)

    first = await group_events(opened, now=lambda: START + timedelta(minutes=310))
    await say(opened, 320)
    second = await group_events(opened, since_seq=first.next_seq, now=later)

    assert (first.events, second.events) == (1, 2)
    counts = await rows(opened, "memory", "SELECT event_count FROM episodes ORDER BY start_time")
    assert counts == [(1,), (2,)]


async def test_events_that_come_late_make_a_new_version(opened: Ledgers) -> None:
    await say(opened, 0, 20)
    (old,) = (await group_events(opened, now=later)).episode_ids
    await say(opened, 10)
    (new,) = (await group_events(opened, now=later)).episode_ids

    assert await rows(
        opened,
        "memory",
        "SELECT id, version, previous_version_id, event_count FROM episodes ORDER BY version",
    ) == [(old, 1, None, 2), (new, 2, old, 3)]
    assert await rows(
        opened, "memory", f"SELECT count(*), max(position) FROM episode_events WHERE episode_id = '{new}'"
    ) == [(3, 2)]


async def test_an_episode_that_was_summarised_is_not_extended(opened: Ledgers) -> None:
    await say(opened, 0, 20)
    (old,) = (await group_events(opened, now=later)).episode_ids
    told = await Memory(opened).run(
        "episode",
        {
            "previous": old,
            "channel": "cli",
            "thread": "t",
            "start": "2026-02-13T10:00Z",
            "end": "2026-02-13T10:20Z",
            "summary": "They talked",
        },
    )
    await say(opened, 10)
    (new,) = (await group_events(opened, now=later)).episode_ids

    assert told["version"] == 2
    versions = await rows(opened, "memory", f"SELECT version, event_count FROM episodes WHERE id = '{new}'")
    assert versions == [(1, 1)]


async def test_the_definition_says_how_events_are_cut(opened: Ledgers) -> None:
    await say(opened, 0)
    await group_events(opened, now=later)
    await opened.memory.write(
        lambda c: c.execute("UPDATE episode_definitions SET config_json = '{\"gap_minutes\": 5}'")
    )
    await say(opened, 1000, 1010)

    assert len((await group_events(opened, now=later)).episode_ids) == 2

    await opened.memory.write(
        lambda c: c.execute('UPDATE episode_definitions SET config_json = \'{"gap_minutes": "long"}\'')
    )
    with pytest.raises(ConfigError, match="cannot be read"):
        await group_events(opened, now=later)


async def test_three_who_meet_three_times_become_a_group(opened: Ledgers) -> None:
    memory = Memory(opened)
    for name in ("ada", "ben", "cleo"):
        await memory.run("entity", {"id": name, "name": name.title(), "type": "Person"})
    for day in range(4):
        await say(opened, day * 1440, people=("ada", "ben", "cleo"))
        await say(opened, day * 1440, thread="pair", people=("ada", "ben"))
    await group_events(opened, now=lambda: START + timedelta(days=60))
    await group_events(opened, now=lambda: START + timedelta(days=60))

    found = await rows(opened, "identity", "SELECT canonical_name FROM entities WHERE type = 'Group'")
    assert found == [("Ada, Ben and Cleo",)]
    members = "SELECT source_entity_id FROM relationships WHERE relation_type = 'MEMBER_OF' ORDER BY 1"
    assert await rows(opened, "memory", members) == [("ada",), ("ben",), ("cleo",)]
    mentions = "SELECT count(*) FROM episode_entity_mentions WHERE entity_id LIKE 'group-%'"
    assert await rows(opened, "memory", mentions) == [(2,)]


async def test_events_of_a_forgotten_episode_are_grouped_again(opened: Ledgers) -> None:
    from nexus.ledgers import forgetting

    kept, gone = await say(opened, 0, 10)
    await group_events(opened, now=later)
    target = forgetting.time_range("2026-02-13T10:05Z", "2026-02-13T10:15Z")
    await forgetting.forget(opened, target, actor="test")

    assert (await group_events(opened, now=later)).events == 1
    assert await rows(opened, "memory", "SELECT event_id FROM episode_events") == [(kept,)]
    assert gone not in {row[0] for row in await rows(opened, "events", "SELECT id FROM events")}
