"""Sessions of Claude Code and Codex in the agents ledger: whole, once, growing, undone, and nobody's run."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from nexus import history
from nexus.errors import UsageError
from nexus.gateway.views import sessions as listed_sessions
from nexus.history import importer
from nexus.history.items import Item, SessionMessage
from nexus.history.sources.sessions import ClaudeCode
from nexus.ledgers import Ledgers, forgetting, invariants
from nexus.ledgers.agents import imported, messages, sessions, tool_calls, turns
from nexus.ledgers.agents.messages import NewMessage
from nexus.ledgers.reconcile import reconcile
from nexus.ledgers.runtime import executions, requests
from nexus.ledgers.runtime.executions import NewExecution
from nexus.memory.operations import Memory
from nexus.request import Agent, Event, Request
from unit.history.exports import AGENT_SESSIONS, bring, rows
from unit.ledgers.forgetting.scene import Scene

_KETTLE: Final = "claude-code:3f1c2a9e-6a54-4b0e-9d37-5b1f0c7f2e10"
_TEAPOT: Final = "codex:0199c1de-77aa-7d01-b5e6-1b2c3d4e5f60"
_TABLES: Final = ("agent_sessions", "agent_turns", "agent_messages", "agent_tool_calls")


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """A copy of Claude Code's folder."""
    return shutil.copytree(AGENT_SESSIONS / "claude-code", tmp_path / "projects")


def session_file(projects: Path) -> Path:
    return next(projects.glob("*/3f1c2a9e*.jsonl"))


async def agents(ledgers: Ledgers, query: str) -> list[tuple[Any, ...]]:
    return await rows(ledgers, query, "agents")


