"""Writing the memory into the settings of other programs."""

import json
import os
import tomllib
from functools import partial
from pathlib import Path

import pytest

from nexus.cli.mcp_clients import (
    CLIENTS,
    NAME,
    Launch,
    add_entry,
    format_entry,
    get,
    locate_file,
    remove_entry,
    write,
)
from nexus.errors import UsageError

_LAUNCH = Launch(command="/opt/nexus", args=("--home", "/home/ada/.nexus", "mcp", "serve"))
_CODEX = """\
# Mine
model = "large"

[mcp_servers.other]  # keep
command = "other"
"""


@pytest.mark.parametrize("name", CLIENTS)
def test_the_entry_is_written_once_and_taken_out_again(name: str, tmp_path: Path) -> None:
    file, found = tmp_path / "settings", get(name)
    text = add_entry(found, file, _LAUNCH)
    assert text is not None
    assert write(file, text) is None
    assert add_entry(found, file, _LAUNCH) is None
    parsed = tomllib.loads(text) if found.form == "toml" else json.loads(text)
    assert parsed == {found.key: {NAME: found.entry(_LAUNCH)}}
    assert text == format_entry(found, _LAUNCH)
    without = remove_entry(found, file)
    assert without is not None
    assert NAME not in without
    write(file, without)
    assert remove_entry(found, file) is None


def test_everything_else_in_a_json_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    before = {"theme": "dark", "mcpServers": {"other": {"command": "other"}}, "ünïcode": "ja"}
    file.write_text(json.dumps(before))
    text = add_entry(get("cursor"), file, _LAUNCH)
    assert text is not None
    kept = write(file, text)
    after = json.loads(file.read_text())
    assert after["mcpServers"].pop(NAME)["command"] == "/opt/nexus"
    assert after == before
    assert kept is not None
    assert json.loads(kept.read_text()) == before


def test_comments_and_order_of_a_toml_file_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(_CODEX)
    text = add_entry(get("codex"), file, _LAUNCH)
    assert text is not None
    assert text.startswith(_CODEX.rstrip())
    assert tomllib.loads(text)["mcp_servers"][NAME]["args"] == list(_LAUNCH.args)


def test_another_home_replaces_the_entry(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(file, add_entry(get("cursor"), file, _LAUNCH) or "")
    moved = Launch(command="/opt/nexus", args=("--home", "/elsewhere", "mcp", "serve"))
    text = add_entry(get("cursor"), file, moved)
    assert text is not None
    assert "/elsewhere" in text
    assert "/home/ada" not in text


def test_each_change_keeps_a_copy_of_its_own_and_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    file.chmod(0o600)
    kept = [write(file, f'{{"n": {number}}}') for number in range(2)]
    assert [path.read_text() for path in kept if path] == ["{}", '{"n": 0}']
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "mcp.json"
    real.write_text("{}")
    link.symlink_to(real)
    write(link, '{"a": 1}')
    assert link.is_symlink()
    assert real.read_text() == '{"a": 1}'


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("cursor", b"{ // mine\n}", "line 1"),
        ("cursor", b"[]", "object"),
        ("cursor", b'{"mcpServers": []}', "object"),
        ("cursor", b'{"theme": "d\xe4rk"}', "UTF-8"),
        ("cursor", '{"theme": "dark"}'.encode("utf-16"), "UTF-8"),
        ("cursor", b'{"mcpServers": {"a": {}, "b": {}, "a": {}}}', "'a' appears twice"),
        ("cursor", b'{"theme": "\\ud800"}', "UTF-8"),
        ("cursor", b"[" * 100_000, "nested too deeply"),
        ("cursor", b'{"n": ' + b"9" * 5_000 + b"}", "digits"),
        ("codex", b"model = ", "line 1"),
        ("codex", b"model = 1\nmodel = 2\n", "model"),
        ("codex", b"[mcp_servers.a]\n[mcp_servers.a]\n", "a"),
        ("codex", b'model = "l\xe4rge"', "UTF-8"),
        ("codex", b"mcp_servers = 3", "object"),
    ],
)
def test_a_file_that_cannot_be_understood_is_left_alone(
    name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "settings"
    file.write_bytes(content)
    for act in (partial(add_entry, launch=_LAUNCH), remove_entry):
        with pytest.raises(UsageError, match="is unchanged: ") as caught:
            act(get(name), file)
        assert why in caught.value.message.partition("is unchanged: ")[2]
        assert "--print" in caught.value.hint
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_to_nothing_is_told_and_stays(tmp_path: Path) -> None:
    link, around = tmp_path / "mcp.json", tmp_path / "around.json"
    link.symlink_to(tmp_path / "dotfiles" / "mcp.json")
    around.symlink_to(around)
    for file in (link, around):
        with pytest.raises(UsageError, match="which does not exist"):
            add_entry(get("cursor"), file, _LAUNCH)
        assert file.is_symlink()
    assert not (tmp_path / "dotfiles").exists()


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for file in (folder, pipe):
        with pytest.raises(UsageError, match="it isn't a file"):
            add_entry(get("cursor"), file, _LAUNCH)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UsageError, match="could not be written") as caught:
        write(tmp_path / "taken" / "mcp.json", "{}")
    assert "folder" in caught.value.hint
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_unknown_client_is_told_which_are_known() -> None:
    with pytest.raises(UsageError) as caught:
        get("emacs")
    assert "claude-code" in caught.value.hint


def test_a_project_has_a_file_of_its_own_where_the_client_reads_one(tmp_path: Path) -> None:
    assert locate_file(get("claude-code"), tmp_path) == tmp_path / ".mcp.json"
    with pytest.raises(UsageError):
        locate_file(get("windsurf"), tmp_path)
