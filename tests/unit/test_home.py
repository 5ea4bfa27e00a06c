"""A home on disk: what it is made of, and who holds it."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexus.errors import HomeBusyError, HomeError, HomeMissingError
from nexus.home import Home, HomeLock, locate

_HOLD = """
import sys
from pathlib import Path
from nexus.home import Home, HomeLock
with HomeLock(Home(Path(sys.argv[1])), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _held_elsewhere(home: Home, mode: str) -> Generator["subprocess.Popen[str]"]:
    words = [sys.executable, "-c", _HOLD, str(home.root), mode]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def _snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            path.stat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [root, *root.rglob("*")]
    }


def test_a_home_is_where_it_was_asked_for(tmp_path: Path) -> None:
    environ = {"NEXUS_HOME": str(tmp_path / "variable"), "HOME": str(tmp_path)}
    assert locate(tmp_path / "given", environ).root == tmp_path / "given"
    assert locate(None, environ).root == tmp_path / "variable"


def test_without_a_wish_the_home_is_dot_nexus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(None, {}).root == tmp_path / ".nexus"
    assert locate(None, {"NEXUS_HOME": ""}).root == tmp_path / ".nexus"


def test_a_relative_path_means_the_directory_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate(Path("here"), {}).root == tmp_path / "here"


def test_a_home_that_is_not_there_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(HomeMissingError) as caught:
        Home(nowhere).require()
    assert f"`nexus --home {nowhere} init`" in caught.value.hint
    monkeypatch.setenv("NEXUS_HOME", str(nowhere))
    with pytest.raises(HomeMissingError) as caught:
        Home(nowhere).require()
    assert "`nexus init`" in caught.value.hint
    assert not nowhere.exists()


def test_creating_makes_every_folder_and_a_commented_config(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")
    made = home.create_files()
    assert set(made) == {*home.directories, home.config_file, home.lock_file, home.token_file}
    assert home.require() is home
    assert {str(path.relative_to(home.root)) for path in home.root.rglob("*")} == {
        "config.toml",
        "home.lock",
        "token",
        "data",
        "logs",
        "run",
        "state",
        "state/hooks",
        "state/hooks/scripts",
        "state/meeseeks",
    }
    assert "# busy_timeout_ms" in home.config_file.read_text(encoding="utf-8")


def test_creating_twice_changes_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    before = _snapshot(home.root)
    assert home.create_files() == []
    assert _snapshot(home.root) == before


def test_creating_again_completes_what_is_missing_and_keeps_the_rest(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    home.config_file.write_text("[ledgers]\nreaders = 2\n", encoding="utf-8")
    home.logs.rmdir()
    assert home.create_files() == [home.logs]
    assert home.config_file.read_text(encoding="utf-8") == "[ledgers]\nreaders = 2\n"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o177])
def test_a_home_is_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    home = Home(tmp_path / "home")
    before = os.umask(umask)
    try:
        home.create_files()
    finally:
        os.umask(before)
    for directory in home.directories:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory
    for file in (home.config_file, home.lock_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_any_number_of_processes_share_a_home(home: Home) -> None:
    with _held_elsewhere(home, "shared"), _held_elsewhere(home, "shared"), HomeLock(home, "shared"):
        pass


def test_a_process_that_wants_the_home_alone_is_told_who_shares_it(home: Home) -> None:
    with _held_elsewhere(home, "shared") as other, pytest.raises(HomeBusyError) as caught:
        HomeLock(home, "alone").__enter__()
    assert str(home.root) in caught.value.message
    if Path("/proc/locks").exists():
        assert f"by process {other.pid}" in caught.value.message


def test_a_process_that_holds_the_home_alone_is_named_with_its_command(home: Home) -> None:
    for mode in ("shared", "alone"):
        with _held_elsewhere(home, "alone") as other, pytest.raises(HomeBusyError) as caught:
            HomeLock(home, mode).__enter__()
        assert f"by process {other.pid} (" in caught.value.message


def test_a_killed_holder_leaves_nothing_behind(home: Home) -> None:
    with _held_elsewhere(home, "alone") as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        with HomeLock(home, "alone"):
            pass


def test_a_killed_holder_is_not_named_for_what_somebody_else_does(home: Home) -> None:
    with _held_elsewhere(home, "alone") as killed:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with _held_elsewhere(home, "shared"), pytest.raises(HomeBusyError) as caught:
            HomeLock(home, "alone").__enter__()
    assert str(killed.pid) not in caught.value.message.replace(str(home.root), "")


def test_a_lock_that_was_given_back_is_free(home: Home) -> None:
    with HomeLock(home, "alone"):
        pass
    assert home.lock_file.read_bytes() == b""
    with _held_elsewhere(home, "alone"):
        pass


def test_a_home_has_a_token_that_stays_and_that_only_its_owner_can_read(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    home.create_files()
    other.create_files()
    assert home.token() == home.token_file.read_text()
    assert home.token() != other.token()
    assert home.token_file.stat().st_mode & 0o777 == 0o600


def test_a_home_from_before_there_were_tokens_gets_one(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    home.token_file.unlink()
    assert len(home.token()) >= 32
    assert home.token_file.stat().st_mode & 0o777 == 0o600


def test_a_token_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create_files()
    home.token_file.chmod(0o644)
    with pytest.raises(HomeError, match="Other users"):
        home.token()
    home.token_file.chmod(0o600)
    home.token_file.write_text("")
    with pytest.raises(HomeError, match="too short"):
        home.token()
