"""The deep reader, switched on: it searches with the skill's scripts, and the worker gets what it found."""

from acceptance.agents import environment, finish
from apps import app_on, dispatching
from memory_writers import bash, facts, invocations, is_reflection, quiet, rows
from nexus.app import App
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn

TASK = "Write email to Sarah about project timeline"
FOUND = """<memory_context>
## Facts
- Project X is due on March 15 (2026-02-10)
</memory_context>"""
SEARCH = "skills/memory/memory-search.sh 'Sarah project timeline' --scope facts"
SIX = "sqlite3 -init \"$(sed -n 's/^attach=//p' skills/memory/DB_PATHS)\" :memory:"
LOG = f"{SIX} 'SELECT fact FROM relationships'"
WRITE = "skills/memory/memory-write.sh fact --fact 'planted'"
NOTE = "echo 'Sarah: see Project X' >> notes/people.md; echo planted >> ROLE.md; echo planted > planted.md"


def is_reader(request: ModelRequest) -> bool:
    return "Find in the memory" in str(request.json["messages"])


def switch_on(home: Home) -> None:
    done = finish(home, environment(None), "automations", "enable", "memory-reader")
    assert done.returncode == 0, done.stderr


async def taught(app: App) -> None:
    await app.memory.run(
        "entity", {"id": "sarah", "name": "Sarah Chen", "type": "Person", "alias": ["Sarah:name"]}
    )
    leads = {"source": "sarah", "type": "LEADS", "fact": "Sarah leads Project X, due on March 15"}
    await app.memory.run("relationship", leads)


async def test_a_worker_gets_what_the_reader_found_in_three_turns(home: Home, server: ModelServer) -> None:
    switch_on(home)
    server.when(is_reader).script(Turn("", [bash(f"{SEARCH}; {LOG}; {WRITE}; {NOTE}")]), FOUND)
    server.when(lambda r: TASK in r.last_user).script("Dear Sarah, March 15.")
    server.script(*dispatching(TASK, then="Sent."))
    async with app_on(home, server) as app:
        await taught(app)
        await (await app.send("tell her")).result()
        await quiet(app)
        (run,) = await invocations(app, "memory-reader")
        ((result,),) = await rows(
            app, "agents", "SELECT result FROM agent_tool_calls WHERE tool_name = 'bash'"
        )
        runs = dict(await rows(app, "runtime", "SELECT session_label, request_id FROM executions"))
        assert await facts(app) == ["Sarah leads Project X, due on March 15"]
    server.assert_exhausted()
    assert run["status"] == "done", run
    assert '"took_ms"' in str(result), "the search answered"
    assert "Sarah leads Project X, due on March 15" in str(result), "and so did SQL"
    assert "may read the memory and not write it" in str(result)
    (worker_session,) = [label for label in runs if label.startswith("worker:")]
    assert runs[f"meeseeks:memory-reader:{worker_session}"] == runs[worker_session], "of the worker's request"
    folder = home.meeseeks / "memory-reader"
    assert (folder / "notes/people.md").read_text() == "Sarah: see Project X\n"
    assert str(result).count("Read-only file system") == 2, "it writes its notes, and nothing else"
    assert "planted" not in (folder / "ROLE.md").read_text()
    assert not (folder / "planted.md").exists()
    (worker,) = [each.last_user for each in server.requests if each.last_user.endswith(TASK)]
    assert (
        "<memory_context>\n## Facts\n- Project X is due on March 15 (2026-02-10)\n</memory_context>" in worker
    )


async def test_a_reader_that_does_not_come_to_an_end_costs_the_worker_nothing_but_time(
    home: Home, server: ModelServer
) -> None:
    """Three turns are all it has; it is flagged, and reflects on that."""
    switch_on(home)
    server.when(is_reflection).script("Nothing learned")
    server.when(is_reader).always(Turn("", [bash("true")]))
    server.when(lambda r: r.last_user.endswith(TASK)).script("Dear Sarah, soon.")
    server.script(*dispatching(TASK, then="Sent."))
    async with app_on(home, server) as app:
        await taught(app)
        answer = await (await app.send("tell her")).result()
        await quiet(app)
        (run,) = await invocations(app, "memory-reader")
    assert answer.response.content == "Sent."
    assert run["status"] == "flagged"
    assert "goes on without memories" in run["error"]
    assert len([each for each in server.requests if is_reader(each)]) == 3
