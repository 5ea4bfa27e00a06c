"""The benchmarks run in their short form, so that the long one works when somebody wants it."""

import subprocess
import sys
from pathlib import Path

import pytest

_BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["ledgers.py", "--quick"], "| measured | figure |"),
        (["engine.py", "--quick", "--database", "sqlite"], "| enqueue to start | p50"),
        (["hooks.py", "--quick"], "an empty hook point: p50"),
        (["turns.py", "--quick"], "| what the broker adds, p50 |"),
        (["chats.py", "--quick"], "| errors and answers cut short, of 40 | 0 | 0 | yes |"),
        (["drain.py", "--messages", "20", "--sessions", "4"], "| lost | 0 | 0 | yes |"),
        (["webhooks.py", "--quick"], "| not answered | 0 | 0 | yes |"),
        (["memory_writes.py", "--quick"], "facts in batches of"),
        (["dashboard.py", "--quick"], "| the busiest entity | p50"),
        (["usage.py", "--quick"], "| the sum of a month | p50"),
        (["scale.py", "--quick"], "| 10^8 | 20,000 |"),
        (["hosting.py", "--quick"], "| reads of another home's word | 0 | 0 | yes |"),
    ],
)
def test_a_benchmark_runs_in_its_short_form(words: list[str], printed: str, tmp_path: Path) -> None:
    command = [sys.executable, str(_BENCH / words[0]), *words[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr[-2000:]
    assert printed in done.stdout
