"""The benchmarks that guard a promise run in their short form; the others do with NEXUS_LONG=1."""

import subprocess
import sys
from pathlib import Path

import pytest

from long_form import times

_BENCH = Path(__file__).parents[2] / "bench"
_PROMISES = [
    (["chats.py", "--quick"], "| errors and answers cut short, of 40 | 0 | 0 | yes |"),
    (["drain.py", "--messages", "20", "--sessions", "4"], "| lost | 0 | 0 | yes |"),
    (["webhooks.py", "--quick"], "| not answered | 0 | 0 | yes |"),
    (["soak.py", "--quick"], "| errors | 0 | 0 | yes |"),
    (["hosting.py", "--quick"], "| reads of another home's word | 0 | 0 | yes |"),
]
_SPEEDS = [
    (["ledgers.py", "--quick"], "| measured | figure |"),
    (["engine.py", "--quick", "--database", "sqlite"], "| enqueue to start | p50"),
    (["hooks.py", "--quick"], "an empty hook point: p50"),
    (["turns.py", "--quick"], "| what the broker adds, p50 |"),
    (["memory_writes.py", "--quick"], "facts in batches of"),
    (["dashboard.py", "--quick"], "| the busiest entity | p50"),
    (["usage.py", "--quick"], "| the sum of a month | p50"),
    (["scale.py", "--quick"], "| 10^8 | 20,000 |"),
    (["fleet_simulation.py", "--quick"], "| 10^3 | 1; 1 |"),
]


def _printed(words: list[str], folder: Path) -> str:
    command = [sys.executable, str(_BENCH / words[0]), *words[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(("words", "printed"), _PROMISES + _SPEEDS * times(0, long=1))
def test_a_benchmark_runs_in_its_short_form(words: list[str], printed: str, tmp_path: Path) -> None:
    assert printed in _printed(words, tmp_path)


@pytest.mark.parametrize("name", [words[0] for words, _ in _SPEEDS])
def test_a_benchmark_of_speed_finds_all_that_it_uses(name: str, tmp_path: Path) -> None:
    """Types are checked elsewhere; this imports what it measures, and reads its options."""
    assert "--quick" in _printed([name, "--help"], tmp_path)
