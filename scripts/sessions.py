"""The sessions that documents show: their commands, what these print, and how the two are compared.

A ```console block holds commands (`$ …`) and their output. `…` on a line of its own stands for any lines.
What differs from run to run (sizes, times, ids, versions) is compared by shape. A block after
`<!-- fails -->` must end with a command that fails.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Runner = Callable[[list[str], Path, Mapping[str, str]], tuple[int, str]]
SHOWN_HOME = "/home/ada"
"""Where the home of the person lies in what documents show."""
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?^ *```(?P<kind>\w+)[^\n]*\n(?P<body>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_ANY = "…"
_SHAPES = [
    (re.compile(r"\d+(\.\d+)? (B|KiB|MiB|GiB)\b"), "SIZE"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-[\d.]+Z"), "TIME"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|(?<=_)[0-9A-HJKMNP-TV-Z]{26}"), "ULID"),
    # The end of one, with which a line of facts begins, or which a new fact got.
    (re.compile(r"^[0-9A-HJKMNP-TV-Z]{6}(?=  \d{4}-)|(?<=^Added )[0-9A-HJKMNP-TV-Z]{6}(?=\.$)"), "ULID"),
    (re.compile(r"\b(nexus|Python|SQLite|sqlite3) \d+(\.\d+)+"), r"\1 VERSION"),
    (re.compile(r"\b(Linux|Darwin) \w+"), "SYSTEM"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|seconds)\b"), "DURATION"),
    (re.compile(r"[0-9a-f]{64}"), "SHA256"),
    # Every migration adds a row and a number.
    (re.compile(r"\b[\d,]+ rows\b"), "ROWS"),
    (re.compile(r"\bschema \d+( of \d+)?"), "SCHEMA"),
    # sqlite3's versions introduce the same message differently.
    (re.compile(r"^(Error: stepping,|Runtime error( near line \d+)?:)"), "ERROR:"),
    (re.compile(r"[ \t]+"), " "),
]


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    mark: str
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that was typed, and what it printed, beside what the page shows."""

    command: str
    shown: list[str]
    printed: list[str]
    exit_code: int
    may_fail: bool

    @property
    def complaint(self) -> str:
        """What is wrong with it; empty where it did as shown."""
        output = "\n".join(self.printed)
        if (self.exit_code != 0) != self.may_fail:
            return f"{self.command}\nexited with {self.exit_code}:\n{output}"
        if not _matches([shape(line) for line in self.shown], [shape(line) for line in self.printed]):
            return f"{self.command}\nprinted:\n{output}\nnot:\n" + "\n".join(self.shown)
        return ""


def blocks(page: Path) -> list[Block]:
    """Every fenced block, with the comment before it."""
    text = page.read_text(encoding="utf-8")
    return [Block(found["mark"] or "", found["kind"], found["body"]) for found in _BLOCK.finditer(text)]


def typed(
    page: Path, person: Path, environment: Mapping[str, str], runner: Runner | None = None
) -> Iterator[Typed]:
    """Type the commands of a page's console blocks, one after another, as one session of a person."""
    runner = runner or run
    for block in (block for block in blocks(page) if block.kind == "console"):
        steps = _steps(block)
        for number, (command, shown) in enumerate(steps, start=1):
            code, output = runner(["bash", "-c", command], person, environment)
            printed = output.replace(str(person), SHOWN_HOME).splitlines()
            may_fail = block.mark == "fails" and number == len(steps)
            yield Typed(command, shown, printed, code, may_fail)


def run(words: list[str], person: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a program in a person's folder; returns its exit code and all that it printed."""
    done = subprocess.run(
        words,
        check=False,
        cwd=person,
        env=variables(person, environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout


def variables(person: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of what a person types."""
    # The month of the demo has the dates that the documents show.
    fixed = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "NEXUS_DEMO_UNTIL": "2026-05-31T18:00Z"}
    return {**environment, **fixed, "HOME": str(person)}


def shape(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, word in _SHAPES:
        line = pattern.sub(word, line)
    return line.strip()


def _steps(block: Block) -> list[tuple[str, list[str]]]:
    """Every command of a block with the lines that it prints; `> ` goes on with a command."""
    steps: list[tuple[str, list[str]]] = []
    for line in block.body.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif (line == ">" or line.startswith("> ")) and not steps[-1][1]:
            steps[-1] = (f"{steps[-1][0]}\n{line[2:]}", [])
        else:
            steps[-1][1].append(line)
    return steps


def _matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == _ANY:
        return any(_matches(shown[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and _matches(shown[1:], printed[1:])
