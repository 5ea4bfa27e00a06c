"""The memory writer: a conversation, and what the memory holds afterwards. Only the model is scripted."""

import asyncio
import json
import subprocess

from acceptance.agents import environment, finish, kill_when
from acceptance.agents import rows as rows_of
from acceptance.program import start_program
from acceptance.test_automations import chatting, until
from apps import app_on, dispatching, send
from memory_writers import bash, batch, invocations, is_reflection, is_writer, quiet, rows, writing
from nexus.app import App
from nexus.home import Home
from nexus.ledgers.runtime import automations
from nexus.testing import Hold, ModelServer, Turn, failures

SARAH = {"operation": "entity", "id": "sarah", "name": "Sarah Chen", "type": "Person"}
LEADS = {
    "operation": "relationship",
    "source": "sarah",
    "type": "LEADS",
    "fact": "Sarah Chen leads Project X",
    "source_type": "self_disclosed",
}
_OWN = "automation_id IN (SELECT id FROM automations WHERE name = 'memory-writer')"
_LOG = "SELECT target_type, target_id, status FROM processing_log WHERE processor = 'memory-writer'"


async def say(app: App, text: str) -> str:
    """Say something, and wait until the writer is done with it too; returns the request."""
    result = await (await app.send(text)).result()
    await quiet(app)
    return result.request_id


async def run_of(app: App, request: str) -> str:
    """The run that answered a request in its own session."""
    query = "SELECT id FROM executions WHERE request_id = ? AND session_label NOT LIKE 'meeseeks:%'"
    ((id_,),) = await rows(app, "runtime", query, request)
    return str(id_)


def configure(home: Home, **config: object) -> None:
    """Change the writer's own settings, as a person does."""
    given = ("--config", json.dumps(config))
    done = finish(home, environment(None), "automations", "register", "memory-writer", *given)
    assert done.returncode == 0, done.stderr


async def test_a_new_person_is_remembered_with_where_that_comes_from(home: Home, server: ModelServer) -> None:
    server.when(is_writer).script(batch(SARAH, LEADS), "Wrote down Sarah Chen.")
    server.script("Noted.")
    async with writing(home, server) as app:
        request = await say(app, "My colleague Sarah Chen leads Project X now.")
        learned = await rows(
            app, "memory", "SELECT fact, source_type, source_event_id, source_request_id FROM facts"
        )
        (asked,), (answer,) = await rows(app, "events", "SELECT id FROM events ORDER BY seq")
        (run,) = await invocations(app)
        log = await rows(app, "memory", _LOG)
        ran = await run_of(app, request)
        roots = await rows(app, "runtime", "SELECT DISTINCT root_request_id, role FROM usage ORDER BY role")
    server.assert_exhausted()
    # Who said it is taken from the ledger: she did not say it about herself.
    assert learned == [("Sarah Chen leads Project X", "mentioned", asked, request)]
    assert (run["status"], run["written"]) == ("done", {"entity": 1, "relationship": 1})
    assert set(log) == {("event", asked, "done"), ("event", answer, "done"), ("execution", ran, "done")}
    assert roots == [(request, "manager"), (request, "writer")]
    assert not list((home.run / "memory-writer").iterdir()), "its desk is cleared"


async def test_a_turn_full_of_names_that_taught_nothing_is_flagged(home: Home, server: ModelServer) -> None:
    """And only that one; after the other the writer reflects, and leaves word for its peer."""
    note = {"edits": [{"file": "NOTES_FOR_READER.md", "content": "# Notes\nSarah's projects are thin.\n"}]}
    server.when(is_reflection).script(json.dumps(note))
    server.when(is_writer).script("Nothing to remember", "Nothing to remember")
    server.script("Noted.", "You are welcome.")
    configure(home, reflect_every=1)
    async with writing(home, server) as app:
        request = await say(app, "My colleague Sarah Chen leads Project X now.")
        thanked = await say(app, "Thank you!")
        await server.until(lambda: len(server.exchanges) == 5, 60_000)
        await quiet(app)
        first, second = await invocations(app)
        log = await rows(app, "memory", f"{_LOG} AND target_type = 'execution'")
        flagged, done = await run_of(app, request), await run_of(app, thanked)
    server.assert_exhausted()
    assert (first["status"], second["status"]) == ("flagged", "done")
    assert first["error"] == "wrote nothing from a turn that names Sarah Chen, Project X"
    assert set(log) == {("execution", flagged, "flagged"), ("execution", done, "done")}
    told = finish(home, environment(None), "automations", "logs", "memory-writer").stdout
    assert "flagged: wrote nothing" in told
    assert "flagged" in finish(home, environment(None), "trace", request).stdout
    noted = home.meeseeks / "memory-writer" / "NOTES_FOR_READER.md"
    assert noted.read_text() == "# Notes\nSarah's projects are thin.\n"


