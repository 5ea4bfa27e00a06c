"""A package with one of each, laid down as an installer does and used through the home."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from apps import settings
from installed import EXAMPLES
from nexus.app import App
from nexus.config import ChannelConfig, PythonToolConfig
from nexus.home import Home
from nexus.testing import ModelServer, ToolCall, Turn
from ports import free_port

_FOLDER = EXAMPLES / "one-of-each"
_PATIENCE_S = 60


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages with this one in it."""
    site = tmp_path / "site"
    information = site / "one_of_each-1.0.dist-info"
    information.mkdir(parents=True)
    shutil.copy(_FOLDER / "one_of_each.py", site)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: one-of-each\nVersion: 1.0\n")
    lines: list[str] = []
    for line in (_FOLDER / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("[project.entry-points."):
            lines.append(line.replace('[project.entry-points."', "[").replace('"]', "]"))
        elif lines and "one_of_each:" in line:
            lines.append(line.replace('"', ""))
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    yield site
    sys.modules.pop("one_of_each", None)


async def _talk(port: int, text: str) -> str:
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:  # the channel starts beside the home
                await asyncio.sleep(0.05)
        writer.write(f"{text}\n".encode())
        await writer.drain()
        line = await reader.readline()
        writer.close()
    return line.decode().strip()


@pytest.mark.parametrize("run", ["sandbox", "process"])
async def test_an_agent_is_reached_uses_the_tool_and_tells_no_number(
    home: Home, server: ModelServer, site: Path, run: str
) -> None:
    server.script(
        Turn("", [ToolCall("add", {"a": 20, "b": 3})]),
        lambda request: Turn(f"{request.tool_results[-1]}. Call +49 30 1234567."),
    )
    port = free_port()
    desk = ChannelConfig(kind="tcp-chat", owner=("here",), options={"port": str(port)})
    config = replace(settings(server), channels={"desk": desk})
    if run == "process":
        config = replace(config, python_tools={"add": PythonToolConfig(run="process")})
    async with App(home, config, memory_socket=True) as app:
        assert app.automations.problems == []
        assert await _talk(port, "What is 20 + 3?") == "23. Call [phone]."


def test_its_own_tests_pass_and_it_uses_the_memory(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(_FOLDER)]
    done = subprocess.run(
        [*command, "-c", str(_FOLDER / "pyproject.toml"), str(_FOLDER)],
        env={**environment, "PYTHONPATH": str(_FOLDER)},
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    said = subprocess.run(
        [sys.executable, str(_FOLDER / "one_of_each.py"), str(tmp_path / "notes")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines()[0].startswith("Clara keeps bees")
