"""What an agent waits for when it writes and searches in a shell: the skill's scripts on a running home.

python bench/memory_socket.py              the full size: some three minutes
python bench/memory_socket.py --write      the same, into RESULTS.md
python bench/memory_socket.py --quick      half a minute, to see that it runs
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import Figure, machine, percentile, progress, table, write_section

from nexus import ledgers
from nexus.home import Home
from nexus.ledgers import attach
from nexus.skills import memory
from nexus.skills.memory_socket import OWNER

NEXUS = Path(sys.executable).with_name("nexus")
CALL_MS = 25
FACTS_PER_S = 2_000
_AGENTS = 4


class Sizes(argparse.Namespace):
    """How much is measured."""

    calls: int
    facts: int
    quick: bool
    write: bool


def main() -> None:
    sizes = _sizes()
    with tempfile.TemporaryDirectory(prefix="nexus-bench-") as name:
        home = Home(Path(name) / "home")
        home.create()
        ledgers.create(home)
        attach.ensure(home)
        workspace = Path(name) / "workspace"
        workspace.mkdir()
        skill = memory.lay(home, workspace, home.run / OWNER).folder
        figures = list(_measure(home, skill, sizes))
    text = table(figures)
    print(text)
    print(machine())
    if sizes.write:
        about = "`python bench/memory_socket.py`" + (" `--quick`" if sizes.quick else "")
        write_section(
            "memory_socket", f"## Writing and searching in a shell\n\n{about}; {machine()}\n\n{text}"
        )


def _measure(home: Home, skill: Path, sizes: Sizes) -> Generator[Figure]:
    write, search = str(skill / "memory-write.sh"), str(skill / "memory-search.sh")
    fact = [write, "fact", "--about", "ann", "--fact", "Ann grows tomatoes"]
    progress("where nothing runs")
    yield _latency("memory-write.sh fact, nothing runs (the program starts for it)", fact, sizes.calls // 20)
    plain = [
        "sqlite3",
        str(home.ledger("memory")),
        "INSERT INTO facts (id, fact) VALUES (hex(randomblob(8)), 'x')",
    ]
    yield _latency("a bare INSERT with sqlite3, for comparison", plain, sizes.calls)
    yield _latency("starting curl alone, for comparison", ["curl", "--version"], sizes.calls)
    with _running(home):
        _until_embedded(home)
        progress("single calls")
        yield _latency("memory-write.sh fact, per call with process start", fact, sizes.calls, CALL_MS)
        _until_embedded(home)
        question = [search, "What does Ann grow?"]
        yield _latency("memory-search.sh, per call with process start", question, sizes.calls // 2)
        yield _batch(write, sizes.facts)
        progress("single calls while the batch is embedded")
        yield _latency("memory-write.sh fact, while a batch is being embedded", fact, sizes.calls // 2)
        yield _drain(home)
        yield _together(home, write, sizes.calls // 4)


def _latency(what: str, command: list[str], calls: int, target_ms: float | None = None) -> Figure:
    took_ms: list[float] = []
    for _ in range(max(calls, 3)):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        took_ms.append((time.perf_counter() - began) * 1000)
    p50, p95 = percentile(took_ms, 0.5), percentile(took_ms, 0.95)
    value = f"p50 {p50:.1f} ms, p95 {p95:.1f} ms"
    if target_ms is None:
        return Figure(what, value)
    return Figure(what, value, f"p50 under {target_ms:.0f} ms", p50 < target_ms)


def _batch(write: str, facts: int) -> Figure:
    progress(f"a batch of {facts:,} facts")
    lines = "\n".join(
        json.dumps({"operation": "fact", "about": "ann", "fact": f"On day {n} Ann picked {n % 17} tomatoes"})
        for n in range(facts)
    )
    began = time.perf_counter()
    subprocess.run([write, "batch"], input=lines, check=True, stdout=subprocess.DEVNULL, text=True)
    rate = facts / (time.perf_counter() - began)
    target = f"at least {FACTS_PER_S:,} a second"
    return Figure(
        f"memory-write.sh batch, {facts:,} facts", f"{rate:,.0f} a second", target, rate >= FACTS_PER_S
    )


def _drain(home: Home) -> Figure:
    progress("embedding")
    before, began = _embeddings(home)["depth"], time.perf_counter()
    _until_embedded(home)
    took_s = time.perf_counter() - began
    return Figure("embedding in the background", f"{before / took_s:,.0f} facts a second ({before:,} waited)")


def _together(home: Home, write: str, calls: int) -> Figure:
    progress(f"{_AGENTS} agents at once")

    def agent(name: int) -> None:
        for number in range(calls):
            said = f"agent {name} says {number}"
            command = [write, "fact", "--about", "crowd", "--fact", said]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    began = time.perf_counter()
    with ThreadPoolExecutor(_AGENTS) as agents:
        list(agents.map(agent, range(_AGENTS)))
    rate = _AGENTS * calls / (time.perf_counter() - began)
    query = "SELECT count(DISTINCT fact) FROM facts WHERE source_entity_id = 'crowd'"
    command = ["sqlite3", str(home.ledger("memory")), query]
    kept = int(subprocess.run(command, check=True, capture_output=True).stdout)
    value = f"{rate:.0f} calls a second, {kept} of {_AGENTS * calls} kept"
    return Figure(f"{_AGENTS} agents writing at once", value, "nothing lost", kept == _AGENTS * calls)


@contextmanager
def _running(home: Home) -> Generator[None]:
    command = [str(NEXUS), "--home", str(home.root), "up", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _until_embedded(home: Home) -> None:
    while _embeddings(home)["depth"]:
        time.sleep(0.5)


def _embeddings(home: Home) -> dict[str, Any]:
    command = [str(NEXUS), "--home", str(home.root), "memory", "embeddings", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _sizes() -> Sizes:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    sizes = parser.parse_args(namespace=Sizes())
    sizes.calls, sizes.facts = (40, 2_000) if sizes.quick else (400, 20_000)
    return sizes


if __name__ == "__main__":
    main()
