"""The real `nexus acp`, driven by the protocol's own client as an editor drives it."""

import asyncio
import json
from pathlib import Path

import acp
import pytest

from acceptance.agents import answers, environment, finish, written
from acceptance.running import serving
from editors import Editor, editor_of, message
from nexus.home import Home
from nexus.testing import Hold, ModelServer, ToolCall, Turn


async def test_an_editor_edits_a_file_with_approvals_and_stops_an_answer(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "tea.txt").write_text("green\n")
    env = environment(server, NEXUS_TOOLS_ASK="write,edit", NEXUS_TOOLS_DIRECTORIES=f"{project}:rw")
    server.script(
        Turn("Let me look.", [ToolCall("edit", {"path": "tea.txt", "old": "green", "new": "black"})]),
        Turn("", [ToolCall("write", {"path": str(project / "tea.txt"), "content": "oolong\n"})]),
        "Only the first change was made.",
        Turn("Once upon a time, " * 30, faults=[Hold(gate="story", after_deltas=2)]),
    )
    editor = Editor("once", "deny")
    async with editor_of(home, env, editor) as (agent, process):
        session = await agent.new_session(cwd=str(project))
        said = message("Change the tea", {project / "notes.md": "No milk."})
        done = await agent.prompt(session_id=session.session_id, prompt=said)
        assert done.stop_reason == "end_turn"
        assert written(project / "tea.txt") == "black\n"
        assert "Let me look." in editor.text()
        assert editor.text().endswith("Only the first change was made.")

        (edit, options), (write, _) = editor.questions
        assert [each.option_id for each in options] == ["once", "session", "always", "deny"]
        diffs = [each.content[0] for each in (edit, write) if each.content]
        assert [(each.path, each.old_text, each.new_text) for each in diffs] == [
            (str(project / "tea.txt"), "green", "black"),
            (str(project / "tea.txt"), "black\n", "oolong\n"),
        ]
        assert "lists write" in str(write.content)
        started = editor.of_kind("tool_call")
        assert [(each.kind, each.locations[0].path) for each in started] == [
            ("edit", str(project / "tea.txt"))
        ] * 2
        assert [each.status for each in editor.of_kind("tool_call_update")] == ["completed", "failed"]

        asked = str(server.requests[0].json["messages"])
        assert "No milk." in asked
        assert f"Project folder: {project}" in asked

        story = asyncio.ensure_future(
            agent.prompt(session_id=session.session_id, prompt=message("Tell me a story"))
        )
        await editor.until(lambda: "Once upon a time" in editor.text())
        await agent.cancel(session_id=session.session_id)
        assert (await story).stop_reason == "cancelled"
        assert process.stdin is not None
        process.stdin.close()
        assert await process.wait() == 0
    assert "Only the first change was made." in answers(home)


async def test_an_editor_continues_a_conversation_of_the_terminal_in_a_served_home(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    env = environment(server)
    server.script("Oolong, then.", "You said oolong.", "Back in the terminal.")
    editor = Editor()
    with serving(home, env, "--port", "0"):
        assert finish(home, env, "run", "--session", "tea", "I drink oolong").stdout == "Oolong, then.\n"
        async with editor_of(home, env, editor) as (agent, _):
            (listed,) = (await agent.list_sessions(cwd=str(tmp_path))).sessions
            assert (listed.session_id, listed.title, listed.cwd) == ("tea", "tea", str(tmp_path))
            await agent.load_session(cwd=str(tmp_path), session_id="tea")
            assert editor.text("user_message_chunk") == "I drink oolong"
            assert editor.text() == "Oolong, then."
            await agent.prompt(session_id="tea", prompt=message("What do I drink?"))
            assert editor.text().endswith("You said oolong.")
            with pytest.raises(acp.RequestError, match="Unknown session"):
                await agent.load_session(cwd=str(tmp_path), session_id="nowhere")
        told = finish(home, env, "run", "--json", "--session", "tea", "Still there?")
        assert json.loads(told.stdout)["content"] == "Back in the terminal."
    assert "You said oolong." in str(server.requests[-1].json["messages"])


async def test_an_editor_is_told_why_the_agent_cannot_answer(home: Home) -> None:
    editor = Editor()
    async with editor_of(home, environment(None), editor) as (agent, _):
        with pytest.raises(acp.RequestError, match=r"No model configured.*config\.toml"):
            await agent.new_session(cwd="/")
