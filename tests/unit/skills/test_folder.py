"""Seeding lays a skill's files, renews those that nobody touched, and never erases what was learned."""

from pathlib import Path

import pytest

from acceptance.program import nexus
from nexus.errors import ToolError
from nexus.home import Home
from nexus.skills import memory
from nexus.skills.folder import find_new_versions, install_skill

_FIRST = {"GUIDE.md": "first", "run.sh": "#!/bin/sh\n"}
_SECOND = {**_FIRST, "GUIDE.md": "second"}
_THIRD = {**_FIRST, "GUIDE.md": "third"}


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    install_skill(tmp_path / "one", "tea", _FIRST)
    return tmp_path / "one" / "skills" / "tea" / "GUIDE.md"


def test_a_new_folder_has_every_file_and_scripts_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()

    done = install_skill(tmp_path / "one", "tea", _FIRST)

    assert (done.laid, done.replaced, done.edited) == (["GUIDE.md", "run.sh"], [], [])
    assert {path.name: path.read_text() for path in done.folder.iterdir() if path.name in _FIRST} == _FIRST
    assert (done.folder / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (done.folder / "GUIDE.md").stat().st_mode & 0o777 == 0o600


def test_seeding_again_changes_nothing(tmp_path: Path, guide: Path) -> None:
    before = {path.name: path.stat().st_ino for path in guide.parent.iterdir() if path.name in _FIRST}

    done = install_skill(tmp_path / "one", "tea", _FIRST)

    assert (done.laid, done.replaced, done.edited) == ([], [], [])
    assert {name: (guide.parent / name).stat().st_ino for name in before} == before


def test_an_untouched_file_is_replaced_by_its_new_version(tmp_path: Path, guide: Path) -> None:
    done = install_skill(tmp_path / "one", "tea", _SECOND)

    assert (done.replaced, guide.read_text()) == (["GUIDE.md"], "second")
    assert find_new_versions(tmp_path) == []


def test_an_edited_file_is_kept_and_the_new_version_laid_beside_it(tmp_path: Path, guide: Path) -> None:
    guide.write_text("first, and what I learned")
    new = guide.with_name("GUIDE.md.new")

    assert install_skill(tmp_path / "one", "tea", _FIRST).edited == []
    done = install_skill(tmp_path / "one", "tea", _SECOND)

    assert (done.edited, done.replaced) == (["GUIDE.md"], [])
    assert (guide.read_text(), new.read_text()) == ("first, and what I learned", "second")
    assert find_new_versions(tmp_path) == [new]


def test_a_new_version_that_was_put_away_comes_back_only_with_the_next(tmp_path: Path, guide: Path) -> None:
    guide.write_text("mine")
    install_skill(tmp_path / "one", "tea", _SECOND)
    new = guide.with_name("GUIDE.md.new")
    new.unlink()

    assert install_skill(tmp_path / "one", "tea", _SECOND).edited == []
    assert not new.exists()
    assert install_skill(tmp_path / "one", "tea", _THIRD).edited == ["GUIDE.md"]
    assert (guide.read_text(), new.read_text()) == ("mine", "third")


def test_a_new_version_that_was_taken_over_is_cleared_away(tmp_path: Path, guide: Path) -> None:
    guide.write_text("mine")
    install_skill(tmp_path / "one", "tea", _SECOND)
    guide.write_text("second")

    install_skill(tmp_path / "one", "tea", _SECOND)

    assert not guide.with_name("GUIDE.md.new").exists()
    assert install_skill(tmp_path / "one", "tea", _THIRD).replaced == ["GUIDE.md"]


def test_a_file_that_somebody_made_in_the_place_of_ours_is_kept(tmp_path: Path) -> None:
    own = tmp_path / "one" / "skills" / "tea" / "GUIDE.md"
    own.parent.mkdir(parents=True)
    own.write_text("an agent's own")

    assert install_skill(tmp_path / "one", "tea", _FIRST).edited == ["GUIDE.md"]
    assert own.read_text() == "an agent's own"


@pytest.mark.parametrize("record", ["", "[]", "not json", '{"GUIDE.md": 1}'])
def test_a_broken_record_erases_nothing(tmp_path: Path, guide: Path, record: str) -> None:
    guide.with_name(".seeded.json").write_text(record)
    guide.write_text("mine")

    install_skill(tmp_path / "one", "tea", _SECOND)

    assert guide.read_text() == "mine"


def test_no_link_leads_seeding_out_of_the_workspace(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "GUIDE.md").write_text("precious")
    workspace = tmp_path / "workspace"
    (workspace / "skills").mkdir(parents=True)
    (workspace / "skills" / "tea").symlink_to(outside)
    with pytest.raises(ToolError):
        install_skill(workspace, "tea", _FIRST)

    (workspace / "skills" / "tea").unlink()
    (workspace / "skills" / "tea").mkdir()
    (workspace / "skills" / "tea" / "GUIDE.md").symlink_to(outside / "GUIDE.md")
    (workspace / "skills" / "tea" / ".seeded.json").symlink_to(outside / "GUIDE.md")
    install_skill(workspace, "tea", _SECOND)

    assert {path.name: path.read_text() for path in outside.iterdir()} == {"GUIDE.md": "precious"}


def test_the_doctor_reports_new_versions(home: Home) -> None:
    workspace = home.meeseeks / "memory-writer"
    workspace.mkdir()
    queries = memory.install(home, workspace, home.run / "memory-writer").folder / "QUERIES.md"
    queries.write_text("-- a better query")
    install_skill(workspace, memory.NAME, {"QUERIES.md": "newer than any"})

    told = nexus(home.root, "doctor").stdout

    assert "memory-writer/skills/memory/QUERIES.md was edited, and a new version is available" in told
    assert str(queries.with_name("QUERIES.md.new")) in told
