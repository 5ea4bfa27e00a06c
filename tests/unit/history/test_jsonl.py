"""Any JSONL file."""

import json
from pathlib import Path
from typing import Any

from nexus.ledgers import Ledgers
from unit.history.exports import bring, rows, said


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


async def test_usual_names_need_no_mapping(opened: Ledgers, tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        {"id": 1, "conversation_id": "x", "role": "user", "content": "Hi", "created_at": 1_700_000_000},
        {
            "id": 2,
            "conversation_id": "x",
            "role": "assistant",
            "content": "Hello",
            "created_at": 1_700_000_001_000,
        },
        {
            "id": 3,
            "conversation_id": "x",
            "sender": "Bob",
            "content": "Hey",
            "created_at": "2023-11-14T22:13:22Z",
        },
    )
    await bring(opened, path)
    assert await said(opened) == [
        ("inbound", "owner", "Hi"), ("outbound", "assistant", "Hello"), ("inbound", "Bob", "Hey"),
    ]  # fmt: skip
    times = await rows(opened, "SELECT substr(occurred_at, 15, 5) FROM events ORDER BY seq")
    assert times == [("13:20",), ("13:21",), ("13:22",)]


async def test_a_mapping_says_which_field_is_what(opened: Ledgers, tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl", {"nr": "7", "who": {"name": "Me"}, "says": "Hi", "text": "no", "room": "r"}
    )
    mapping = {"id": "nr", "sender": "who.name", "text": "says", "thread": "room"}
    await bring(opened, path, mapping=mapping, owner=("me",))
    assert await said(opened) == [("inbound", "owner", "Hi")]
    assert await rows(opened, "SELECT external_id FROM events UNION ALL SELECT external_id FROM threads") == [
        ("7",), ("r",),
    ]  # fmt: skip


async def test_lines_without_ids_are_known_by_their_content(opened: Ledgers, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"role": "user", "text": "Hi"}, {"role": "user", "text": "Ho"})
    await bring(opened, path)
    assert (await bring(opened, path)).known == 2