async def test_what_was_written_before_a_crash_counts_when_the_run_is_repeated(
    home: Home, server: ModelServer
) -> None:
    server.when(is_writer).script(batch(LEADS | {"source": "Sarah Chen"}), "Wrote it down.")
    server.when(is_reflection).always("Nothing learned")
    server.script("Noted.")
    again = "UPDATE invocations SET status = 'running', ended_at = NULL, result_json = NULL WHERE id = ?"
    async with writing(home, server) as app:
        await app.memory.run("entity", {"name": "Sarah Chen"})
        await app.memory.run("entity", {"name": "Project X"})
        await say(app, "My colleague Sarah Chen leads Project X with Bob Miller.")
        ((id_, status),) = await rows(app, "runtime", f"SELECT id, status FROM invocations WHERE {_OWN}")
        assert status == "done"
        # As if the process had died between the writer's last word and its marks.
        await app.ledgers.memory.write(lambda c: c.execute("DELETE FROM processing_log") and None)
        await app.ledgers.runtime.write(lambda c: c.execute(again, (id_,)) and None)
        await app.automations.runner.run_queued(id_)
        await quiet(app)
        (run,) = await invocations(app)
        learned = await rows(app, "memory", "SELECT fact FROM facts")
    assert (run["status"], learned) == ("done", [("Sarah Chen leads Project X",)])


async def test_without_a_model_of_its_own_it_is_off_and_says_why(home: Home, server: ModelServer) -> None:
    server.script("Noted.")
    async with app_on(home, server) as app:
        await say(app, "My colleague Sarah Chen leads Project X now.")
        assert await invocations(app) == []
    server.assert_exhausted()
    listed = finish(home, environment(None), "automations", "list").stdout
    (line,) = [line for line in listed.splitlines() if line.startswith("memory-writer ")]
    assert "off: no model set" in line
    with_model = environment(None, NEXUS_MODELS_WRITER="test/large", NEXUS_MEMORY_WRITER="code")
    listed = finish(home, with_model, "automations", "list", "--json").stdout
    states = {each["name"]: each["state"] for each in json.loads(listed)}
    assert states["memory-writer"] == "active"


async def test_a_turn_that_it_failed_on_is_due_again_with_the_next(home: Home, server: ModelServer) -> None:
    tea = {"operation": "fact", "fact": "The owner likes green tea"}
    server.when(is_reflection).always("Nothing learned")
    server.when(is_writer).script(failures.server_error())
    server.script("Noted.", "Noted, too.")
    async with writing(home, server) as app:
        first = await say(app, "I like green tea.")
        (asked,) = (await rows(app, "events", "SELECT id FROM events"))[0]
        server.when(is_writer).script(batch({**tea, "event": asked}), "Done.")
        second = await say(app, "And coffee in the morning.")
        ran = await invocations(app)
        learned = await rows(app, "memory", "SELECT fact, source_event_id FROM facts")
        log = await rows(app, "memory", f"{_LOG} AND target_type = 'execution'")
        both = {("execution", await run_of(app, request), "done") for request in (first, second)}
    assert [run["status"] for run in ran] == ["failed", "done"]
    assert ran[1]["turns"] == 2
    assert learned == [(tea["fact"], asked)], "to the message that says it"
    assert set(log) == both


