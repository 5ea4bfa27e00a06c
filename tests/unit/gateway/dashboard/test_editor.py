"""Automations written in the browser: versions, what may not be edited, and trials without effects."""

import asyncio
import re
from pathlib import Path

import httpx

from nexus.app import App
from nexus.automations import changes, registration
from nexus.gateway.views import automations
from nexus.ledgers.runtime.automations import NewAutomation
from unit.gateway.scene import SCRIPT, Scene

SAYS = 'async def run(ctx):\n    return {"log": {"heard": ctx.request.event.content}}\n'


def _form(**given: str) -> dict[str, str]:
    return {"source": SCRIPT, "hook_point": "runAutomations", "blocking": "yes", "retries": "0", **given}


async def _names(scene: Scene) -> set[str]:
    places = await automations.list_by_hook_point(scene.ledgers)
    return {line.automation.name for place in places for line in place.automations}


async def test_a_script_is_written_and_runs_by_words(client: httpx.AsyncClient, scene: Scene) -> None:
    given = _form(name="morning", source=SAYS, hook_point="schedule", schedule="every weekday at 7:30")
    done = await client.post("/automations/new/script", data=given)
    assert done.headers["location"] == "/automations/morning"
    view = await automations.get(scene.ledgers, "morning")
    assert view.automation.triggers["cron"] == "30 7 * * 1-5"
    assert (view.automation.hook_point, view.automation.blocking) == ("schedule", False)
    assert view.script == SAYS
    listed = (await client.get("/automations")).text
    assert "On a schedule" in listed
    assert "every weekday at 07:30" in listed


async def test_what_is_refused_leaves_the_text_in_the_form(client: httpx.AsyncClient, scene: Scene) -> None:
    before = await _names(scene)
    broken = await client.post("/automations/new/script", data=_form(name="new", source="def run(:"))
    assert broken.status_code >= 400
    assert "not valid Python" in broken.text
    assert "def run(:" in broken.text
    never = await client.post("/automations/new/script", data=_form(name="new", hook_point="schedule"))
    assert "A schedule is missing" in never.text
    assert await _names(scene) == before


async def test_an_edit_is_a_version_and_what_is_disabled_stays_so(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    await scene.automation(tmp_path, "greeter", description="Greets", config={"own": 1})
    await client.post("/automations/greeter/disable", data={"reason": "too loud"})
    page = (await client.get("/automations/greeter/edit")).text
    assert "stays so" in page
    await client.post("/automations/greeter/edit", data=_form(source=SAYS, version="1", description="Greets"))
    view = await automations.get(scene.ledgers, "greeter")
    assert (view.automation.version, view.script, view.automation.config["own"]) == (2, SAYS, 1)
    assert view.condition.text == "disabled: too loud"
    late = await client.post("/automations/greeter/edit", data=_form(version="1"))
    assert "changed meanwhile" in late.text
    assert (await automations.get(scene.ledgers, "greeter")).automation.version == 2
    await client.post("/automations/greeter/rollback", data={"version": "1"})
    assert (await automations.get(scene.ledgers, "greeter")).script == SCRIPT


async def test_the_file_on_disk_is_what_is_edited(
    client: httpx.AsyncClient, app: App, scene: Scene, tmp_path: Path
) -> None:
    made = await scene.automation(tmp_path, "greeter")
    Path(made.script_path or "").write_text(SAYS)
    page = (await client.get("/automations/greeter/edit")).text
    assert "differs from version 1" in page
    assert "heard" in page


async def test_two_automations_with_the_same_text_both_show_it(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    for name in ("first", "second"):
        await client.post("/automations/new/script", data=_form(name=name, source=SAYS))
        assert (await automations.get(scene.ledgers, name)).script == SAYS
    await client.post("/automations/second/edit", data=_form(version="1"))
    assert "heard" in await automations.compare_versions(scene.ledgers, "second", 1, 2)


async def test_proposals_and_code_of_packages_are_not_edited(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    source = '"""tag-mail: Tags mail."""\n\n' + SCRIPT
    new = NewAutomation(name="", script_path="", script_hash=None, created_by_agent="nexus")
    write = registration.writer(app.ledgers)
    await asyncio.to_thread(changes.propose, app.home, write, source, new)
    refused = await client.get("/automations/tag-mail@proposed/edit")
    assert "waits for approval" in refused.text
    listed = (await client.get("/automations")).text
    assert re.search(r"Waiting for your approval <span class=\"count\">1</span>", listed)


async def test_a_trial_says_what_would_happen_and_saves_nothing(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    part, before = {"HX-Request": "true"}, await _names(scene)
    worked = await client.post(
        "/automations/trial", data=_form(source=SAYS, content="Milk, please"), headers=part
    )
    assert "worked" in worked.text
    assert "Milk, please" in worked.text
    failed = await client.post(
        "/automations/trial", data=_form(source="def run(ctx):\n    raise KeyError(7)\n"), headers=part
    )
    assert "KeyError" in failed.text
    assert await _names(scene) == before
