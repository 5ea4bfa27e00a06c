"""ChatGPT's export in its real shapes."""

import json
import zipfile
from pathlib import Path

from nexus.ledgers import Ledgers
from unit.history.exports import bring, chatgpt, conversation, long_conversation, node, rows, said


async def test_an_edited_question_becomes_a_branch(opened: Ledgers, tmp_path: Path) -> None:
    tree = conversation(
        "c", "a2",
        node("root", None, "q1", "q2"),
        node("q1", "root", "a1", role="user", text="Hotels in Lisboa?", create_time=1_700_000_001),
        node("a1", "q1", role="assistant", text="Many.", create_time=1_700_000_002),
        node("q2", "root", "a2", role="user", text="Hotels in Lisbon in May?", create_time=1_700_000_003),
        node("a2", "q2", role="assistant", text="In Alfama.", create_time=1_700_000_004),
    )  # fmt: skip
    await bring(opened, chatgpt(tmp_path / "conversations.json", tree))
    assert [content for _, _, content in await said(opened)] == [
        "Hotels in Lisbon in May?", "In Alfama.", "Hotels in Lisboa?", "Many.",
    ]  # fmt: skip
    threads = await rows(
        opened,
        "SELECT t.external_id, t.kind, p.external_id, count(*) "
        "FROM events JOIN threads AS t ON t.id = thread_id "
        "LEFT JOIN threads AS p ON p.id = t.parent_thread_id GROUP BY t.id ORDER BY t.external_id",
    )
    assert threads == [("c", "chat", None, 2), ("c/a1", "branch", "c", 2)]


async def test_a_regenerated_answer_answers_the_same_question(opened: Ledgers, tmp_path: Path) -> None:
    tree = conversation(
        "c", "a2",
        node("q", None, "a1", "a2", role="user", text="Tea?", create_time=1),
        node("a1", "q", role="assistant", text="No.", create_time=1_700_000_002),
        node("a2", "q", role="assistant", text="Yes.", create_time=1_700_000_003),
    )  # fmt: skip
    await bring(opened, chatgpt(tmp_path / "conversations.json", tree))
    found = await rows(
        opened,
        "SELECT e.content, q.content FROM events AS e JOIN events AS q ON q.id = e.reply_to_event_id "
        "ORDER BY e.seq",
    )
    assert found == [("Yes.", "Tea?"), ("No.", "Tea?")]


async def test_prompts_tools_pictures_and_deleted_messages(opened: Ledgers, tmp_path: Path) -> None:
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-abc",
        "size_bytes": 9,
    }
    tree = conversation(
        "c", "end",
        node("empty", None, "about", role="system", text=""),
        node("about", "empty", "q", role="user", metadata={"is_visually_hidden_from_conversation": True},
             content={"content_type": "user_editable_context", "user_profile": "I live in Ghent."}),
        node("q", "about", "think", role="user",
             content={"content_type": "multimodal_text", "parts": [picture, "What is this?"]},
             metadata={"attachments": [{"name": "notes.pdf", "mime_type": "application/pdf", "size": 7}]}),
        node("think", "q", "call", role="assistant", content={"content_type": "thoughts", "thoughts": []}),
        node("call", "think", "result", role="assistant", recipient="python",
             content={"content_type": "code", "text": "1 + 1"}),
        {**node("result", "call", "gone", author={"role": "tool", "name": "python"},
                content={"content_type": "execution_output", "text": "2"})},
        node("gone", "result", "end"),
        node("end", "gone", role="assistant", text="A cat.", metadata={"model_slug": "gpt-4o"}),
    )  # fmt: skip
    await bring(opened, chatgpt(tmp_path / "conversations.json", tree))
    found = await rows(opened, "SELECT direction, kind, content FROM events ORDER BY seq")
    assert found == [
        ("internal", "system", "I live in Ghent."),
        ("inbound", "message", "What is this?"),
        ("internal", "tool_call", "python: 1 + 1"),
        ("internal", "tool_call", "python: 2"),
        ("outbound", "message", "A cat."),
    ]
    files = await rows(opened, "SELECT filename, media_type, size_bytes FROM attachments ORDER BY size_bytes")
    assert files == [("notes.pdf", "application/pdf", 7), ("file-abc", "image/unknown", 9)]


async def test_a_zip_with_numbered_files_is_read_in_order(opened: Ledgers, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for number in range(3):
            archive.writestr(
                f"conversations-00{number}.json", json.dumps([long_conversation(f"c{number}", 2)])
            )
        archive.writestr("user.json", "{}")
    done = await bring(opened, tmp_path / "export.zip")
    assert (done.messages, done.threads) == (6, 3)


async def test_one_broken_conversation_costs_only_itself(opened: Ledgers, tmp_path: Path) -> None:
    whole = json.dumps([long_conversation(f"c{number}", 2) for number in range(3)])
    broken = whole.replace('"title": "About c1"', '"title": About c1')
    (tmp_path / "conversations.json").write_text(broken)
    done = await bring(opened, tmp_path / "conversations.json")
    assert (done.messages, dict(done.set_aside.counts)) == (4, {"the conversation is not valid JSON": 1})
    assert done.set_aside.examples[0][1] == "conversations.json, conversation 2"


async def test_a_file_that_is_cut_short_gives_what_it_holds(opened: Ledgers, tmp_path: Path) -> None:
    whole = json.dumps([long_conversation(f"c{number}", 2) for number in range(3)])
    (tmp_path / "conversations.json").write_text(whole[:-20])
    done = await bring(opened, tmp_path / "conversations.json")
    assert (done.messages, dict(done.set_aside.counts)) == (
        4,
        {"the file is damaged: the file is cut short": 1},
    )


async def test_a_tree_that_goes_in_circles_ends(opened: Ledgers, tmp_path: Path) -> None:
    tree = conversation(
        "c", "b",
        node("a", "b", "b", role="user", text="one", create_time=1_700_000_001),
        node("b", "a", "a", role="assistant", text="two", create_time=1_700_000_002),
    )  # fmt: skip
    done = await bring(opened, chatgpt(tmp_path / "conversations.json", tree))
    assert done.messages == 2


async def test_a_conversation_of_30_mb_with_a_thousand_branches_is_read(
    opened: Ledgers, tmp_path: Path
) -> None:
    tree = long_conversation("c", 2_000, "word " * 3_000)
    for number in range(0, 2_000, 2):
        # Every question was edited once, and the first version was never answered.
        tree["mapping"][f"old-{number}"] = node(f"old-{number}", f"c-{number}", role="user", text="old")
    path = chatgpt(tmp_path / "conversations.json", tree)
    assert path.stat().st_size > 30_000_000
    done = await bring(opened, path)
    assert (done.messages, done.threads, done.set_aside.total) == (3_000, 1_001, 0)
