"""The least install: with the packages of requirements.lock alone, Nexus runs and words find the memory."""

import subprocess
import sys
from pathlib import Path

import pytest

import record_session

_ROOT = Path(__file__).parents[2]
# Modules that are imported for an extra alone may need it at their top.
_FOR_EXTRAS = (
    "nexus.broker.agent.mcp.connection",
    "nexus.broker.agent.mcp.oauth",
    "nexus.channels.",
    "nexus.cli.acp_agent",
    "nexus.gateway.mcp.oauth",
    "nexus.gateway.mcp.server",
    "nexus.integrations.",
    "nexus.testing",
)
_IMPORT_ALL = f"""
import importlib, pkgutil, sys
import nexus
for module in pkgutil.walk_packages(nexus.__path__, "nexus."):
    if not module.name.startswith({_FOR_EXTRAS!r}) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
_REMEMBER = """
import sys
from nexus import Memory
with Memory(sys.argv[1]) as memory:
    memory.add("The spare key is with Clara", about="Clara")
    [found] = memory.search("Where is the spare key?", limit=1)
print(found.text)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but what is locked for the least install."""
    venv = tmp_path_factory.mktemp("least") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    record_session.link_locked(_ROOT / "requirements.lock", venv)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "nexus.pth").write_text(f"{_ROOT / 'src'}\n", encoding="utf-8")
    return venv / "bin" / "python"


def _run(python: Path, *words: str) -> str:
    done = subprocess.run([str(python), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_every_module_is_imported_without_extras(python: Path) -> None:
    _run(python, "-c", _IMPORT_ALL)


def test_a_memory_is_found_by_words(python: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = _run(python, "-m", "nexus", "--home", str(home), "init", "--yes", "--provider", "none")
    assert "Run `pip install 'nexus-runtime[embedding,web,pdf,import,mcp,terminal]'`." in made

    assert _run(python, "-c", _REMEMBER, str(home)) == "The spare key is with Clara\n"
    found = _run(python, "-m", "nexus", "--home", str(home), "recall", "where is the spare key?")
    assert "The spare key is with Clara" in found
    assert "Searching by words only: Search by meaning needs packages that aren't installed" in found
