"""The assistants of the example, each told something and asked about it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from installed import EXAMPLES
from nexus.testing import ModelServer

KEY = "The spare key hangs behind the fuse box"
NEEDED = {
    "openai": "openai",
    "pydantic-ai": "pydantic_ai",
    "openai-agents": "agents",
    "langgraph": "langgraph",
}


@pytest.fixture
def example(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("FRAMEWORK_MEMORY_HOME", str(tmp_path / "memory"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    script = EXAMPLES / "framework-memory" / "framework_memory.py"
    spec = importlib.util.spec_from_file_location("framework_memory", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("framework", NEEDED)
async def test_each_reminds_its_own_user(example: ModuleType, server: ModelServer, framework: str) -> None:
    pytest.importorskip(NEEDED[framework])
    server.always("All right.")
    assert await example.main(framework, "ada", KEY) == "All right."
    assert await example.main(framework, "ada", "Where", "is", "the", "spare", "key?") == "All right."
    await example.main(framework, "leo", "Where is the spare key?")
    told = [str(request.json["messages"]) for request in server.requests]
    assert ["<memories>" in each for each in told] == [False, True, False]
    assert [KEY in each for each in told] == [True, True, False]
