"""Backups of a home in use, the check of a backup, and the way back."""

import hashlib
import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contents import execute, files, furnish, rows, writing
from migration.old_hooks import OLD_ROWS, old_database
from nexus.config import LedgersConfig
from nexus.errors import CareError, HomeBusyError, HomeMissingError, LedgerCorruptError
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, attach, backup, events, health
from nexus.ledgers.backup import Manifest


@pytest.fixture
def furnished(home: Home) -> Home:
    furnish(home)
    return home


@pytest.fixture
def copy(furnished: Home, tmp_path: Path) -> Path:
    """A backup of a furnished home."""
    backup.make(furnished, tmp_path / "copy")
    return tmp_path / "copy"


def rewrite(copy: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as somebody would who knows how it is sealed."""
    path = copy / "manifest.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    change(content)
    seal = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "sha256": seal}))


def refused_by_the_check(copy: Path) -> bool:
    try:
        return backup.check(copy)[1] != []
    except CareError:
        return True


def without_announcement(found: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of a restored home, less what the restore itself recorded."""
    return {
        table: [row for row in table_rows if b"home.restored" not in row and b"bus_events" not in row]
        for table, table_rows in found.items()
    }


def test_a_backup_counts_every_row_and_passes_its_own_check(furnished: Home, tmp_path: Path) -> None:
    made = backup.make(furnished, tmp_path / "copy")

    manifest, problems = backup.check(tmp_path / "copy")

    assert problems == []
    assert manifest == made
    expected = {table: len(found) for table, found in rows(furnished).items()}
    counted = {
        f"{name}.{table}": count
        for name, ledger in manifest.ledgers.items()
        for table, count in ledger.rows.items()
    }
    assert counted == expected
    assert manifest.rows == sum(expected.values())


def test_a_backup_is_private_and_its_databases_need_no_other_file(copy: Path) -> None:
    assert [path for path in [copy, *copy.rglob("*")] if path.stat().st_mode & 0o077] == []
    assert {path.name for path in (copy / "data").iterdir()} == {f"{name}.db" for name in LEDGERS}


def test_a_backup_holds_no_logs(furnished: Home, tmp_path: Path) -> None:
    (furnished.logs / "nexus.log").write_text("secret")
    backup.make(furnished, tmp_path / "copy")
    assert not (tmp_path / "copy" / "logs").exists()


def test_writes_during_a_backup_go_on_and_are_not_in_it(home: Home, tmp_path: Path) -> None:
    furnish(home, count=10)
    writer = writing(home, "events")
    with writer:
        events.append(writer, [events.NewEvent(channel="cli", content="x" * 1_000_000)] * 20)
    before = writer.execute("SELECT count(*) FROM events").get
    steps: list[int] = []

    def write_between(done: int, total: int) -> None:
        steps.append(done)
        assert done <= total
        with writer:
            events.append(writer, [events.NewEvent(channel="cli", content="meanwhile")])

    manifest = backup.make(home, tmp_path / "copy", write_between)

    written = writer.execute("SELECT count(*) FROM events WHERE content = 'meanwhile'").get
    writer.close()
    assert len(steps) > len(LEDGERS), "the events ledger takes several steps"
    assert steps == sorted(steps)
    assert written == len(steps)
    assert manifest.ledgers["events"].rows["events"] == before
    assert backup.check(tmp_path / "copy")[1] == []


def test_a_backup_does_not_migrate_the_home(home: Home, tmp_path: Path) -> None:
    home.ledger("runtime").unlink()
    old_database(home.ledger("runtime"))

    manifest = backup.make(home, tmp_path / "copy")

    assert manifest.ledgers["runtime"].schema_version == 0
    backup.restore(tmp_path / "copy", Home(tmp_path / "new"))
    kept = execute(Home(tmp_path / "new"), "runtime", "SELECT count(*) FROM automations")
    assert kept == len(OLD_ROWS)


def test_a_folder_that_holds_something_is_not_used(home: Home, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(CareError, match="not an empty folder"):
        backup.make(home, tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_an_empty_folder_is_used(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    backup.make(home, tmp_path / "empty")
    assert backup.check(tmp_path / "empty")[1] == []


def test_a_backup_into_what_it_copies_is_refused(home: Home) -> None:
    with pytest.raises(CareError, match="inside"):
        backup.make(home, home.state / "copies" / "one")


def test_a_place_without_a_home_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(HomeMissingError):
        backup.make(Home(tmp_path / "nothing"), tmp_path / "copy")


def test_a_damaged_home_gives_an_error_and_no_backup(furnished: Home, tmp_path: Path) -> None:
    writing(furnished, "memory").close()
    with furnished.ledger("memory").open("r+b") as stream:
        stream.seek(8192)
        stream.write(b"\xff" * 8192)
    with pytest.raises(LedgerCorruptError, match="memory"):
        backup.make(furnished, tmp_path / "copies" / "copy")
    assert list((tmp_path / "copies").iterdir()) == []


def test_restoring_elsewhere_gives_an_equal_home(furnished: Home, copy: Path, tmp_path: Path) -> None:
    new = Home(tmp_path / "deep" / "new")

    restored = backup.restore(copy, new)

    assert restored.kept is None
    assert without_announcement(rows(new)) == without_announcement(rows(furnished))
    assert files(new) == files(furnished)
    assert attach.path(new, writes=False).read_text() == attach.script(new, writes=False)
    assert [problem for name in LEDGERS for problem in health.inspect(new.ledger(name), name)] == []


def test_a_restored_home_tells_followers_of_the_bus(copy: Path, tmp_path: Path) -> None:
    new = Home(tmp_path / "new")
    manifest = backup.restore(copy, new).manifest
    payload = execute(new, "events", "SELECT payload_json FROM bus_events WHERE type = 'home.restored'")
    assert json.loads(payload) == {"backup_created_at": manifest.created_at, "rows": manifest.rows}


def test_what_a_restore_replaces_is_kept_as_a_whole_home(furnished: Home, copy: Path) -> None:
    execute(furnished, "events", "INSERT INTO threads (id, channel) VALUES ('thr_new', 'cli')")
    (furnished.scripts / "later.py").write_text("later")
    before_rows, before_files = rows(furnished), files(furnished)

    kept = backup.restore(copy, furnished, replace=True).kept

    assert kept is not None
    assert kept.name.startswith(f"{furnished.root.name}.before-restore-")
    assert (rows(Home(kept)), files(Home(kept))) == (before_rows, before_files)
    assert execute(furnished, "events", "SELECT count(*) FROM threads WHERE id = 'thr_new'") == 0
    assert not (furnished.scripts / "later.py").exists()


def test_a_home_that_is_there_is_not_replaced_unasked(furnished: Home, copy: Path) -> None:
    before = rows(furnished)
    with pytest.raises(CareError, match="already"):
        backup.restore(copy, furnished)
    assert rows(furnished) == before


def test_a_wrong_path_is_said_before_a_home_in_the_way(furnished: Home, tmp_path: Path) -> None:
    with pytest.raises(CareError, match="No such folder"):
        backup.restore(tmp_path / "nothing", furnished)


async def test_a_home_in_use_is_not_replaced(furnished: Home, copy: Path) -> None:
    async with Ledgers(furnished, LedgersConfig()):
        with pytest.raises(HomeBusyError):
            backup.restore(copy, furnished, replace=True)
    assert backup.restore(copy, furnished, replace=True).kept


@pytest.mark.parametrize("seed", range(12))
def test_one_changed_byte_anywhere_is_noticed_and_nothing_is_restored(
    copy: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    everything = sorted(path for path in copy.rglob("*") if path.is_file())
    victim = everything[seed % len(everything)]
    content = bytearray(victim.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    victim.write_bytes(content)

    assert refused_by_the_check(copy)
    with pytest.raises(CareError):
        backup.restore(copy, Home(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


def test_a_manifest_that_was_edited_is_not_trusted(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace('"created_at": "2', '"created_at": "3'))
    assert refused_by_the_check(copy)


def test_a_missing_and_a_shortened_file_are_named(copy: Path) -> None:
    (copy / "config.toml").unlink()
    with (copy / "data" / "events.db").open("r+b") as stream:
        stream.truncate(4096)
    problems = backup.check(copy)[1]
    assert any("config.toml is missing" in problem for problem in problems)
    assert any("data/events.db has 4096 bytes" in problem for problem in problems)


def test_a_folder_without_a_manifest_is_an_unfinished_backup(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    with pytest.raises(CareError, match="not a complete backup"):
        backup.check(copy)


def test_a_backup_of_a_newer_nexus_is_refused(furnished: Home, tmp_path: Path) -> None:
    connection = writing(furnished, "identity")
    connection.pragma("user_version", 999)
    connection.close()
    backup.make(furnished, tmp_path / "copy")
    with pytest.raises(CareError, match="schema 999, newer than this program's"):
        backup.restore(tmp_path / "copy", Home(tmp_path / "new"))


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "state/../../x", "state//x", "data/x", "state/./x", "stateless"]
)
def test_a_manifest_that_leads_out_of_a_home_is_refused(copy: Path, tmp_path: Path, path: str) -> None:
    entry = {"size_bytes": 0, "sha256": hashlib.sha256().hexdigest(), "mode": "0600"}
    rewrite(copy, lambda content: content["tree"]["files"].update({path: entry}))
    with pytest.raises(CareError, match="damaged"):
        backup.restore(copy, Home(tmp_path / "new"))


def test_a_link_in_the_place_of_a_copied_file_is_refused(copy: Path, tmp_path: Path) -> None:
    moved = (copy / "config.toml").rename(tmp_path / "elsewhere")
    (copy / "config.toml").symlink_to(moved)
    assert backup.check(copy)[1] == ["config.toml is missing"]


def test_links_modes_and_empty_folders_come_back(furnished: Home, tmp_path: Path) -> None:
    (furnished.state / "here").symlink_to("hooks/scripts")
    (furnished.state / "gone").symlink_to("/no/such/place")
    (furnished.scripts / "open.sh").write_text("#!/bin/sh\n")
    (furnished.scripts / "open.sh").chmod(0o755)
    (furnished.state / "closed").mkdir()
    (furnished.state / "closed" / "file").write_bytes(bytes(range(256)))
    (furnished.state / "closed").chmod(0o500)

    backup.make(furnished, tmp_path / "copy")
    backup.restore(tmp_path / "copy", Home(tmp_path / "new"), trust=True)

    assert files(Home(tmp_path / "new")) == files(furnished)


def test_what_is_no_file_is_left_out_and_told(
    furnished: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(furnished.state)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("agent.sock")
        manifest = backup.make(furnished, tmp_path / "copy")
    assert manifest.tree.left_out == ["state/agent.sock"]


def test_a_restore_clears_what_a_killed_one_left(copy: Path, tmp_path: Path) -> None:
    new = Home(tmp_path / "new")
    (new.root / ".unfinished-new_01" / "data").mkdir(parents=True)
    backup.restore(copy, new)
    made = {path.name for path in new.root.iterdir()}
    assert made == {"config.toml", "data", "home.lock", "logs", "run", "state", "token"}


def test_the_token_of_a_home_does_not_travel_with_its_backup(furnished: Home, tmp_path: Path) -> None:
    mine = furnished.token()
    backup.make(furnished, tmp_path / "copy")
    assert not any(
        mine.encode() in file.read_bytes() for file in (tmp_path / "copy").rglob("*") if file.is_file()
    )
    new = Home(tmp_path / "new")
    backup.restore(tmp_path / "copy", new)
    assert new.token() != mine
    backup.restore(tmp_path / "copy", furnished, replace=True)
    assert furnished.token() == mine


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path, furnished: Home) -> None:
    made = backup.make(furnished, tmp_path / "copy")
    assert Manifest.read(tmp_path / "copy") == made
