"""Importing as such: recorded once, resumed, undone, found, and answered by nobody."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedders import Hashes
from new_homes import new_home
from nexus import history
from nexus.history import importer
from nexus.history.items import Item
from nexus.history.sources.assistants import ChatGpt
from nexus.ledgers import Ledgers, forgetting
from nexus.memory.embedding import Vectors
from nexus.memory.embedding.job import embed_new
from nexus.memory.grouping import group_events
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Query
from nexus.memory.recall.recall import Recall
from unit.history.exports import bring, chatgpt, long_conversation, mail, rows, said
from unit.memory.recall.homes import LONG_MS


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return chatgpt(tmp_path / "conversations.json", *(long_conversation(f"c{n}", 7) for n in range(5)))


async def test_importing_twice_records_once(opened: Ledgers, export: Path) -> None:
    first = await bring(opened, export)
    second = await bring(opened, export)
    assert (first.messages, first.known, first.threads) == (35, 0, 5)
    assert (second.messages, second.known, second.threads) == (0, 35, 0)
    assert len(await said(opened)) == 35


async def test_a_newer_export_adds_what_is_new(opened: Ledgers, tmp_path: Path) -> None:
    await bring(opened, chatgpt(tmp_path / "conversations.json", long_conversation("c", 4)))
    later = await bring(opened, chatgpt(tmp_path / "conversations.json", long_conversation("c", 6)))
    assert (later.messages, later.known, later.threads) == (2, 4, 0)
    threads = await rows(opened, "SELECT DISTINCT thread_id FROM events")
    assert len(threads) == 1


class StopError(Exception):
    """The process ends here."""


def stopping(source: ChatGpt, after: int) -> ChatGpt:
    """The source, which breaks off after some items as a killed process would."""
    whole = source.read

    def read(cursor: str | None) -> Iterator[Item]:
        for number, item in enumerate(whole(cursor)):
            if number == after:
                raise StopError
            yield item

    source.read = read  # type: ignore[method-assign]
    return source


def _everything(ledger: str) -> str:
    return {
        "events": "SELECT seq, id, thread_id, channel, direction, kind, external_id, sender, content, "
        "reply_to_event_id, metadata_json, occurred_at FROM events ORDER BY seq",
        "threads": "SELECT id, external_id, title, parent_thread_id, created_at FROM threads ORDER BY id",
        "imports": "SELECT threads, messages, known, cursor, set_aside_json FROM imports",
        "import_ranges": "SELECT first_seq, last_seq FROM import_ranges",
    }[ledger]


@pytest.mark.parametrize("places", [(3, 8, 20), (0, 1, 2), (9, 10, 11)])
async def test_an_interrupted_import_ends_as_one_that_never_was(
    opened: Ledgers, export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: tuple[int, ...]
) -> None:
    from nexus.config import LedgersConfig

    monkeypatch.setattr(importer, "_BATCH", 4)
    whole = new_home(tmp_path / "whole")
    async with Ledgers(whole, LedgersConfig()) as other:
        await bring(other, export)
        expected = {
            table: await rows(other, _everything(table)) for table in ("events", "threads", "imports")
        }
    for after in places:
        source = stopping(
            ChatGpt(history.open_source(export, history.Options()).files, history.Options()), after
        )
        with pytest.raises(StopError):
            await history.Importer(opened, Memory(opened), source).run()
    done = await bring(opened, export)
    assert done.status == "done"
    for table, before in expected.items():
        assert await rows(opened, _everything(table)) == before


async def test_a_conversation_larger_than_a_batch_is_resumed_in_its_middle(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_MOST_HELD", 10)
    path = chatgpt(tmp_path / "conversations.json", long_conversation("c", 55))
    source = stopping(ChatGpt(history.open_source(path, history.Options()).files, history.Options()), 30)
    with pytest.raises(StopError):
        await history.Importer(opened, Memory(opened), source).run()
    assert 10 <= len(await said(opened)) < 55
    done = await bring(opened, path)
    assert (done.messages, done.known) == (55, 0)
    assert [content for _, _, content in await said(opened)] == [f"word {n}" for n in range(55)]


async def test_followers_of_the_bus_learn_of_an_import_and_of_its_forgetting(
    opened: Ledgers, export: Path
) -> None:
    done = await bring(opened, export)
    target = await forgetting.find(opened, forgetting.import_, done.id)
    await forgetting.forget(opened, target, actor="test")
    told = await rows(opened, "SELECT type, subject_id, payload_json FROM bus_events ORDER BY seq")
    assert [(type_, subject) for type_, subject, _ in told] == [
        ("history.imported", None),
        ("import.forgotten", done.id),
    ]
    assert json.loads(told[1][2])["removed"]["events.events"] == 35
    assert "word" not in told[1][2], "counts, and no content"


async def test_undoing_an_import_leaves_the_home_as_it_was(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(mail(1) + mail(2, From="Bob <bob@example.com>"))
    (tmp_path / "b.mbox").write_text(mail(2, From="Bob <bob@example.com>") + mail(3))
    first = await bring(opened, tmp_path / "a.mbox", owner=("me@example.com",))
    before = await said(opened)
    second = await bring(opened, tmp_path / "b.mbox", owner=("me@example.com",))
    assert (second.messages, second.known) == (1, 1)
    for import_id, left in ((second.id, before), (first.id, [])):
        target = await forgetting.find(opened, forgetting.import_, import_id)
        await forgetting.forget(opened, target, actor="test")
        assert await said(opened) == left
    people = await rows(opened, "SELECT canonical_name FROM entities", "identity")
    assert people == [("Owner",)]
    assert await rows(opened, "SELECT * FROM threads") == []
    assert await rows(opened, "SELECT * FROM imports") == []
    assert await rows(opened, "SELECT target_kind, target FROM forgets ORDER BY created_at", "runtime") == [
        ("import", second.id), ("import", first.id),
    ]  # fmt: skip
    again = await bring(opened, tmp_path / "a.mbox", owner=("me@example.com",))
    assert again.messages == 2


async def test_imported_messages_are_found_by_their_words_at_once(opened: Ledgers, tmp_path: Path) -> None:
    path = tmp_path / "a.mbox"
    path.write_text(mail(1, body="The spare key hangs behind the piano.") + mail(2))
    await bring(opened, path)
    found = await Recall(opened, None).find(Query(text="where is the spare key?", deadline_ms=LONG_MS))
    assert "behind the piano" in found.results[0].item.text
    assert found.results[0].item.kind == "event"


async def test_an_import_asks_nothing_of_anybody(opened: Ledgers, export: Path) -> None:
    await bring(opened, export)
    for table in ("requests", "executions", "invocations"):
        assert await rows(opened, f"SELECT * FROM {table}", "runtime") == []
    assert await rows(opened, "SELECT * FROM facts", "memory") == []
    assert await rows(opened, "SELECT * FROM agent_sessions", "agents") == []


async def test_an_address_that_an_entity_goes_by_is_that_entity(opened: Ledgers, tmp_path: Path) -> None:
    made = await Memory(opened).run(
        "entity", {"name": "Countess Lovelace", "type": "Person", "alias": ["Ada@Example.com:email"]}
    )
    (tmp_path / "a.mbox").write_text(mail(1))
    await bring(opened, tmp_path / "a.mbox")
    senders = await rows(opened, "SELECT entity_id FROM event_participants WHERE role = 'sender'")
    assert senders == [(made["id"],)]


async def test_an_import_makes_no_contact_that_live_messages_would_be_believed_by(
    opened: Ledgers, tmp_path: Path
) -> None:
    (tmp_path / "a.mbox").write_text(mail(1) + mail(2, From="me@example.com", To="ada@example.com"))
    await bring(opened, tmp_path / "a.mbox", owner=("me@example.com",))
    contacts = await rows(opened, "SELECT channel, identifier FROM contact_identifiers", "identity")
    assert contacts == [("cli", "owner")]


async def test_a_dry_run_counts_and_records_nothing(opened: Ledgers, tmp_path: Path) -> None:
    path = tmp_path / "a.mbox"
    path.write_text(mail(1) + mail(2) + "From nobody\nno header at all")
    source = history.open_source(path, history.Options())
    seen = (await history.preview(opened, source)).record()
    wanted: dict[str, Any] = {
        "format": "mbox",
        "messages": 2,
        "threads": 2,
        "people": 2,
        "already_imported": 0,
    }
    assert {name: seen[name] for name in wanted} == wanted
    assert seen["first"][:10] == seen["last"][:10] == "2020-01-02"
    assert await rows(opened, "SELECT * FROM events UNION ALL SELECT * FROM events") == []
    await bring(opened, path)
    seen = await history.preview(opened, history.open_source(path, history.Options()))
    assert seen.known == 2


async def test_a_message_without_a_time_takes_that_of_the_one_before(opened: Ledgers, tmp_path: Path) -> None:
    lines = [
        {"id": "1", "thread": "t", "role": "user", "text": "a", "time": "2024-05-01T10:00:00Z"},
        {"id": "2", "thread": "t", "role": "user", "text": "b"},
        {"id": "3", "thread": "t", "role": "user", "text": "c", "time": "9999-01-01T00:00:00Z"},
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    await bring(opened, tmp_path / "x.jsonl")
    found = await rows(opened, "SELECT occurred_at FROM events")
    assert found == [("2024-05-01T10:00:00.000Z",)] * 3


async def test_imported_messages_are_embedded_like_any_other(opened: Ledgers, export: Path) -> None:
    vectors = Vectors(opened.embeddings, Hashes())
    done = await bring(opened, export)
    assert await embed_new(opened, vectors) >= done.messages
    embedded = await rows(opened, "SELECT count(*) FROM embeddings WHERE target_type = 'event'", "embeddings")
    assert embedded == [(done.messages,)]


async def test_imported_conversations_become_episodes_of_their_own_time(
    opened: Ledgers, export: Path
) -> None:
    await bring(opened, export)
    made = await group_events(opened)
    assert (len(made.episode_ids), made.events) == (5, 35)
    times = await rows(opened, "SELECT DISTINCT substr(start_time, 1, 10) FROM episodes", "memory")
    assert times == [("2023-11-14",)]
