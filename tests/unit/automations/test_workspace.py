"""Workspaces: made before a run, reached by name and no further, and remembered in git."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from nexus.automations import workspace
from nexus.automations.workspace import Folder, History, Workspace
from nexus.errors import WorkspaceError
from nexus.ledgers import Ledgers
from unit.automations.stage import staged


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "meeseeks" / "reader"
    path.parent.mkdir()
    workspace.bootstrap(path, "# reader\n")
    return path


def test_it_is_made_with_its_seed_files_once(tmp_path: Path) -> None:
    path = tmp_path / "reader"
    assert workspace.bootstrap(path, "# r\n") == ["ROLE.md", "SKILLS.md", "PATTERNS.md", "ERRORS.md"]
    assert (path / "skills").is_dir()
    Folder(path).write("SKILLS.md", "learned")
    assert workspace.bootstrap(path, "# other\n") == []
    made = Workspace.at(path, {})
    assert (made.role, made.skills, made.patterns) == ("# r\n", "learned", "# Patterns\n")


def test_a_workspace_is_found_by_the_last_part_of_its_path(tmp_path: Path) -> None:
    assert workspace.locate(tmp_path, "~/.nexus/state/meeseeks/memory-reader/") == tmp_path / "memory-reader"
    for recorded in ("", "/", "..", "x/..", ".history", "a/.git"):
        with pytest.raises(WorkspaceError):
            workspace.locate(tmp_path, recorded)


def test_what_is_stored_is_loaded_and_what_is_missing_or_spoilt_is_empty(place: Path) -> None:
    own = Workspace.at(place, {})
    assert own.load("seen.json") == {}
    own.store("seen.json", {"ü": [1]})
    assert own.load("seen.json") == {"ü": [1]}
    for spoilt in ("[1]", "{", ""):
        own.write_file("seen.json", spoilt)
        assert own.load("seen.json") == {}


def test_a_file_that_is_missing_is_the_default_and_one_that_may_not_be_read_is_not(place: Path) -> None:
    own = Workspace.at(place, {})
    assert own.read_file("notes/today.md", "none") == "none"
    with pytest.raises(WorkspaceError):
        own.read_file("notes/today.md")
    (place / "link").symlink_to(place / "ROLE.md")
    for name in ("link", "../reader/ROLE.md"):
        with pytest.raises(WorkspaceError):
            own.read_file(name, "none")


def test_files_are_listed_and_removed_by_name(place: Path) -> None:
    own = Workspace.at(place, {})
    own.write_file("held/b.json", "{}")
    own.write_file("held/a.json", "{}")
    own.write_file("held.md", "")
    assert own.list_files("held") == ["held/a.json", "held/b.json"]
    own.remove_file("held/a.json")
    assert own.list_files("held/") == ["held/b.json"]
    assert {"ROLE.md", "held.md", "held/b.json"} <= set(own.list_files())


def test_peers_read_and_write_each_others_files(place: Path) -> None:
    peer = place.with_name("writer")
    workspace.bootstrap(peer, "# writer\n")
    made = Workspace.at(place, {"writer": peer})
    made.peers["writer"].write_file("NOTES_FOR_WRITER.md", "look here")
    assert made.peers["writer"].read_file("SKILLS.md") == "# Skills\n"
    assert [(peer.name, peer.read_file("NOTES_FOR_WRITER.md")) for peer in made.peers] == [
        ("writer", "look here")
    ], "a loop goes over the peers themselves"
    assert "writer" in made.peers
    assert (list(made.peers.keys()), len(made.peers), made.peers.get("nobody")) == (["writer"], 1, None)
    assert (peer / "NOTES_FOR_WRITER.md").read_text() == "look here"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../writer/ROLE.md", "a/../../x", "", ".", "a//b", ".git/config"]
)
def test_a_name_that_leads_out_is_refused(place: Path, name: str) -> None:
    folder = Folder(place)
    with pytest.raises(WorkspaceError):
        folder.read(name)
    with pytest.raises(WorkspaceError):
        folder.write(name, "x")


def test_no_symbolic_link_is_followed(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hidden")
    (place / "file").symlink_to(secret / "key")
    (place / "folder").symlink_to(secret)
    folder = Folder(place)
    for name in ("file", "folder/key"):
        with pytest.raises(WorkspaceError):
            folder.read(name)
    with pytest.raises(WorkspaceError):
        folder.write("folder/key", "mine")
    folder.write("file", "mine")  # takes the link's place and leaves what it led to alone
    assert (secret / "key").read_text() == "hidden"


def test_a_link_in_the_place_of_the_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "reader").symlink_to(tmp_path / "real")
    with pytest.raises(WorkspaceError):
        Folder(tmp_path / "reader").write("x", "y")


def test_what_is_not_a_plain_file_is_not_read(place: Path) -> None:
    subprocess.run(["mkfifo", str(place / "pipe")], check=True)
    for name in ("pipe", "skills"):
        with pytest.raises(WorkspaceError):
            Folder(place).read(name)
    assert "pipe" not in Folder(place).files()


def test_every_change_can_be_shown_and_undone(place: Path) -> None:
    history = History(place)
    assert history.commit("made") is not None
    assert history.commit("nothing changed") is None
    Folder(place).write("SKILLS.md", "# Skills\nAsk for the tin.\n")
    assert history.commit("learned") is not None
    newest, first = history.changes()
    assert (newest.message, first.message) == ("learned", "made")
    assert "+Ask for the tin." in history.difference(newest.commit)
    history.undo(newest.commit)
    assert Folder(place).read("SKILLS.md") == "# Skills\n"


def test_undoing_again_goes_further_back_and_keeps_edits_by_hand(place: Path) -> None:
    history = History(place)
    history.commit("made")
    Folder(place).write("SKILLS.md", "Shout.\n")
    older = history.commit("older lesson")
    Folder(place).write("PATTERNS.md", "Whisper.\n")
    newer = history.commit("newer lesson")
    Folder(place).write("NOTES.md", "By hand")
    assert history.undo().commit == newer
    assert history.undo().commit == older
    assert (Folder(place).read("SKILLS.md"), Folder(place).read("PATTERNS.md")) == (
        "# Skills\n",
        "# Patterns\n",
    )
    assert Folder(place).read("NOTES.md") == "By hand"
    with pytest.raises(WorkspaceError, match="no change to undo"):
        history.undo()


def test_a_change_is_undone_once_and_can_be_brought_back(place: Path) -> None:
    history = History(place)
    history.commit("made")
    Folder(place).write("SKILLS.md", "Shout.\n")
    lesson = history.commit("lesson")
    history.undo(lesson)
    with pytest.raises(WorkspaceError, match="It is undone already"):
        history.undo(lesson)
    history.undo(history.changes()[0].commit)
    assert Folder(place).read("SKILLS.md") == "Shout.\n"
    assert history.undo().commit == lesson, "it is in effect again"
    assert Folder(place).read("SKILLS.md") == "# Skills\n"


def test_a_person_can_use_git_there(place: Path) -> None:
    History(place).commit("made")
    done = subprocess.run(["git", "log", "--format=%s"], cwd=place, capture_output=True, text=True)
    assert done.stdout == "made\n"


def test_settings_that_an_agent_wrote_are_not_heeded(place: Path, tmp_path: Path) -> None:
    """A repository of its own, with settings that would run a program."""
    History(place).commit("made")
    (place / ".git").unlink()
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    subprocess.run(["git", "init", "-q", str(place / "inner")], check=True)
    for repository in (place, place / "inner"):
        setting = f'[core]\n\tfsmonitor = "touch {tmp_path}/ran"\n'
        (repository / ".git" / "config").write_text(setting)
    Folder(place).write("SKILLS.md", "changed")
    assert History(place).commit("changed") is not None
    assert not (tmp_path / "ran").exists()
    assert [change.message for change in History(place).changes()] == ["changed", "made"]


async def test_a_run_that_changed_its_workspace_is_committed(opened: Ledgers, tmp_path: Path) -> None:
    source = (
        "def run(ctx):\n"
        "    ctx.workspace.write_file('skills/tea.md', 'in the tin')\n"
        "    ctx.workspace.peers['other'].write_file('NOTE.md', ctx.workspace.role)\n"
    )
    async with staged(opened, tmp_path) as stage:
        await stage.script(
            "learns", source, workspace_dir="x/learns/", peer_workspaces=("y/other/",), description="Learns."
        )
        await stage.fire()
        await stage.runner.invoker.wait_until_settled()
        (row,) = await stage.rows("learns")
        assert row.status == "done", row
        place = stage.home.meeseeks / "learns"
        seeded = {each.parent.name for each in place.glob("skills/*/SKILL.md")}
        assert seeded == {"memory-search", "memory-reflect"}
        (change,) = await asyncio.to_thread(History(place).changes)
        assert change.message == f"learns at runAutomations, {row.id}"
        assert (stage.home.meeseeks / "other" / "NOTE.md").read_text() == "# learns\n\nLearns.\n"
        await stage.fire()
        await stage.runner.invoker.wait_until_settled()
        assert len(await asyncio.to_thread(History(place).changes)) == 1
