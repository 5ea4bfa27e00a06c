"""Agents see nothing of the home that was not granted by name, and no result of a tool shows its token."""

from dataclasses import replace

from apps import granted, settings
from memory_writers import bash, rows
from nexus.cli import doctor
from nexus.config import ToolsConfig
from nexus.home import Home
from nexus.testing import ModelServer, Turn


async def test_a_grant_above_the_home_shows_nothing_of_it(home: Home, server: ModelServer) -> None:
    (home.root.parent / "notes").write_text("seen\n")
    mine = home.meeseeks / "mine"
    mine.mkdir()
    look = f"cat {home.root.parent}/notes; cd {home.root}; find . -mindepth 1; cat token; touch new"
    server.script(Turn("", [bash(look)]), "Done.")
    async with granted(home, server, str(home.root.parent), str(home.root), str(mine)) as app:
        await (await app.send("Look around.")).result()
        ((shown,),) = await rows(app, "agents", "SELECT result FROM agent_tool_calls")

    seen, _, errors = shown.partition("[standard error]")
    assert seen.split() == ["seen", "./state", "./state/meeseeks", "./state/meeseeks/mine"]
    assert "token: No such file" in errors
    assert "Read-only file system" in errors


async def test_no_result_of_a_tool_shows_the_token(home: Home, server: ModelServer) -> None:
    token = home.token()
    folder = home.root.parent / "granted"
    folder.mkdir()
    (folder / "copied").write_text(f"before {token} after")
    server.script(Turn("", [bash("cat copied; cat copied >&2")]), "Done.")
    async with granted(home, server, str(folder)) as app:
        await (await app.send("Read it.")).result()
        ((shown,),) = await rows(app, "agents", "SELECT result FROM agent_tool_calls")

    assert shown.count("before ") == shown.count(" after") == 2
    assert token not in shown


def test_the_doctor_warns_of_a_grant_that_holds_the_home(home: Home, server: ModelServer) -> None:
    above, beside = str(home.root.parent), str(home.root.parent / "beside")
    config = replace(settings(server), tools=ToolsConfig(directories=(above, beside)))

    (found,) = doctor.check_grants(home, config)

    assert (found.level, above in found.message) == ("warning", True)
