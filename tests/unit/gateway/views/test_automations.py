"""Automations by hook point, their versions and workspaces."""

from pathlib import Path

import pytest

from nexus.automations.workspace import History
from nexus.errors import MissingError, WorkspaceError
from nexus.gateway.views import automations
from unit.gateway.scene import SCRIPT, Scene


async def test_every_hook_point_is_shown_with_what_runs_there(scene: Scene, tmp_path: Path) -> None:
    await scene.automation(tmp_path, "greeter", hook_point="finalize")
    places = {place.name: place for place in await automations.list_by_hook_point(scene.ledgers)}
    (line,) = places["finalize"].automations
    assert (line.automation.name, line.condition.text, line.last) == ("greeter", "active", None)
    assert places["runAutomations"].automations == ()


async def test_versions_can_be_compared_by_settings_and_script(scene: Scene, tmp_path: Path) -> None:
    await scene.automation(tmp_path, "greeter")
    changed = SCRIPT.replace("{}", '{"enrich": {}}')
    await scene.automation(tmp_path, "greeter", changed, priority=5)
    view = await automations.get(scene.ledgers, "greeter")
    assert [each.version for each in view.versions] == [2, 1]
    assert view.script == changed
    told = await automations.compare_versions(scene.ledgers, "greeter", 1, 2)
    assert "-    return {}" in told
    assert "+priority: 5" in told
    with pytest.raises(MissingError):
        await automations.compare_versions(scene.ledgers, "greeter", 1, 9)


async def test_a_workspace_shows_its_files_and_its_history(scene: Scene, tmp_path: Path) -> None:
    folder = f"{scene.ledgers.home.meeseeks / 'greeter'}/"
    await scene.automation(tmp_path, "greeter", workspace_dir=folder)
    place = scene.ledgers.home.meeseeks / "greeter"
    commit = History(place).commit("first")
    assert commit is not None
    view = await automations.get(scene.ledgers, "greeter")
    assert "ROLE.md" in {file.name for file in view.files}
    assert [change.message for change in view.history] == ["first"]
    assert "# greeter" in await automations.read_file(scene.ledgers, "greeter", "ROLE.md")
    assert "ROLE.md" in await automations.read_change(scene.ledgers, "greeter", commit)


async def test_a_change_of_a_workspace_is_undone_and_stays_in_the_history(
    scene: Scene, tmp_path: Path
) -> None:
    await scene.automation(tmp_path, "greeter", workspace_dir=f"{scene.ledgers.home.meeseeks / 'greeter'}/")
    place = scene.ledgers.home.meeseeks / "greeter"
    history, skills = History(place), place / "SKILLS.md"
    seeded = history.commit("first")
    assert seeded is not None
    before = skills.read_text()
    skills.write_text(f"{before}- Shout at everybody.\n")
    lesson = history.commit("greeter learned something")
    assert lesson is not None
    (place / "NOTES.md").write_text("By hand")
    await automations.undo_change(scene.ledgers, "greeter", lesson)
    assert skills.read_text() == before
    assert (place / "NOTES.md").read_text() == "By hand", "what was not recorded yet is kept"
    assert lesson in {change.commit for change in history.changes()}
    for commit in (seeded, "--abort", "HEAD"):
        with pytest.raises(WorkspaceError, match="has no change"):
            await automations.undo_change(scene.ledgers, "greeter", commit)


async def test_a_change_that_later_ones_build_on_is_not_undone_alone(scene: Scene, tmp_path: Path) -> None:
    await scene.automation(tmp_path, "greeter", workspace_dir=f"{scene.ledgers.home.meeseeks / 'greeter'}/")
    place = scene.ledgers.home.meeseeks / "greeter"
    history, skills = History(place), place / "SKILLS.md"
    history.commit("first")
    skills.write_text("Greet loudly.\n")
    first = history.commit("one")
    skills.write_text("Greet very loudly.\n")
    history.commit("two")
    with pytest.raises(WorkspaceError, match="later changes build on it"):
        await automations.undo_change(scene.ledgers, "greeter", first or "")
    assert skills.read_text() == "Greet very loudly.\n"
    assert history.undo().message == "two"
    assert history.undo().message == "one"


async def test_nothing_outside_of_the_workspace_is_shown(scene: Scene, tmp_path: Path) -> None:
    folder = f"{scene.ledgers.home.meeseeks / 'greeter'}/"
    await scene.automation(tmp_path, "greeter", workspace_dir=folder)
    (scene.ledgers.home.meeseeks / "greeter" / "link").symlink_to("/etc/passwd")
    for name in ("../../config.toml", "/etc/passwd", "link", ".git/config"):
        with pytest.raises(WorkspaceError):
            await automations.read_file(scene.ledgers, "greeter", name)
    with pytest.raises(MissingError):
        await automations.read_change(scene.ledgers, "greeter", "--output=/tmp/x")
