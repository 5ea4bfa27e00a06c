"""What can be done on the pages: merges, automations, versions."""

import re
from pathlib import Path

import httpx

from nexus.app import App
from nexus.automations.workspace import History
from nexus.gateway.guard import Keys
from nexus.gateway.views import automations
from nexus.memory.views import entities
from unit.gateway.scene import SCRIPT, Scene


async def test_two_entities_become_one_and_are_taken_apart_again(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await scene.remember("entity", id="one", name="Sarah Chen", type="Person")
    await scene.remember("entity", id="two", name="Sara Chen", type="Person")
    page = (await client.get("/memory/merges")).text
    assert "Merge" in page
    done = await client.post("/memory/merges/accept", data={"source": "two", "target": "one"})
    assert done.status_code == 303
    assert done.headers["location"] == "/memory/entities/one"
    assert (await entities.get(scene.ledgers, "two")).id == "one"
    await client.post("/memory/merges/undo", data={"entity": "two"})
    assert (await entities.get(scene.ledgers, "two")).id == "two"


async def test_a_pair_that_was_rejected_is_not_proposed_any_more(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await scene.remember("entity", id="one", name="Sarah Chen", type="Person")
    await scene.remember("entity", id="two", name="Sara Chen", type="Person")
    (pair,) = await entities.load_candidates(scene.ledgers)
    await client.post("/memory/merges/reject", data={"candidate": pair.id})
    assert await entities.load_candidates(scene.ledgers) == ()


async def test_an_automation_is_disabled_and_enabled(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    await scene.automation(tmp_path, "greeter")
    await client.post("/automations/greeter/disable", data={"reason": "too loud"})
    view = await automations.get(scene.ledgers, "greeter")
    assert view.condition.text == "disabled: too loud"
    await client.post("/automations/greeter/enable")
    assert (await automations.get(scene.ledgers, "greeter")).condition.text == "active"


async def test_an_older_version_comes_back_as_a_new_one(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    await scene.automation(tmp_path, "greeter")
    await scene.automation(tmp_path, "greeter", SCRIPT.replace("{}", "None"))
    shown = (await client.get("/automations/greeter/versions/1/2")).text
    assert '<span class="cut">-    return {}</span>' in shown
    await client.post("/automations/greeter/rollback", data={"version": "1"})
    view = await automations.get(scene.ledgers, "greeter")
    assert (view.automation.version, view.script) == (3, SCRIPT)


async def test_a_lesson_is_shown_with_its_diff_and_undone(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    place = scene.ledgers.home.meeseeks / "greeter"
    await scene.automation(tmp_path, "greeter", workspace_dir=f"{place}/")
    history, skills = History(place), place / "SKILLS.md"
    history.commit("Seeded")
    before = skills.read_text()
    skills.write_text(f"{before}Shout at everybody.\n")
    commit = history.commit("greeter learned something")
    shown = (await client.get(f"/automations/greeter/changes/{commit}")).text
    assert '<span class="add">+Shout at everybody.</span>' in shown
    assert f'action="/automations/greeter/changes/{commit}/undo"' in shown
    done = await client.post(f"/automations/greeter/changes/{commit}/undo")
    assert done.headers["location"] == "/automations/greeter"
    assert skills.read_text() == before


async def test_a_role_becomes_a_script_a_workspace_and_a_row(client: httpx.AsyncClient, app: App) -> None:
    said = {
        "name": "note-keeper",
        "role": "# Notes\r\n\r\nKeep a note of what was agreed.\r\n",
        "hook_point": "after:runAgent",
        "blocking": "no",
        "description": "Keeps notes",
    }
    done = await client.post("/automations/new", data=said)
    assert done.headers["location"] == "/automations/note-keeper"
    view = await automations.get(app.ledgers, "note-keeper")
    assert (view.condition.text, view.automation.blocking) == ("active", False)
    role = (app.home.meeseeks / "note-keeper" / "ROLE.md").read_text()
    assert role == "# Notes\n\nKeep a note of what was agreed.\n"
    assert view.script is not None
    assert "start_execution" in view.script


async def test_a_form_that_cannot_be_used_is_shown_again_with_what_was_typed(
    client: httpx.AsyncClient,
) -> None:
    said = {"name": "bad name", "role": "A long text", "hook_point": "finalize", "blocking": "yes"}
    answer = await client.post("/automations/new", data=said)
    assert answer.status_code == 409
    assert "Invalid automation name" in answer.text
    assert "A long text" in answer.text
    assert re.search(r'value="finalize" required checked', answer.text)


async def test_a_browser_logs_out_and_all_others_too(client: httpx.AsyncClient, keys: Keys) -> None:
    mine, other = keys.browsers.add(), keys.browsers.add()
    assert "2 browsers" in (await client.get("/settings")).text
    done = await client.post("/logout", headers={"cookie": f"{keys.cookie}={mine}"})
    assert "Logged out" in done.text
    assert f'{keys.cookie}=""' in done.headers["set-cookie"]
    assert (keys.browsers.knows(mine), keys.browsers.knows(other)) == (False, True)
    done = await client.post("/logout", data={"everywhere": "yes"})
    assert "All browsers logged out" in done.text
    assert not keys.browsers.knows(other)


async def test_the_owners_profile_is_edited_and_built_again(client: httpx.AsyncClient, scene: Scene) -> None:
    assert "Your profile is empty" in (await client.get("/memory/profile")).text
    done = await client.post("/memory/profile", data={"content": "I am Mona.\r\nI eat no meat."})
    assert (done.status_code, done.headers["location"]) == (303, "/memory/profile")
    page = (await client.get("/memory/profile")).text
    assert "<li>I eat no meat.</li>" in page
    assert "your edit" in page
    too_long = await client.post("/memory/profile", data={"content": "word " * 400})
    assert "longer than 300 tokens" in too_long.text
    await client.post("/memory/profile/reset")
    assert "<li>I eat no meat.</li>" not in (await client.get("/memory/profile")).text
