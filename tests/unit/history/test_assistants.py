"""Claude's export, and the sessions of coding agents."""

import json
from pathlib import Path
from typing import Any

from nexus.ledgers import Ledgers
from unit.history.exports import bring, rows, said


def jsonl(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


async def test_claudes_export(opened: Ledgers, tmp_path: Path) -> None:
    question = {
        "uuid": "m1",
        "sender": "human",
        "text": "Hi",
        "created_at": "2025-01-02T10:00:00Z",
        "attachments": [{"file_name": "a.txt", "file_size": 3, "file_type": "txt"}],
    }
    answer = {
        "uuid": "m2",
        "sender": "assistant",
        "created_at": "2025-01-02T10:01:00Z",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "name": "search", "input": {"q": "x"}},
            {"type": "text", "text": "Hello"},
        ],
    }
    chat = {
        "uuid": "c1",
        "name": "Greeting",
        "created_at": "2025-01-02T10:00:00Z",
        "chat_messages": [question, answer],
    }
    (tmp_path / "conversations.json").write_text(json.dumps([chat]))
    done = await bring(opened, tmp_path)
    assert done.source == "claude"
    assert await said(opened) == [
        ("inbound", "owner", "Hi"),
        ("internal", "tool", 'search: {"q": "x"}'),
        ("outbound", "Claude", "Hello"),
    ]
    assert await rows(opened, "SELECT filename FROM attachments") == [("a.txt",)]


async def test_sessions_of_claude_code(opened: Ledgers, tmp_path: Path) -> None:
    base = {"sessionId": "s", "timestamp": "2025-03-01T10:00:00.000Z"}
    jsonl(
        tmp_path / "projects" / "-home-me-x" / "s.jsonl",
        {"type": "summary", "summary": "Fix it", "leafUuid": "u3"},
        {
            **base,
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "message": {"role": "user", "content": "Fix the bug"},
        },
        {
            **base,
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
                ],
            },
        },
        {
            **base,
            "type": "user",
            "uuid": "u3",
            "parentUuid": "u2",
            "message": {"role": "user", "content": [{"type": "tool_result", "content": "a.py"}]},
        },
        {
            **base,
            "type": "user",
            "uuid": "u4",
            "isMeta": True,
            "message": {"role": "user", "content": "caveat"},
        },
    )
    done = await bring(opened, tmp_path / "projects")
    assert done.source == "claude-code"
    assert [(sender, content) for _, sender, content in await said(opened)] == [
        ("owner", "Fix the bug"),
        ("Claude Code", "Looking."),
        ("tool", 'Bash: {"command": "ls"}'),
        ("tool", "result: a.py"),
    ]


async def test_sessions_of_codex_old_and_new(opened: Ledgers, tmp_path: Path) -> None:
    def wrapped(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2025-09-01T10:00:00.000Z", "type": "response_item", "payload": payload}

    jsonl(
        tmp_path / "2025" / "09" / "01" / "rollout-1.jsonl",
        {"timestamp": "2025-09-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "x"}},
        wrapped(
            type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>…"}]
        ),
        wrapped(type="message", role="user", content=[{"type": "input_text", "text": "Add a test"}]),
        wrapped(type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="c"),
        wrapped(type="function_call_output", call_id="c", output="ok"),
        wrapped(type="message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
    )
    jsonl(
        tmp_path / "rollout-0.jsonl",
        {"id": "old", "timestamp": "2025-05-01T10:00:00.000Z"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Old one"}]},
    )
    done = await bring(opened, tmp_path)
    assert done.source == "codex"
    found = await rows(opened, "SELECT kind, sender, content FROM events WHERE kind <> 'system' ORDER BY seq")
    assert found == [
        ("message", "owner", "Add a test"),
        ("tool_call", "tool", 'shell: {"command":["ls"]}'),
        ("tool_call", "tool", "result: ok"),
        ("message", "Codex", "Done."),
        ("message", "owner", "Old one"),
    ]


async def test_an_openclaw_home(opened: Ledgers, tmp_path: Path) -> None:
    jsonl(
        tmp_path / "agents" / "main" / "sessions" / "s.jsonl",
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-04-08T01:03:43.107Z"},
        {"type": "model_change", "id": "a", "parentId": None, "modelId": "x"},
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "timestamp": "2026-04-08T01:04:00Z",
            "message": {"role": "user", "content": [{"type": "text", "text": "Water the plants at 6"}]},
        },
        {
            "type": "message",
            "id": "c",
            "parentId": "b",
            "timestamp": "2026-04-08T01:04:01Z",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "I will."}]},
        },
    )
    done = await bring(opened, tmp_path)
    assert (done.source, done.messages) == ("openclaw", 2)
    answered = await rows(
        opened, "SELECT q.content FROM events AS e JOIN events AS q ON q.id = e.reply_to_event_id"
    )
    assert answered == [("Water the plants at 6",)]


async def test_new_lines_of_a_session_are_added(opened: Ledgers, tmp_path: Path) -> None:
    line = {"sessionId": "s", "type": "user", "message": {"role": "user", "content": "x"}}
    jsonl(tmp_path / "s.jsonl", {**line, "uuid": "1"})
    await bring(opened, tmp_path)
    jsonl(tmp_path / "s.jsonl", {**line, "uuid": "1"}, {**line, "uuid": "2"})
    again = await bring(opened, tmp_path)
    assert (again.messages, again.known) == (1, 1)


async def test_memories_of_other_systems_are_documents(opened: Ledgers, tmp_path: Path) -> None:
    memories = {
        "results": [{"id": "1", "memory": "Likes tea", "user_id": "me", "created_at": "2025-01-01T00:00:00Z"}]
    }
    (tmp_path / "mem0.json").write_text(json.dumps(memories))
    (tmp_path / "zep.json").write_text(
        json.dumps(
            {
                "messages": [
                    {"uuid": "z1", "role_type": "user", "content": "Hi", "created_at": "2025-01-01T00:00:00Z"}
                ]
            }
        )
    )
    (tmp_path / "a.af").write_text(
        json.dumps(
            {
                "agents": [
                    {"messages": [{"id": "l1", "role": "user", "content": [{"type": "text", "text": "Yo"}]}]}
                ],
                "blocks": [{"id": "b1", "label": "human", "value": "Lives in Ghent"}],
            }
        )
    )
    (tmp_path / "h.json").write_text(
        json.dumps({"items": [{"id": "h1", "text": "Has a dog", "fact_type": "world"}]})
    )
    formats = {
        name: (await bring(opened, tmp_path / name)).source
        for name in ("mem0.json", "zep.json", "a.af", "h.json")
    }
    assert list(formats.values()) == ["mem0", "zep", "letta", "hindsight"]
    found = await rows(opened, "SELECT channel, kind, content FROM events ORDER BY seq")
    assert found == [
        ("mem0", "memory", "Likes tea"),
        ("zep", "message", "Hi"),
        ("letta", "message", "Yo"),
        ("letta", "memory", "human: Lives in Ghent"),
        ("hindsight", "memory", "Has a dog"),
    ]
    assert await rows(opened, "SELECT * FROM facts", "memory") == []
