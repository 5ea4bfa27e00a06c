"""Every session that the documents show is run, and shows what they show.

A ```console block holds commands (`$ …`) and their output. The blocks of a page are one session in one
fresh home. `…` on a line of its own stands for any lines. What differs from run to run (sizes, times,
ids, versions) is compared by shape. A block after `<!-- fails -->` must end with a command that fails.
A ```python block is a program that must end without an error; a ```py block is a fragment of one.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PAGES = sorted(
    page
    for page in [_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *(_ROOT / "docs").rglob("*.md")]
    if page.parent.name != "reference" or page.name == "python.md"
)
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?^ *```(?P<kind>\w+)[^\n]*\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_ANY = "…"
_SHOWN_HOME = "/home/ada"
_SHAPES = [
    (re.compile(r"\d+(\.\d+)? (B|KiB|MiB|GiB)\b"), "SIZE"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-[\d.]+Z"), "TIME"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|(?<=_)[0-9A-HJKMNP-TV-Z]{26}"), "ULID"),
    (re.compile(r"\b(nexus|Python|SQLite|sqlite3) \d+(\.\d+)+"), r"\1 VERSION"),
    (re.compile(r"\b(Linux|Darwin) \w+"), "SYSTEM"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|seconds)\b"), "DURATION"),
    (re.compile(r"[0-9a-f]{64}"), "SHA256"),
    # Every migration adds a row and a number.
    (re.compile(r"\b[\d,]+ rows\b"), "ROWS"),
    (re.compile(r"\bschema \d+"), "SCHEMA"),
    # sqlite3's versions introduce the same message differently.
    (re.compile(r"^(Error: stepping,|Runtime error( near line \d+)?:)"), "ERROR:"),
    (re.compile(r"[ \t]+"), " "),
]


@dataclass(frozen=True)
class _Block:
    mark: str
    kind: str
    body: str


def _blocks(page: Path) -> list[_Block]:
    text = page.read_text(encoding="utf-8")
    return [_Block(found["mark"] or "", found["kind"], found["body"]) for found in _BLOCK.finditer(text)]


def _with(kind: str) -> list[object]:
    found = [page for page in _PAGES if any(block.kind == kind for block in _blocks(page))]
    return [pytest.param(page, id=str(page.relative_to(_ROOT))) for page in found]


def _environment(person: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NEXUS_")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "HOME": str(person), "PATH": programs, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def _run(words: list[str], person: Path) -> tuple[int, str]:
    done = subprocess.run(
        words,
        cwd=person,
        env=_environment(person),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout


def _steps(block: _Block) -> list[tuple[str, list[str]]]:
    """Every command of a block with the lines that it prints; `> ` goes on with a command."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif line.startswith("> ") and not steps[-1][1]:
            steps[-1] = (f"{steps[-1][0]}\n{line[2:]}", [])
        else:
            steps[-1][1].append(line)
    return steps


def _shape(line: str) -> str:
    for pattern, word in _SHAPES:
        line = pattern.sub(word, line)
    return line.strip()


def _matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == _ANY:
        return any(_matches(shown[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and _matches(shown[1:], printed[1:])


@pytest.mark.parametrize("page", _with("console"))
def test_a_session_of_the_documents_runs_as_shown(page: Path, tmp_path: Path) -> None:
    person = tmp_path / "ada"
    person.mkdir()
    for block in (block for block in _blocks(page) if block.kind == "console"):
        steps = _steps(block)
        for number, (command, lines) in enumerate(steps, start=1):
            code, output = _run(["bash", "-c", command], person)
            fails = block.mark == "fails" and number == len(steps)
            assert (code != 0) == fails, f"{command}\nexited with {code}:\n{output}"
            printed = [_shape(line) for line in output.replace(str(person), _SHOWN_HOME).splitlines()]
            shown = [_shape(line) for line in lines]
            assert _matches(shown, printed), f"{command}\nprinted:\n{output}\nnot:\n" + "\n".join(lines)


@pytest.mark.parametrize("page", _with("python"))
def test_a_program_of_the_documents_runs(page: Path, tmp_path: Path) -> None:
    _run(["nexus", "init"], tmp_path)
    for block in (block for block in _blocks(page) if block.kind == "python"):
        code, output = _run([sys.executable, "-W", "error", "-c", block.body], tmp_path)
        assert code == 0, output


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_every_shell_block_is_a_session_or_says_why_it_is_not_run(page: str) -> None:
    blocks = _blocks(_ROOT / page)
    assert any(block.kind == "console" for block in blocks)
    for block in blocks:
        assert block.kind not in {"sh", "bash", "shell"} or block.mark.startswith("not run: "), block.body
        assert block.mark != "fails", block.body