async def test_turns_missed_in_an_outage_are_written_after_it(home: Home, server: ModelServer) -> None:
    """Also those for which the circuit was open, and more than one run takes."""
    tea = {"operation": "fact", "fact": "The owner likes green tea"}
    cooled_down = "UPDATE automations SET circuit_opened_at = '2026-01-01T00:00:00.000Z'"
    server.when(is_reflection).always("Nothing learned")
    outage = server.when(is_writer).always(failures.server_error())
    server.when(lambda r: not is_writer(r)).always("Noted.")
    async with writing(home, server) as app:
        said = [await say(app, f"I like green tea, number {number}") for number in range(7)]
        statuses = {run["status"] for run in await invocations(app)}
        assert statuses == {"failed", "skipped"}
        assert await app.missed_turns.sweep() == 0, "its circuit is open"
        outage.always(lambda r: Turn("Done.") if "tool_result" in str(r.json["messages"][-1]) else batch(tea))
        await app.ledgers.runtime.write(lambda c: c.execute(cooled_down) and None)
        await app.automations.runner.registry.read()
        for _ in range(2):
            assert await app.missed_turns.sweep() > 0
            await quiet(app)
        assert await app.missed_turns.sweep() == 0, "nothing is left"
        log = await rows(app, "memory", f"{_LOG} AND target_type = 'execution'")
        learned = await rows(app, "memory", "SELECT fact FROM facts")
        every = {("execution", await run_of(app, request), "done") for request in said}
    assert set(log) == every
    assert learned == [(tea["fact"],)] * 2


async def test_it_can_work_on_every_second_turn(home: Home, server: ModelServer) -> None:
    server.when(is_writer).script("Nothing to remember")
    server.script("One", "Two", "Three")
    configure(home, frequency="every_n_turns", n=2)
    async with writing(home, server) as app:
        for text in ("hello", "how are you?", "fine"):
            await say(app, text)
        ran = await invocations(app)
    server.assert_exhausted()
    assert [run.get("waits") or run["turns"] for run in ran] == ["1 of 2 turns", 2, "1 of 2 turns"]


async def test_before_compaction_it_works_when_the_conversation_is_nearly_too_long(
    home: Home, server: ModelServer
) -> None:
    server.when(is_writer).script("Nothing to remember")
    server.script("Short", Turn(" ".join(f"word{number}" for number in range(4_000))))
    configure(home, frequency="before_compaction")
    async with writing(home, server, context_tokens=12_000) as app:
        await say(app, "hello")
        await say(app, "tell me more")
        ran = await invocations(app)
    server.assert_exhausted()
    assert "tokens" in ran[0]["waits"], ran
    assert ran[1]["turns"] == 2


async def test_a_workers_turn_is_written_from_what_its_tools_found(home: Home, server: ModelServer) -> None:
    """An agent gave the task. What was said at its root is for the writer of that turn."""
    said = {"operation": "fact", "fact": "The owner plans the trip to Bern"}
    found = {"operation": "fact", "fact": "The early train to Bern leaves at six"}
    made_up = {"operation": "fact", "fact": "Bicycles ride for free"}
    server.when(lambda r: is_writer(r) and "An agent gave this task" in str(r.json)).script(
        batch(said), batch(found), batch(made_up), "Done."
    )
    server.when(is_writer).script("Nothing to remember")
    server.when(last_user="Find a train").script(
        Turn("", [bash("echo The early train to Bern leaves at six.")]), "At six. Bicycles ride for free."
    )
    server.when(lambda r: "plan the trip" in str(r.json)).script(*dispatching("Find a train", then="At six"))
    async with writing(home, server) as app:
        await say(app, "plan the trip to Bern")
        learned = await rows(
            app, "memory", "SELECT fact, source_type, source_event_id, metadata_json FROM facts"
        )
        ran = await invocations(app)
        ((asked,), *_) = await rows(app, "events", "SELECT id FROM events ORDER BY seq")
    server.assert_exhausted()
    assert sorted(run["status"] for run in ran) == ["done", "done"]
    assert [row[:3] for row in learned] == [(found["fact"], "observed", asked)]
    assert json.loads(learned[0][3]) == {"speaker": "tool:bash", "speaker_id": None}


async def test_the_seeded_role_is_the_programs_and_an_edited_one_stays(
    home: Home, server: ModelServer
) -> None:
    async with app_on(home, server):
        pass
    role = home.meeseeks / "memory-writer" / "ROLE.md"
    seeded = role.read_text()
    assert seeded.startswith("# Memory writer")
    role.write_text("# Mine\n")
    async with app_on(home, server) as app:
        row = await app.ledgers.runtime.read(automations.get, name="memory-writer")
    assert row is not None
    assert (row.hook_point, row.blocking, row.timeout_ms, row.self_improvement) == (
        "after:runAgent",
        False,
        300_000,
        True,
    )
    assert role.read_text() == "# Mine\n"