async def everything(ledgers: Ledgers) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the agents ledger, without the counts of how often they were changed."""
    found = {table: await agents(ledgers, f"SELECT * FROM {table} ORDER BY id") for table in _TABLES}
    found["agent_sessions"] = await agents(
        ledgers,
        "SELECT id, label, source, role, model, project, thread_id, parent_session_id, created_at, "
        "updated_at FROM agent_sessions ORDER BY id",
    )
    return found


async def forget_import(ledgers: Ledgers, import_id: str) -> None:
    target = await forgetting.find(ledgers, forgetting.import_, import_id)
    await forgetting.forget(ledgers, target, actor="test")


def add_session(projects: Path, *blocks: tuple[str, str | list[dict[str, Any]]], model: str = "m") -> Path:
    """A session `extra` with one message a second, each a role and what it says."""
    path = projects / "extra.jsonl"
    shared = {"sessionId": "extra", "cwd": "/home/ada/kettle"}
    with path.open("w") as file:
        for number, (role, content) in enumerate(blocks):
            message = {"role": role, "content": content, "model": model}
            when = f"2026-05-08T10:00:{number:02}Z"
            row = {**shared, "type": role, "uuid": f"extra-{number}", "timestamp": when, "message": message}
            file.write(json.dumps(row) + "\n")
    return path


async def forget_events(ledgers: Ledgers, like: str) -> None:
    """Forget each event that says something, by its id."""
    for (id_,) in await rows(ledgers, f"SELECT id FROM events WHERE content LIKE '%{like}%'"):
        target = await forgetting.find(ledgers, forgetting.event, wanted=id_)
        await forgetting.forget(ledgers, target, actor="test")


async def test_a_session_of_claude_code_is_recorded_whole(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    assert await agents(
        opened,
        "SELECT label, source, role, model, project, created_at, updated_at FROM agent_sessions "
        "WHERE parent_session_id IS NULL",
    ) == [
        (_KETTLE, "claude-code", "manager", "claude-sonnet-4-5-20250929", "/home/ada/kettle",
         "2026-05-04T09:00:00.000Z", "2026-05-04T09:05:04.000Z"),
    ]  # fmt: skip
    said = await agents(
        opened,
        "SELECT t.position, t.status, m.position, m.role, m.content, m.model FROM agent_messages AS m "
        "JOIN agent_turns AS t ON t.id = m.turn_id JOIN agent_sessions AS s ON s.id = m.session_id "
        f"WHERE s.label = '{_KETTLE}' ORDER BY m.position",
    )
    model = "claude-sonnet-4-5-20250929"
    assert said == [
        (0, "done", 0, "system", "<command-name>/clear</command-name>", None),
        (0, "done", 1, "user", "The kettle boils over at 95 degrees. Find out why.", None),
        (0, "done", 2, "assistant", "I'll look for the limit.", model),
        (0, "done", 3, "assistant", "", model),
        (0, "done", 4, "tool", "src/heater.py:3:LIMIT = 105", None),
        (0, "done", 5, "assistant", "", model),
        (0, "done", 6, "tool", "Exit code 1\n1 failed, 4 passed", None),
        (0, "done", 7, "assistant", "LIMIT is 105; it has to be 100. One test shows it.", model),
        (1, "done", 8, "user", "Fix it.", None),
        (1, "done", 9, "assistant", "", model),
    ]
    calls = await agents(
        opened,
        "SELECT c.tool_name, json_extract(c.arguments_json, '$.command'), c.status, c.result, c.error, "
        "m.position, c.position FROM agent_tool_calls AS c JOIN agent_messages AS m ON m.id = c.message_id "
        "ORDER BY c.position",
    )
    assert calls == [
        ("Grep", None, "done", "src/heater.py:3:LIMIT = 105", None, 3, 3),
        ("Bash", "pytest -q", "failed", None, "Exit code 1\n1 failed, 4 passed", 5, 5),
        ("Edit", None, "cancelled", None, None, 9, 9),
    ]
    # Every message leads to what was recorded of it, and so does the session.
    whole = await agents(opened, "SELECT event_id FROM agent_messages")
    recorded = {row[0] for row in await rows(opened, "SELECT id FROM events")}
    assert len(whole) == 12
    assert {row[0] for row in whole} <= recorded
    threads = await rows(opened, "SELECT id FROM threads ORDER BY id")
    assert await agents(opened, "SELECT thread_id FROM agent_sessions ORDER BY thread_id") == threads


async def test_a_subagents_session_belongs_to_the_one_that_started_it(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    assert await agents(
        opened,
        "SELECT child.label, child.role, parent.label FROM agent_sessions AS child "
        "JOIN agent_sessions AS parent ON parent.id = child.parent_session_id",
    ) == [(f"{_KETTLE}/a17bfe0", "worker", _KETTLE)]


async def test_what_older_versions_wrote_of_subagents_is_a_session_too(
    opened: Ledgers, projects: Path
) -> None:
    file = session_file(projects)
    inline = [json.loads(line) for line in file.with_name("agent-a17bfe0.jsonl").read_text().splitlines()]
    file.with_name("agent-a17bfe0.jsonl").unlink()
    for each in inline:
        del each["agentId"]
    with file.open("a") as whole:
        whole.writelines(json.dumps(each) + "\n" for each in inline)
    await bring(opened, projects)
    assert await agents(opened, "SELECT label FROM agent_sessions WHERE parent_session_id IS NOT NULL") == [
        (f"{_KETTLE}/subagents",)
    ]
    assert await agents(opened, "SELECT count(*) FROM agent_turns") == [(3,)]


async def test_a_session_of_codex_is_recorded_whole(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "codex")
    assert await agents(opened, "SELECT label, source, role, model, project FROM agent_sessions") == [
        (_TEAPOT, "codex", "manager", "gpt-5.1-codex", "/home/ada/teapot")
    ]
    assert await agents(opened, "SELECT role, content FROM agent_messages ORDER BY position") == [
        ("system", "<environment_context>\n  <cwd>/home/ada/teapot</cwd>\n</environment_context>"),
        ("user", "Write a README for the teapot."),
        ("assistant", ""),
        ("tool", "Exit code: 0\nOutput:\nteapot.py"),
        ("assistant", ""),
        ("tool", '{"output":"Success. Updated the following files:\\nA README.md\\n",'
                 '"metadata":{"exit_code":0,"duration_seconds":0.0}}'),
        ("assistant", "README.md is written."),
    ]  # fmt: skip
    calls = await agents(
        opened,
        "SELECT tool_name, json_type(arguments_json), status, substr(result, 1, 12) FROM agent_tool_calls "
        "ORDER BY position",
    )
    assert calls == [
        ("shell_command", "object", "done", "Exit code: 0"),
        ("apply_patch", "text", "done", '{"output":"S'),
    ]
    assert await agents(opened, "SELECT count(*) FROM agent_turns") == [(1,)]


@pytest.mark.parametrize("program", ["claude-code", "codex"])
async def test_importing_a_session_again_changes_nothing(opened: Ledgers, program: str) -> None:
    await bring(opened, AGENT_SESSIONS / program)
    before = await everything(opened)
    await bring(opened, AGENT_SESSIONS / program)
    assert await everything(opened) == before


@pytest.mark.parametrize("program", ["claude-code", "codex"])
async def test_a_session_is_the_same_from_a_folder_further_in(opened: Ledgers, program: str) -> None:
    await bring(opened, AGENT_SESSIONS / program)
    before = await everything(opened)
    (inner,) = (path for path in (AGENT_SESSIONS / program).iterdir() if path.is_dir())
    await bring(opened, inner)
    assert await everything(opened) == before


async def test_a_session_that_grew_adds_what_is_new(opened: Ledgers, projects: Path) -> None:
    file = session_file(projects)
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:6]))
    await bring(opened, projects)
    assert await agents(opened, "SELECT tool_name, status FROM agent_tool_calls") == [("Grep", "cancelled")]
    before = await agents(opened, "SELECT id, turn_id, position FROM agent_messages ORDER BY id")
    file.write_text("".join(whole))
    await bring(opened, projects)
    after = await agents(opened, "SELECT id, turn_id, position FROM agent_messages ORDER BY id")
    assert set(before) < set(after)
    # The call that was under way has its result, and the turn its end.
    assert await agents(opened, "SELECT status, result FROM agent_tool_calls WHERE tool_name = 'Grep'") == [
        ("done", "src/heater.py:3:LIMIT = 105")
    ]
    ends = await agents(
        opened,
        "SELECT t.position, t.ended_at FROM agent_turns AS t JOIN agent_sessions AS s ON s.id = t.session_id "
        "WHERE s.parent_session_id IS NULL ORDER BY t.position",
    )
    assert ends == [(0, "2026-05-04T09:00:22.000Z"), (1, "2026-05-04T09:05:04.000Z")]


async def test_a_session_that_goes_on_with_another_repeats_nothing(opened: Ledgers, projects: Path) -> None:
    file = session_file(projects)
    copied = file.read_text().replace("3f1c2a9e-6a54-4b0e-9d37-5b1f0c7f2e10", "later")
    more = json.loads(copied.splitlines()[-2])
    more |= {"uuid": "new", "message": {"role": "user", "content": "And now?"}}
    file.with_name("later.jsonl").write_text(copied + json.dumps(more) + "\n")
    await bring(opened, projects)
    assert await agents(
        opened,
        "SELECT m.content, m.position, t.session_id = s.id FROM agent_sessions AS s "
        "JOIN agent_messages AS m ON m.session_id = s.id JOIN agent_turns AS t ON t.id = m.turn_id "
        "WHERE s.label = 'claude-code:later'",
    ) == [("And now?", 0, 1)]


class StopError(Exception):
    """The process ends here."""


def stopping(path: Path, after: int) -> ClaudeCode:
    """The source, which breaks off after some messages of sessions as a killed process would."""
    source = ClaudeCode(history.open_source(path, history.Options()).files, history.Options())
    whole = source.read

    def read(cursor: str | None) -> Iterator[Item]:
        left = after
        for item in whole(cursor):
            left -= isinstance(item, SessionMessage)
            if left < 0:
                raise StopError
            yield item

    source.read = read  # type: ignore[method-assign]
    return source


async def test_an_interrupted_import_ends_with_the_same_sessions(
    opened: Ledgers, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await bring(opened, projects)
    whole = await everything(opened)
    await forget_import(opened, done.id)
    monkeypatch.setattr(importer, "_BATCH", 2)
    for after in (3, 4, 5):
        with pytest.raises(StopError):
            await history.Importer(opened, Memory(opened), stopping(projects, after)).run()
    await bring(opened, projects)
    assert await everything(opened) == whole


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_a_crash_between_the_ledgers_loses_no_session(
    opened: Ledgers, projects: Path, monkeypatch: pytest.MonkeyPatch, is_recorded: bool
) -> None:
    """The process ends between the events and the cursor, before or after the sessions are recorded."""
    file = session_file(projects)
    file.write_text(file.read_text() + "{broken\n")
    write = opened.agents.write

    async def crash(*args: Any, **values: Any) -> None:
        if is_recorded:
            await write(*args, **values)
        raise StopError

    monkeypatch.setattr(opened.agents, "write", crash)
    with pytest.raises(StopError):
        await bring(opened, projects)
    assert await rows(opened, "SELECT cursor FROM imports") == [(None,)]
    assert await rows(opened, "SELECT count(*) > 0 FROM events") == [(1,)]
    monkeypatch.setattr(opened.agents, "write", write)
    done = await bring(opened, projects)
    assert (done.messages, done.known, done.set_aside.total) == (12, 0, 1)
    assert await agents(opened, "SELECT count(*) FROM agent_messages") == [(12,)]
    await forget_import(opened, done.id)
    assert all(not found for found in (await everything(opened)).values())


@pytest.mark.parametrize("program", ["claude-code", "codex"])
async def test_undoing_an_import_removes_its_sessions(opened: Ledgers, program: str) -> None:
    other = await bring(opened, AGENT_SESSIONS / ("codex" if program == "claude-code" else "claude-code"))
    before = await everything(opened)
    done = await bring(opened, AGENT_SESSIONS / program)
    assert await everything(opened) != before
    await forget_import(opened, done.id)
    assert await everything(opened) == before
    await forget_import(opened, other.id)
    assert all(not found for found in (await everything(opened)).values())


async def test_undoing_a_later_import_leaves_the_turns_of_the_first(opened: Ledgers, projects: Path) -> None:
    file = session_file(projects)
    whole = file.read_text().splitlines(keepends=True)
    file.write_text("".join(whole[:10]))
    await bring(opened, projects)
    before = await agents(opened, "SELECT id FROM agent_messages ORDER BY id")
    file.write_text("".join(whole))
    done = await bring(opened, projects)
    await forget_import(opened, done.id)
    assert await agents(opened, "SELECT id FROM agent_messages ORDER BY id") == before


async def test_sessions_imported_before_are_filled_in_by_importing_again(
    opened: Ledgers, projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record_nothing(connection: apsw.Connection, **values: Any) -> int:
        return 0

    with monkeypatch.context() as older:
        older.setattr(imported, "record", record_nothing)
        first = await bring(opened, projects)
    assert await agents(opened, "SELECT count(*) FROM agent_sessions") == [(0,)]
    again = await bring(opened, projects)
    assert (first.messages, again.messages, again.known) == (12, 0, 12)
    assert await agents(opened, "SELECT count(*) FROM agent_messages") == [(12,)]
    await forget_import(opened, first.id)
    assert await agents(opened, "SELECT count(*) FROM agent_sessions") == [(0,)]


async def test_forgetting_what_a_session_says_removes_the_turn(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    target = forgetting.time_range("2026-05-04T09:05:00Z", "2026-05-04T09:06:00Z")
    await forgetting.forget(opened, target, actor="test")
    assert await agents(opened, "SELECT content FROM agent_messages WHERE content LIKE 'Fix%'") == []
    assert await agents(opened, "SELECT tool_name FROM agent_tool_calls ORDER BY position") == [
        ("Grep",), ("Bash",),
    ]  # fmt: skip
    (thread,) = await agents(opened, "SELECT thread_id FROM agent_sessions WHERE role = 'manager'")
    target = await forgetting.find(opened, forgetting.thread, thread[0])
    await forgetting.forget(opened, target, actor="test")
    assert all(not found for found in (await everything(opened)).values())


async def test_forgetting_somebody_removes_the_turns_that_name_them(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    await Scene(opened).entity("ent_1", "Heater")
    target = await forgetting.find(opened, forgetting.entity, "Heater")
    await forgetting.forget(opened, target, actor="test")
    # One result names a file by it, and one call does; so does the subagent's task.
    assert await agents(opened, "SELECT role, content FROM agent_messages") == []
    assert await agents(opened, "SELECT * FROM agent_sessions") == []


async def test_forgetting_a_tool_call_removes_its_arguments_and_result(
    opened: Ledgers, tmp_path: Path
) -> None:
    """A message with words is tied to the event of its words; its calls have events of their own."""
    add_session(
        tmp_path,
        ("user", "Please look."),
        ("assistant", [
            {"type": "text", "text": "Running it."},
            {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "echo xylophagous"}},
        ]),
        ("user", "What else?"),
        ("assistant", "Nothing."),
    )  # fmt: skip
    await bring(opened, tmp_path)
    assert await rows(opened, "SELECT count(*) FROM events WHERE content LIKE '%xylophagous%'") == [(1,)]
    await forget_events(opened, "xylophagous")
    assert await agents(opened, "SELECT * FROM agent_tool_calls") == []
    assert await agents(opened, "SELECT content FROM agent_messages ORDER BY position") == [
        ("What else?",), ("Nothing.",),
    ]  # fmt: skip


@pytest.mark.parametrize("is_undone", [False, True])
async def test_forgetting_a_tools_result_removes_it_from_the_turn_of_its_call(
    opened: Ledgers, tmp_path: Path, is_undone: bool
) -> None:
    """A result that came with a person's next message, or with a later import."""
    said: list[tuple[str, str | list[dict[str, Any]]]] = [
        ("user", "An earlier turn."),
        ("user", "Please look."),
        ("assistant", [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}]),
        ("user", [
            {"type": "text", "text": "Stop, xylophagous."},
            {"type": "tool_result", "tool_use_id": "c1", "content": "xylophagous.txt"},
        ]),
    ]  # fmt: skip
    add_session(tmp_path, *said[:-1])
    await bring(opened, tmp_path)
    add_session(tmp_path, *said)
    later = await bring(opened, tmp_path)
    assert await agents(opened, "SELECT result FROM agent_tool_calls") == [("xylophagous.txt",)]
    if is_undone:
        await forget_import(opened, later.id)
    else:
        await forget_events(opened, "xylophagous")
    assert "xylophagous" not in str(await everything(opened))
    assert await agents(opened, "SELECT content FROM agent_messages") == [("An earlier turn.",)]


