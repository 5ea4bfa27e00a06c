"""What commands import: the libraries of the engine and of the agents take seconds, and most need neither."""

import socket
import subprocess
import sys
from contextlib import closing

import pytest

from nexus.home import Home

_ENGINE = {"dbos", "sqlalchemy"}
_AGENT = {"pydantic_ai", "genai_prices", "openai", "anthropic", "mcp"}
_PROGRAM = """
import sys
from nexus.cli import program
try:
    program.main(sys.argv[1:], prog_name="nexus")
finally:
    print("imported:", *sys.modules)
"""
_UP = "import sys, nexus.cli.up_running; print('imported:', *sys.modules)"


def _imported(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("imported: ")[2].split())


def test_help_imports_no_library_but_clicks() -> None:
    assert not _imported(_PROGRAM, "--help") & (_ENGINE | _AGENT | {"numpy", "httpx", "fastapi", "asyncio"})


@pytest.mark.parametrize(
    "command",
    ["status", "recall tea", "remind list", "automations list", "usage", "access list", "sql --help"],
)
def test_a_command_that_runs_no_work_imports_neither_engine_nor_agents(home: Home, command: str) -> None:
    imported = _imported(_PROGRAM, "--home", str(home.root), *command.split())

    assert not imported & (_ENGINE | _AGENT | {"fastapi"})


@pytest.mark.parametrize("command", ["doctor", "engine --help"])
def test_a_command_that_reads_the_engines_database_does_not_import_dbos(home: Home, command: str) -> None:
    imported = _imported(_PROGRAM, "--home", str(home.root), *command.split())

    assert not imported & ({"dbos"} | _AGENT)


def test_asking_a_served_home_imports_neither_numbers_nor_drawing() -> None:
    """`nexus run` needs all of these, and one process can look for what any of them imports."""
    modules = "nexus.cli.talk, nexus.cli.screen, nexus.cli.recall"
    imported = _imported(f"import sys, {modules}; print('imported:', *sys.modules)")

    assert not imported & {"numpy", "rapidfuzz", "apsw", "rich", "markdown_it"}


def test_asking_a_served_home_imports_no_http_library_and_no_settings() -> None:
    imported = _imported("import sys, nexus.cli.recall; print('imported:', *sys.modules)")

    assert not imported & {"asyncio", "httpx", "http.client", "nexus.config", "nexus.client"}


def test_talking_with_a_served_home_imports_neither_engine_nor_agents() -> None:
    imported = _imported("import sys, nexus.cli.conversation; print('imported:', *sys.modules)")

    assert not imported & (_ENGINE | _AGENT | {"numpy", "fastapi"})


def test_a_port_that_is_taken_is_reported_before_anything_slow_is_imported(home: Home) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        up = ("--home", str(home.root), "up", "--port", str(taken.getsockname()[1]))
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, *up], capture_output=True, text=True, timeout=120
        )

    assert "Address already in use" in done.stderr
    assert not set(done.stdout.split()) & (_ENGINE | _AGENT | {"fastapi", "numpy", "nexus.app"})


def test_a_home_is_served_before_the_agent_library_is_imported() -> None:
    assert not _imported(_UP) & ({"dbos"} | _AGENT)


@pytest.mark.parametrize("module", ["run", "chat", "up", "recall"])
def test_a_silent_process_is_noticed_before_anything_slow_is_imported(module: str) -> None:
    """`Service.await_response` is what the module calls before its function's imports."""
    imported = _imported(f"import sys, nexus.cli.{module}; print('imported:', *sys.modules)")

    assert not imported & (_ENGINE | _AGENT | {"httpx", "numpy", "rich", "prompt_toolkit", "nexus.client"})
