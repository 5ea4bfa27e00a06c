"""What an editor is shown of runs, and what it may send."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from acp.client.connection import ClientSideConnection

from apps import send, settings
from attached_files import png
from editors import Editor, editor_with, message
from nexus.app import App
from nexus.cli.acp_agent import EditorAgent
from nexus.cli.talk_here import Here
from nexus.config import ToolsConfig
from nexus.home import Home
from nexus.testing import BrokenEvent, ModelServer, ToolCall, Turn


@asynccontextmanager
async def _connected(
    home: Home, server: ModelServer, editor: Editor, **tools: Any
) -> AsyncGenerator[tuple[ClientSideConnection, App]]:
    config = settings(server)
    provider = replace(config.providers["test"], max_retries=1)
    config = replace(
        config,
        tools=ToolsConfig(**tools),
        providers={"test": provider},
        models=replace(config.models, fast=("test/small",)),
    )
    async with App(home, config) as app:
        agent = EditorAgent(Here(app), home, config, "")
        async with editor_with(agent, editor) as connected:
            yield connected, app


async def test_what_a_prompt_holds_reaches_the_model_and_what_cannot_be_taken_is_said(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.always("Seen.")
    editor = Editor()
    async with _connected(home, server, editor) as (agent, _):
        opened = await agent.new_session(cwd=str(tmp_path))
        id_ = opened.session_id
        image = acp.image_block(base64.b64encode(png()).decode(), "image/png")
        link = acp.resource_link_block("plan.md", (tmp_path / "doc" / "plan.md").as_uri() + "#L3:9")
        files = message("Look at ", {tmp_path / "a b.py": "print('tea')"})
        await agent.prompt(session_id=id_, prompt=[files[0], link, *files[1:], image])
        asked = str(server.requests[0].json["messages"])
        assert "Look at [plan.md](doc/plan.md#L3:9)`a b.py`" in asked
        assert "print(\\'tea\\')" in asked or "print('tea')" in asked
        assert "'type': 'image'" in asked

        refused: dict[str, list[Any]] = {
            "Audio isn't supported": [acp.audio_block("", "audio/wav")],
            "isn't valid Base64": [acp.image_block("no base 64!", "image/png")],
            "neither an image, a recording, a PDF nor text": [acp.image_block("AAAA/w==", "image/png")],
            "The message is empty": [acp.text_block(" \n")],
        }
        for why, prompt in refused.items():
            with pytest.raises(acp.RequestError, match=why):
                await agent.prompt(session_id=id_, prompt=prompt)
        with pytest.raises(acp.RequestError, match="Unknown session"):
            await agent.prompt(session_id="chat:none", prompt=message("Hi"))

        (option,) = opened.config_options or []
        assert isinstance(option, schema.SessionConfigOptionSelect)
        names = [each.value for each in option.options if isinstance(each, schema.SessionConfigSelectOption)]
        assert names == ["default", "test/large", "test/small"]
        await agent.set_config_option(config_id="model", session_id=id_, value="test/small")
        with pytest.raises(acp.RequestError, match="Unknown option"):
            await agent.set_config_option(config_id="model", session_id=id_, value="test/huge")
        await agent.prompt(session_id=id_, prompt=message("Again"))
        assert server.requests[-1].json["model"] == "small"
        assert str(server.requests[-1].json["messages"]).count("Project folder") == 1, "it is told once"

        await agent.prompt(session_id=id_, prompt=message("/cost"))
        assert "tokens" in editor.text()
        await agent.prompt(session_id=id_, prompt=message("And after a command?"))
        assert editor.text().endswith("Seen.")
        (listed,) = editor.of_kind("available_commands_update")
        assert "memory" in [each.name for each in listed.available_commands]


async def test_only_files_of_the_project_are_shown_as_they_were(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("the password")
    (project / "link.txt").symlink_to(secret)
    (project / "large.txt").write_text("x" * 2_000_000)
    (project / "own.txt").write_text("before")
    paths = [project / "link.txt", secret, project / "large.txt", project / "own.txt", project / "new.txt"]
    calls = [ToolCall("write", {"path": str(path), "content": "after"}) for path in paths]
    server.script(Turn("", calls), "Done.")
    editor = Editor()
    async with _connected(home, server, editor, ask=("write",)) as (agent, app):
        session = (await agent.new_session(cwd=str(project))).session_id
        answering = asyncio.ensure_future(agent.prompt(session_id=session, prompt=message("Write")))
        await editor.until(lambda: len(editor.of_kind("tool_call")) == len(paths))
        await agent.cancel(session_id=session)
        assert (await answering).stop_reason == "cancelled"
        assert await app.broker.approvals.waiting() == []
    diffs = [each.content[0] for each in editor.of_kind("tool_call")]
    assert [each.old_text for each in diffs] == [None, None, None, "before", None]
    assert "the password" not in str(editor.updates) + str(editor.questions)


async def test_a_call_that_is_decided_elsewhere_is_no_longer_asked_about(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.script(Turn("", [ToolCall("bash", {"command": "echo `tea` ```"})]), "Made.")
    editor = Editor()
    async with _connected(home, server, editor, ask=("bash",)) as (agent, app):
        session = (await agent.new_session(cwd=str(tmp_path))).session_id
        answering = asyncio.ensure_future(agent.prompt(session_id=session, prompt=message("Make tea")))
        await editor.until(lambda: editor.questions)
        (waiting,) = await app.broker.approvals.waiting()
        await app.broker.approvals.decide(waiting.id, "once")
        assert (await answering).stop_reason == "end_turn"
    ((asked, _),) = editor.questions
    text = asked.content[0].content.text if asked.content else ""  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert text.startswith("````\n"), "what is shown can't end its fence"
    assert asked.tool_call_id == editor.of_kind("tool_call")[0].tool_call_id
    assert editor.text() == "Made."


async def test_an_answer_that_breaks_off_follows_again_and_the_turn_ends_with_the_workers_results(
    home: Home, server: ModelServer
) -> None:
    server.when(last_user="Count the spoons").always("Twelve spoons.")
    server.when(last_user="worker_result").always("The worker counted twelve.")
    server.script(
        Turn("Let me ask a wor", faults=[BrokenEvent()]),
        Turn("Let me ask a worker.", [send("dispatch", text="Count the spoons")]),
        "It is at it.",
    )
    editor = Editor()
    async with _connected(home, server, editor) as (agent, _):
        session = (await agent.new_session(cwd="/")).session_id
        done = await agent.prompt(session_id=session, prompt=message("How many spoons?"))
        assert done.stop_reason == "end_turn"
    assert "It follows again." in editor.text()
    assert editor.text().count("Let me ask a worker.") == 1
    assert editor.text().endswith("The worker counted twelve.")
    ids = {each.message_id for each in editor.of_kind("agent_message_chunk")}
    assert len(ids) >= 3, "each answer of the model is a message of its own"