async def test_half_a_surrogate_anywhere_in_a_session_does_not_stop_the_import(
    opened: Ledgers, tmp_path: Path
) -> None:
    add_session(
        tmp_path,
        ("user", "Please look."),
        ("assistant", [{"type": "tool_use", "id": "c\ud800", "name": "Ba\ud800sh", "input": {}}]),
        ("user", [{"type": "tool_result", "tool_use_id": "c\ud800", "content": "a\ud800b"}]),
        ("user", [{"type": "tool_result", "tool_use_id": "\ud800", "content": "of no call"}]),
        model="m\ud800",
    )  # fmt: skip
    await bring(opened, tmp_path)
    assert await agents(opened, "SELECT call_id, tool_name, result FROM agent_tool_calls") == [
        ("c\ufffd", "Ba\ufffdsh", "a\ufffdb")
    ]
    assert await agents(opened, "SELECT model FROM agent_sessions") == [("m\ufffd",)]


async def test_an_import_never_writes_into_a_session_of_our_own(opened: Ledgers, projects: Path) -> None:
    await opened.agents.write(sessions.ensure, label=_KETTLE, role="manager")
    await bring(opened, projects)
    await bring(opened, projects)
    assert await agents(
        opened,
        "SELECT s.label, s.source, count(m.id), p.label FROM agent_sessions AS s "
        "LEFT JOIN agent_messages AS m ON m.session_id = s.id "
        "LEFT JOIN agent_sessions AS p ON p.id = s.parent_session_id GROUP BY s.id ORDER BY s.label",
    ) == [
        (_KETTLE, "nexus", 0, None),
        (f"{_KETTLE}/a17bfe0", "claude-code", 2, f"{_KETTLE}~"),
        (f"{_KETTLE}~", "claude-code", 10, None),
    ]


