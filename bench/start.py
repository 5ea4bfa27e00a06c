"""How long the program takes to start: commands, `nexus up`, and commands on a home that it serves.

    python bench/start.py [--runs 5] [--against OTHER] [--write]

Each line is the median of some runs: time on the clock to the end of the command, or to what it names, and
processor time. With `--against`, the same is measured with the checkout in another folder, by turns, so that
both see the same machine.
"""

import argparse
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from report import machine, progress, write_section

from nexus.testing import ModelServer, echo

_HERE = Path(__file__).parents[1]
_MAIN = "from nexus.cli import main; main()"
_COMMANDS = (
    ["--help"],
    ["status"],
    ["automations", "list"],
    ["remind", "list"],
    ["recall", "tomatoes"],
    ["doctor"],
)
_ON_A_SERVED_HOME = (["recall", "tomatoes"], ["run", "Say hello"])
_TARGETS_MS = {
    "nexus recall tomatoes": 1_000,
    "nexus up, to its first answer": 1_500,
    "served: nexus recall tomatoes, to its first output": 150,
    "served: nexus run Say hello, to its first output": 150,
}


@dataclass(frozen=True)
class Took:
    """One run of a command."""

    wall_ms: float
    cpu_ms: float


class Program:
    """The program of one checkout, on a home of its own."""

    def __init__(self, checkout: Path, home: Path) -> None:
        self._home = home
        # An installed program has its bytecode: without this setting, the first run leaves it here.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join(str(checkout / part) for part in ("src", "models/english"))
        self._environment = {**inherited, "PYTHONPATH": path}

    def make_home(self, openai_url: str, *, writer: str = "none") -> None:
        """Make the home, with a model of this server's."""
        self.took("init", "--yes")
        (self._home / "config.toml").write_text(
            f'[models]\nmanager = ["bench/small"]\nwriter = "{writer}"\n[providers.bench]\nkind = "openai"\n'
            f'base_url = "{openai_url}"\n',
            encoding="utf-8",
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", _MAIN, "--home", str(self._home), *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*arguments),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def took(self, *arguments: str, to_output: bool = False) -> Took:
        """How long a command takes to its end, or to its first output."""
        before, began = _children_s(), time.perf_counter()
        process = self.start(*arguments)
        assert process.stdout is not None
        process.stdout.read(1)
        first = time.perf_counter()
        process.stdout.read()
        process.wait()
        ended = time.perf_counter()
        return Took(1000 * ((first if to_output else ended) - began), 1000 * (_children_s() - before))

    @contextmanager
    def serve(self) -> Generator[tuple[Took, str, int]]:
        """Serve the home: how long it took to the first answer, its address, and the process."""
        token = (self._home / "token").read_text(encoding="utf-8").strip()
        url = f"http://127.0.0.1:{(port := _free_port())}"
        began = time.perf_counter()
        process = self.start("up", "--json", "--port", str(port))
        try:
            _answered(f"{url}/api/home", token)
            took = Took(1000 * (time.perf_counter() - began), 1000 * cpu_s(process.pid))
            assert process.stdout is not None
            json.loads(process.stdout.readline())
            yield took, url, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path, help="Another checkout to compare with.")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    checkouts = [_HERE, *([options.against] if options.against else [])]
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name, ModelServer() as server:
        server.always(echo)
        programs = [Program(checkout, Path(name) / str(at)) for at, checkout in enumerate(checkouts)]
        for program in programs:
            program.make_home(server.openai_url)
        figures = _measured(programs, options.runs)
    text = _table(figures, compared=options.against is not None)
    print(text)
    print(machine())
    if options.write:
        about = f"`python bench/start.py`: the median of {options.runs} runs. {machine()}"
        write_section("bench/start.py", f"## Starting the program\n\n{about}\n\n{text}")


def _measured(programs: Sequence[Program], runs: int) -> dict[str, list[list[Took]]]:
    figures: dict[str, list[list[Took]]] = {}

    def note(what: str, at: int, took: Took) -> None:
        figures.setdefault(what, [[] for _ in programs])[at].append(took)

    for round_ in range(runs + 1):
        progress(f"round {round_} of {runs}")
        for at, program in enumerate(programs):
            taken = [(f"nexus {' '.join(command)}", program.took(*command)) for command in _COMMANDS]
            with program.serve() as (took, _, _):
                taken.append(("nexus up, to its first answer", took))
                # The models open in the background: a home that was served for a while has them.
                program.took("recall", "anything")
                for command in _ON_A_SERVED_HOME:
                    name = f"served: nexus {' '.join(command)}, to its first output"
                    taken.append((name, program.took(*command, to_output=True)))
            # The first round fills the caches of the file system and makes the engine's tables.
            for what, took in taken if round_ else ():
                note(what, at, took)
    return figures


def _table(figures: dict[str, list[list[Took]]], *, compared: bool) -> str:
    before = "| before, clock | processor " if compared else ""
    lines = [
        f"| measured {before}| clock | processor | target | met |",
        f"|{'---|' * (7 if compared else 5)}",
    ]
    for what, (now, *other) in figures.items():
        wall = statistics.median(took.wall_ms for took in now)
        target = _TARGETS_MS.get(what)
        verdict = "" if target is None else "yes" if wall <= target else "**no**"
        cells = [what, *(cell for each in [*other, now] for cell in _cells(each))]
        cells += ["" if target is None else f"{target:,} ms", verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(taken: list[Took]) -> tuple[str, str]:
    wall, cpu = (
        statistics.median(each) for each in zip(*((t.wall_ms, t.cpu_ms) for t in taken), strict=True)
    )
    return f"{wall:,.0f} ms", f"{cpu:,.0f} ms"


def _answered(url: str, token: str) -> None:
    """Wait until a URL answers."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            httpx.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=60).raise_for_status()
        except httpx.TransportError:
            time.sleep(0.005)
        else:
            return
    raise TimeoutError(url)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    main()