def test_two_rapid_turns_are_written_one_after_the_other(home: Home, server: ModelServer) -> None:
    """With the real program: the second writer waits behind the first, each sees its own turn as the last."""
    server.when(is_writer).always("Nothing to remember")
    server.when(is_reflection).always("Nothing learned")
    server.script("One", "Two")
    ended = "SELECT count(*) FROM invocations WHERE status = 'flagged'"
    with chatting(home, server, NEXUS_MODELS_WRITER="test/large", NEXUS_MEMORY_WRITER="code") as chat:
        chat.write("I met Ada Lovelace and Bob Miller\nand Carl Gauss with Emmy Noether\n")
        chat.flush()
        until(lambda: rows_of(home, "runtime", ended) == [(2,)])
    times = f"SELECT started_at, ended_at FROM invocations WHERE {_OWN} ORDER BY id"
    (_, first_end), (second_start, _) = rows_of(home, "runtime", times)
    assert first_end <= second_start
    first, second = [str(each.json["messages"]) for each in server.requests if is_writer(each)]
    assert ("Emmy Noether" in first, "Emmy Noether" in second) == (False, True)


def test_a_writer_that_is_killed_goes_on_where_the_home_is_next_served(
    home: Home, server: ModelServer
) -> None:
    env = environment(server, NEXUS_MODELS_WRITER="test/large", NEXUS_MEMORY_WRITER="code")
    held = server.when(is_writer).script(Turn("Let me see.", faults=[Hold(gate="writing")]))
    server.script("Noted.")
    words, quiet_ = ("--home", str(home.root), "chat"), subprocess.DEVNULL
    process = start_program(*words, env=env, stdin=subprocess.PIPE, stdout=quiet_, stderr=quiet_)
    assert process.stdin is not None
    process.stdin.write("My colleague Sarah Chen leads Project X now.\n")
    process.stdin.flush()
    kill_when(server, process, lambda: server.gate("writing").waiting)
    held.script(batch(SARAH, LEADS), "Wrote down Sarah Chen.")
    with chatting(home, server, NEXUS_MODELS_WRITER="test/large", NEXUS_MEMORY_WRITER="code"):
        until(lambda: rows_of(home, "runtime", f"SELECT status FROM invocations WHERE {_OWN}") == [("done",)])
    assert rows_of(home, "memory", "SELECT fact FROM facts") == [("Sarah Chen leads Project X",)]
    runs = "SELECT count(*) FROM executions WHERE session_label LIKE 'meeseeks:memory-writer:%'"
    assert rows_of(home, "runtime", runs) == [(1,)]


async def test_a_turn_that_a_late_worker_result_came_into_is_written(home: Home, server: ModelServer) -> None:
    """The result belongs to an earlier request, whose own turn was written long ago."""
    said = "My colleague Sarah Chen leads Project X now."
    server.when(lambda r: is_writer(r) and said in str(r.json["messages"])).script(
        batch(SARAH, LEADS), "Wrote it."
    )
    server.when(is_writer).always("Nothing to remember")
    server.when(last_user="Find a train").script(Turn("The 9:15", faults=[Hold(gate="train")]))
    server.when(lambda r: said not in str(r.json)).script(
        Turn("", [send("dispatch", text="Find a train")]), "I asked somebody."
    )
    slow = Turn("", [send("status")], faults=[Hold(gate="slow")])
    server.script(slow, lambda r: Turn("Noted." if "The 9:15" in str(r.json) else "Nothing came."))
    async with writing(home, server) as app:
        first = await (await app.send("How do I get there?")).result()
        run = await app.send(said)
        await server.until(lambda: server.gate("slow").waiting, 60_000)
        server.gate("train").open()
        while not await rows(app, "runtime", "SELECT 1 FROM executions WHERE mode = 'steer'"):
            await asyncio.sleep(0.02)
        server.gate("slow").open()
        second = await run.result()
        await quiet(app)
        marked = {id_ for _, id_, _ in await rows(app, "memory", f"{_LOG} AND target_type = 'execution'")}
        learned = await rows(app, "memory", "SELECT fact, source_request_id FROM facts")
        asked = await rows(app, "runtime", "SELECT DISTINCT status FROM requests")
    assert second.response.content == "Noted."
    assert {first.execution_id, second.execution_id} <= marked
    assert learned == [(LEADS["fact"], second.request_id)]
    assert asked == [("done",)]
