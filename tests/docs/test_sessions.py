"""Every session that the documents show is run, and shows what they show.

How a session is written and compared: scripts/sessions.py. The blocks of a page are one session in one fresh
home. A ```python block is a program that must end without an error; a ```py block is a fragment of one.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

import pytest

import sessions
from acceptance.program import typed

_ROOT = Path(__file__).parents[2]
_PAGES = sorted(
    page
    for page in [_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *(_ROOT / "docs").rglob("*.md")]
    if page.parent.name != "reference" or page.name == "python.md"
)
# What a newcomer reads first is typed where there is nothing but the wheel, and recorded.
_RECORDED = ["README.md", "docs/quickstart.md"]


def _with(kind: str) -> list[str]:
    found = [page for page in _PAGES if any(block.kind == kind for block in sessions.blocks(page))]
    return [str(page.relative_to(_ROOT)) for page in found]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEXUS_")}
    return {**kept, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("page", [page for page in _with("console") if page not in _RECORDED])
def test_a_session_of_the_documents_runs_as_shown(page: str, tmp_path: Path) -> None:
    person = tmp_path / "ada"
    person.mkdir()
    for step in sessions.typed(_ROOT / page, person, _environment(), _run):
        assert not step.complaint, step.complaint


def _run(words: list[str], person: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a line of a session; without a shell, if it is nothing but a command of Nexus."""
    line = words[-1]
    if not line.startswith("nexus ") or set(line) & set("|&;<>$`\\~\n"):
        return sessions.run(words, person, environment)
    with chdir(person):
        done = typed(*shlex.split(line)[1:], env=sessions.variables(person, environment), together=True)
    return done.returncode, done.stdout


def test_readme_and_quickstart_run_as_shown_and_as_recorded_with_nothing_but_the_wheel() -> None:
    words = [sys.executable, str(_ROOT / "scripts" / "record_session.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", _with("python"))
def test_a_program_of_the_documents_runs(page: str, tmp_path: Path) -> None:
    _run(["nexus init"], tmp_path, _environment())
    for block in (block for block in sessions.blocks(_ROOT / page) if block.kind == "python"):
        words = [sys.executable, "-W", "error", "-c", block.body]
        code, output = sessions.run(words, tmp_path, _environment())
        assert code == 0, output


@pytest.mark.parametrize("page", _RECORDED)
def test_every_shell_block_is_a_session_or_says_why_it_is_not_run(page: str) -> None:
    blocks = sessions.blocks(_ROOT / page)
    assert any(block.kind == "console" for block in blocks)
    for block in blocks:
        assert block.kind not in {"sh", "bash", "shell"} or block.mark.startswith("not run: "), block.body
        assert block.mark != "fails", block.body