def test_results_count_into_what_is_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_BATCH_BYTES", 10_000)
    long = [{"type": "tool_result", "tool_use_id": "c", "content": "y" * 5_000}]
    add_session(tmp_path, *[("user", [{"type": "text", "text": "x"}, *long])] * 20)
    source = ClaudeCode(history.open_source(tmp_path, history.Options()).files, history.Options())
    held = [len(chunk.session_messages) for chunk in importer.chunks(source, None)]
    assert sum(held) == 20
    assert max(held) <= 4


async def test_the_lists_of_sessions_leave_imported_ones_out(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    for kind in (None, "people", "workers", "automations", "runs"):
        assert (await listed_sessions.load_page(opened, kind=kind)).items == ()  # type: ignore[arg-type]
        assert (await listed_sessions.load_page(opened, kind=kind, matching="kettle")).items == ()  # type: ignore[arg-type]
    assert await opened.agents.read(sessions.newest_of_people, limit=10) == []
    found = (await listed_sessions.load_page(opened, kind="imported")).items
    assert [(each.source, each.title, each.turns) for each in found] == [
        ("claude-code", "The kettle boils over at 95 degrees. Find out why.", 2),
        ("claude-code", "List the tests of the heater.", 1),
    ]
    transcript = await listed_sessions.load_transcript(opened, found[0].id)
    assert [(each.role, each.content, len(each.calls)) for each in transcript.items[-2:]] == [
        ("user", "Fix it.", 0), ("assistant", "", 1),
    ]  # fmt: skip


async def test_nothing_continues_an_imported_session(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "codex")
    before = await everything(opened)
    for label, fork_of in ((_TEAPOT, None), ("main", _TEAPOT)):
        with pytest.raises(UsageError, match="imported from codex"):
            await opened.agents.write(sessions.ensure, label=label, role="manager", fork_of=fork_of)
    assert await everything(opened) == before


async def test_what_an_imported_tool_gave_is_nothing_that_our_own_have_shown(opened: Ledgers) -> None:
    await bring(opened, AGENT_SESSIONS / "claude-code")
    shown = await opened.agents.read(tool_calls.have_shown, tools=["Grep"], text="heater.py")
    assert not shown


async def _converse(ledgers: Ledgers, number: int) -> str:
    """A turn of this home that the memory writer was not asked about; returns its run."""
    run, request_id, label = f"exe_{number}", f"req_{number}", "main"
    request = Request(
        request_id=request_id,
        event=Event(id=None, content="Hello"),
        agent=Agent(role="manager", session_label=label),
    )
    await ledgers.runtime.write(requests.create, request=request)
    new = NewExecution(
        id=run,
        request_id=request_id,
        session_label=label,
        lane="chat",
        work="agent",
        mode="followup",
        input={},
    )
    await ledgers.runtime.write(executions.enqueue, execution=new)

    def talk(connection: apsw.Connection) -> None:
        turn = turns.begin(
            connection, session_label=label, execution_id=run, request_id=request_id, role="manager"
        )
        messages.append(connection, turn, 0, [NewMessage(role="user", content="Hello", parts_json=None)])
        turns.end(connection, turn.id, "done")

    await ledgers.agents.write(talk)
    await ledgers.runtime.write(executions.end, execution_id=run, status="done", result={})
    await ledgers.runtime.write(requests.end, request_id=request_id, status="done")
    return run


async def test_imported_turns_are_no_runs_to_recover_check_or_write(opened: Ledgers) -> None:
    await _converse(opened, 1)
    await opened.agents.write(
        lambda connection: connection.execute(
            "UPDATE agent_turns SET started_at = '2026-06-01T00:00:00.000Z'"
        )
    )
    newest = await _converse(opened, 2)
    await bring(opened, AGENT_SESSIONS / "claude-code")
    await bring(opened, AGENT_SESSIONS / "codex")
    home, before = opened.home, await everything(opened)
    with invariants.look(home) as look:
        assert [each for each in look.violations(before="9", strict=False) if each.subject != newest] == []
    await opened.close()
    repaired = reconcile(home)
    # Only a turn as new as the last one of this home may have been lost on its way to the memory writer.
    assert [run for _, run, _ in repaired.unwritten] == [newest]
    assert (repaired.runs, repaired.turns, repaired.calls, repaired.dangling) == (0, 0, 0, ())
    async with Ledgers(home, opened.settings) as again:
        assert await everything(again) == before
