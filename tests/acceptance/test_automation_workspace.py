"""A workspace is a grant: an automation's agent reads and writes it, and uses the memory from there."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from acceptance.program import nexus
from apps import app_on
from automating import ended, let_in, register, runs, said_by
from memory_writers import rows
from nexus.automations.workspace import History
from nexus.home import Home
from nexus.memory.recall.item import Query
from nexus.testing import ModelRequest, ModelServer, ToolCall, Turn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program for Linux")

ASKS = """
async def run(ctx):
    assembled = await ctx.assemble_context(session_label=f"meeseeks:{ctx.automation.name}", task="Tidy up.")
    assembled.role_context = ctx.workspace.role
    result = await (await ctx.start_execution(assembled)).result()
    return {"enrich": {"tidied": result.response.content}}
"""
COUNT = (
    """sqlite3 -init "$(sed -n 's/^attach=//p' skills/memory/DB_PATHS)" :memory: """
    "'SELECT count(*) FROM facts'"
)


def bash(*commands: str) -> Turn:
    return Turn("", [ToolCall("bash", {"command": "; ".join(commands)})])


def results(server: ModelServer) -> str:
    """Everything that tools gave to agents."""
    return "\n".join(json.dumps(each.json["messages"]) for each in server.requests)


def is_agent(request: ModelRequest) -> bool:
    return "Tidy up." in str(request.json["messages"])


async def test_an_agent_reads_and_writes_its_workspace_and_its_peers(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(
            bash(
                "cat ROLE.md", "echo 'Sort by date.' >> SKILLS.md", f"echo hi > {home.meeseeks}/cook/NOTE.md"
            ),
            "Tidied.",
        )
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "cook", "def run(ctx): pass", tmp_path, workspace=True, hook_point="finalize")
            await register(app, "tidy", ASKS, tmp_path, role="You tidy.", peers=["cook"])
            await (await app.send("Hello")).result()
            [run] = await ended(app, "tidy")
        assert (run.status, run.result) == ("done", {"enrich": {"tidied": "Tidied."}}), run.error
        assert "You tidy." in results(server)
    assert (home.meeseeks / "tidy" / "SKILLS.md").read_text() == "# Skills\nSort by date.\n"
    assert (home.meeseeks / "cook" / "NOTE.md").read_text() == "hi\n"
    assert "tidy at runAutomations" in History(home.meeseeks / "tidy").changes()[0].message
    assert str(home.meeseeks / "tidy") in server.requests[0].last_user, "it is told where its workspace is"


async def test_the_memory_is_searched_and_written_from_the_workspace(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(
            bash(
                "skills/memory/memory-search.sh 'Who grows tomatoes?'",
                "skills/memory/memory-write.sh fact --about ann --fact 'Ann sells basil'",
                "echo '-- by month' >> skills/memory/QUERIES.md",
            ),
            "Tidied.",
        )
        server.always("Fine.")
        async with app_on(home, server) as app:
            await app.memory.run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})
            await register(app, "tidy", ASKS, tmp_path, workspace=True)
            heard = await app.receive("Hello")
            await heard.run.result()
            written = await rows(
                app, "memory", "SELECT fact, confidence, source_request_id FROM facts ORDER BY seq"
            )
        assert "Ann grows tomatoes" in results(server)
    assert written[1] == ("Ann sells basil", 0.8, heard.request_id)
    assert (home.meeseeks / "tidy/skills/memory/QUERIES.md").read_text().endswith("-- by month\n")
    assert not list((home.run / "tidy").glob("*")), "the socket is gone with its run"


def concludes(request: ModelRequest) -> Turn:
    """Saves what it concludes from the fact that its search found, and looks at it."""
    fact = re.findall(r"fact_\w+", request.tool_results[-1])[-1]
    return bash(
        "skills/memory/memory-write.sh mental-model --name 'Ann and gardens' "
        f"--question 'What does Ann grow?' --content 'Ann grows tomatoes [{fact}].'",
        "skills/memory/memory-models.sh Ann and gardens",
    )


async def test_an_agent_concludes_a_mental_model_that_everybody_finds(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(
            bash(
                "cat skills/memory-reflect/SKILL.md",
                "skills/memory/memory-models.sh",
                "skills/memory/memory-search.sh 'Who grows tomatoes?' --scope facts",
            ),
            concludes,
            "Tidied.",
        )
        server.always("Fine.")
        async with app_on(home, server) as app:
            fact = await app.memory.run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})
            await register(app, "tidy", ASKS, tmp_path, workspace=True)
            heard = await app.receive("Hello")
            await heard.run.result()
            query = Query(text="What does Ann grow in gardens?", kinds=frozenset({"mental_model"}))
            recalled = await (await app.open_recall()).find(query)
        assert "reflect(question=" in results(server), "every workspace has the skill"

    [found] = [result.item for result in recalled.results]
    shown = await asyncio.to_thread(nexus, home.root, "memory", "mental-models", "--json", "Ann and gardens")
    kept = json.loads(shown.stdout)
    assert kept["id"] == found.id
    assert (kept["content"], kept["author"]) == (f"Ann grows tomatoes [{fact['id']}].", "tidy")
    assert (kept["source_request_id"], kept["question"]) == (heard.request_id, "What does Ann grow?")
    assert [each["id"] for each in kept["sources"]] == [fact["id"]]
    listed = await asyncio.to_thread(nexus, home.root, "memory", "mental-models")
    assert re.search(r"Ann and gardens +What does Ann grow\? +tidy +1", listed.stdout), listed.stdout
    searched = await asyncio.to_thread(
        nexus, home.root, "memory", "search", "Ann gardens", "--scope", "mental_models"
    )
    assert [each["id"] for each in json.loads(searched.stdout)["results"]] == [found.id]


@pytest.mark.parametrize("declared", [True, False])
async def test_ledgers_are_read_where_the_registration_says_so(
    home: Home, tmp_path: Path, declared: bool
) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(bash(COUNT, f"echo x >> {home.ledger('memory')}"), "Tidied.")
        server.always("Fine.")
        async with app_on(home, server) as app:
            await app.memory.run("fact", {"about": "ann", "fact": "Ann grows tomatoes"})
            await register(app, "tidy", ASKS, tmp_path, workspace=True, config={"ledgers": declared})
            await (await app.send("Hello")).result()
            before = await rows(app, "memory", "PRAGMA integrity_check")
        assert before == [("ok",)]
        [told] = [each for each in server.requests if "[standard error]" in str(each.json["messages"])][:1]
        result = str(told.json["messages"][-1])
    assert ("1\\n" in result) is declared
    assert ("--ledgers" in result) is not declared
    assert (
        "Read-only file system" in result
        if declared
        else "unable to open" in result or "No such file" in result
    )


async def test_what_somebody_else_says_reaches_no_workspace(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(bash("cat ROLE.md; echo evil >> SKILLS.md"), "Tidied.")
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "tidy", ASKS, tmp_path, role="You tidy.")
            with pytest.raises(Exception, match="denied"):
                await app.accept(said_by("eve", "Hello"))
            await let_in(app, "eve", tools=("bash",))
            await (await app.accept(said_by("eve", "Hello"))).run.result()
            assert len(await runs(app, "tidy")) == 1
        assert "You tidy." not in str([each.json["messages"][-1] for each in server.requests[1:2]])
    assert (home.meeseeks / "tidy" / "SKILLS.md").read_text() == "# Skills\n"


async def test_an_agent_cannot_redirect_the_history_of_its_workspace(home: Home, tmp_path: Path) -> None:
    with ModelServer() as server:
        server.when(is_agent).script(bash("echo 'gitdir: /tmp/evil' > .git"), "Tidied.")
        server.always("Fine.")
        async with app_on(home, server) as app:
            await register(app, "tidy", ASKS, tmp_path, workspace=True)
            await (await app.send("Hello")).result()
    assert History(home.meeseeks / "tidy").points_here()
