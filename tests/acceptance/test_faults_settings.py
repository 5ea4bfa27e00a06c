"""When what the settings say cannot be, or is not there."""

import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from acceptance.faults import Refusal, found, refusal
from acceptance.program import NEXUS, nexus
from acceptance.running import serving
from nexus.home import Home, HomeLock


def test_a_config_that_is_not_toml(home: Home) -> None:
    home.config_file.write_text("[models\n")
    told = refusal(home.root, "status")
    assert told.message.startswith(f"{home.config_file} is not valid TOML: ")
    assert "line 1" in told.message
    assert told.hint == "Fix that line, or delete the file to use the defaults."
    [finding] = found(home.root, "config")
    assert (finding["message"], finding["remedy"]) == (told.message, told.hint)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[model]\n", "`model` is not a section in ", "Did you mean `models`?"),
        ("[models]\nmangaer = 1\n", "`mangaer` is not a setting in [models] of ", "Did you mean `manager`?"),
        (
            '[providers.anthropic]\napi_key = "sk-123"\n',
            "must name where the secret is, not contain it",
            "env:ANTHROPIC_API_KEY",
        ),
    ],
)
def test_a_setting_that_is_not_known(home: Home, text: str, message: str, hint: str) -> None:
    home.config_file.write_text(text)
    told = refusal(home.root, "status")
    assert message in told.message
    assert hint in told.hint
    assert "sk-123" not in told.message + told.hint


def test_a_port_that_is_taken(home: Home) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        told = refusal(home.root, "up", "--port", str(port))
        assert told.message == f"Can't listen on 127.0.0.1:{port}: Address already in use"
        assert told.hint.startswith("Choose another port with `nexus up --port NUMBER`")
        home.config_file.write_text(f"[gateway]\nport = {port}\n")
        [finding] = found(home.root, "gateway")
        assert (finding["message"], finding["remedy"]) == (told.message, told.hint)


def test_a_postgres_that_is_down(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_ENGINE_DATABASE", "postgresql://ada:hush@127.0.0.1:1/nexus")
    told = refusal(home.root, "engine", "status")
    assert told.message.startswith(
        "Can't connect to the engine's database at postgresql://ada:***@127.0.0.1:1/nexus"
    )
    assert "Connection refused" in told.message
    assert told.hint == "Start it, or fix `[engine] database` in config.toml."
    [finding] = found(home.root, "engine")
    assert (finding["message"], finding["remedy"]) == (told.message, told.hint)


def test_a_database_of_another_kind(home: Home) -> None:
    home.config_file.write_text('[engine]\ndatabase = "mysql://localhost/nexus"\n')
    told = refusal(home.root, "engine", "status")
    assert told.message == "`mysql` is not a supported database"
    [finding] = found(home.root, "engine")
    assert (finding["message"], finding["remedy"]) == (told.message, told.hint)


def test_an_embedding_model_that_is_not_on_this_machine(home: Home, tmp_path: Path) -> None:
    gone = tmp_path / "gone.onnx"
    home.config_file.write_text(
        f'[memory]\nembedding_model = "all-minilm-l6-v2-int8"\nembedding_model_path = "{gone}"\n'
    )
    done = nexus(home.root, "recall", "tea")
    assert done.returncode == 0, "words can be searched without it"
    message = "The model all-minilm-l6-v2-int8 is not installed"
    assert f"Searching by words only: {message}. Run `nexus models pull" in done.stderr
    with serving(home):
        assert done.stderr in nexus(home.root, "recall", "tea").stderr, "the process that serves says so too"
    named, missing = found(home.root, "memory")
    assert named["message"] == f"Embedding model not found at {gone}"
    assert missing["message"] == message
    assert missing["remedy"].startswith("Run `nexus models pull all-minilm-l6-v2-int8`")


def test_mcp_servers_that_are_not_there(home: Home) -> None:
    home.config_file.write_text(
        '[mcp.notes]\ncommand = "no-such-program"\n[mcp.far]\nurl = "http://127.0.0.1:9/mcp"\n'
    )
    program, server = found(home.root, "mcp")
    assert program["message"] == "MCP server `notes`: program not found: no-such-program"
    assert program["remedy"] == "Install it, or fix `command` in [mcp.notes] in config.toml."
    assert server["message"] == (
        "Can't reach the MCP server `far` at http://127.0.0.1:9/mcp: Connection refused"
    )
    assert server["remedy"] == "Start it, or fix `url` in [mcp.far] in config.toml."


def test_a_home_that_another_process_holds(home: Home, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert nexus(home.root, "backup", str(backup)).returncode == 0
    with HomeLock(home, "shared"):
        told = refusal(home.root, "restore", str(backup), "--replace", apart=True)
    assert told.message.startswith(f"The home at {home.root} is in use by process {os.getpid()} (")
    assert told.hint == "Stop it or wait, then try again."


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 50) / ("path" * 50)
    told = refusal(home, "init")
    assert told == Refusal(
        f"The path of the home is too long: {len(str(home))} bytes (maximum 400)",
        "Choose a shorter one with `--home PATH` or NEXUS_HOME.",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_deleted_under_the_command(home: Home, tmp_path: Path) -> None:
    line = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {NEXUS} --home"
    relative = subprocess.run(
        ["bash", "-c", f"{line} some/home status"], capture_output=True, text=True, timeout=120
    )
    assert relative.returncode == 1
    assert relative.stderr == (
        "nexus: some/home not found: the current folder was deleted\n"
        "  Change to another folder with `cd`, or pass an absolute path.\n"
    )
    full = subprocess.run(
        ["bash", "-c", f"{line} {home.root} status"], capture_output=True, text=True, timeout=120
    )
    assert full.returncode == 0, full.stderr
