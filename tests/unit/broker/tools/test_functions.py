"""Tools of installed packages: what they are, where they run, and what they are granted."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from nexus import tool
from nexus.broker.tools import Context, Grant, Sandbox
from nexus.broker.tools.functions import Finder
from nexus.config import PythonToolConfig
from nexus.errors import ToolError

_CODE = """
import os
import socket
from pathlib import Path
from typing import Literal
from nexus import tool

@tool(repeatable=True)
def where(path: str, how: Literal["read", "list"] = "read") -> dict[str, object]:
    "Say what can be reached."
    print("noise")
    shown = os.listdir(path) if how == "list" else Path(path).read_text()
    return {"here": os.getpid(), "shown": shown, "token": os.environ.get("TEA_TOKEN")}

@tool(network=True)
def fetch() -> str:
    "Fetch."
    return socket.gethostname()

@tool
async def fail() -> None:
    raise ValueError("no tea")

plain = print
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    information = site / "tea_tools-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tea-tools\nVersion: 1.0\n")
    names = ("where", "fetch", "fail", "plain")
    lines = [f"{name} = tea_tools:{name}" for name in names]
    (information / "entry_points.txt").write_text("\n".join(("[nexus.tools]", *lines)) + "\n")
    (site / "tea_tools.py").write_text(_CODE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    yield site
    sys.modules.pop("tea_tools", None)


def _finder(**settings: PythonToolConfig) -> Finder:
    def grant(directories: tuple[str, ...]) -> tuple[Grant, ...]:
        return tuple(Grant(path=Path(each)) for each in directories)

    return Finder(settings=settings, sandbox=Sandbox(), grant=grant, taken=("bash",))


def _context() -> Context:
    return Context(sandbox=Sandbox(), directory=Path("/"))


async def test_a_tool_runs_in_the_sandbox_with_what_it_was_granted(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "tin").write_text("blue")
    off = PythonToolConfig(run="off")
    finder = _finder(fetch=off, fail=off, plain=off)
    [found], problems = await finder.find()
    assert problems == []
    assert (found.name, found.description, found.repeatable) == ("where", "Say what can be reached.", True)
    assert found.parameters["required"] == ["path"]
    with pytest.raises(ToolError, match="FileNotFoundError"):
        await found.call({"path": str(tmp_path / "tea" / "tin")}, _context())
    with pytest.raises(ToolError, match="`how`"):
        await found.call({"path": "/", "how": "write"}, _context())

    granted = PythonToolConfig(directories=(str(tmp_path / "tea"),), environment={"TEA_TOKEN": "oolong"})
    [found], _ = await _finder(where=granted, fetch=off, fail=off, plain=off).find()
    answer = await found.call({"path": str(tmp_path / "tea"), "how": "list"}, _context())
    assert '"shown": ["tin"]' in answer
    assert "oolong" not in answer
    assert "tea_tools" not in sys.modules


async def test_one_that_needs_more_than_was_granted_is_not_offered_and_it_is_said_why(packages: Path) -> None:
    tools, problems = await _finder(gone=PythonToolConfig(run="process")).find()
    assert [each.name for each in tools] == ["fail", "where"]
    assert problems == [
        "tool fetch (tea_tools:fetch): It needs a network. Add `network = true` below [python_tools.fetch].",
        "tool plain (tea_tools:plain): tea_tools:plain is not a tool. Decorate the function with `@tool`.",
        "tool gone: no installed package has it. Remove [python_tools.gone] or install the package",
    ]
    tools, _ = await _finder(fetch=PythonToolConfig(network=True)).find()
    fetch = next(each for each in tools if each.name == "fetch")
    assert (fetch.effects, fetch.reads_others) == ({"send"}, True)
    fail = next(each for each in tools if each.name == "fail")
    with pytest.raises(ToolError, match="ValueError: no tea"):
        await fail.call({}, _context())


async def test_one_runs_in_this_process_by_the_owners_choice(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "tin").write_text("blue")
    tools, _ = await _finder(where=PythonToolConfig(run="process")).find()
    where = next(each for each in tools if each.name == "where")
    assert f'"here": {os.getpid()}' in await where.call({"path": str(tmp_path / "tin")}, _context())


def test_a_decorated_function_is_described_by_its_signature_and_stays_callable() -> None:
    @tool(name="brew", effects=frozenset({"pay"}))
    def make(cups: int, kind: Literal["green", "black"] = "green") -> str:
        """Make tea."""
        return f"{cups} {kind}"

    assert make(2) == "2 green"
    offer = make.describe()
    assert (offer.name, offer.effects) == ("brew", ("pay",))
    properties: dict[str, Any] = offer.parameters["properties"]
    assert properties["cups"] == {"type": "integer"}
    assert properties["kind"] == {"default": "green", "enum": ["green", "black"], "type": "string"}
