"""The page on scale is what its figures and assumptions come to."""

import subprocess
import sys
from pathlib import Path

import pytest

_BENCH = Path(__file__).parents[2] / "bench"


def _computed(program: str) -> str:
    words = [sys.executable, "-c", f"from scale_plan import *\n{program}"]
    done = subprocess.run(words, cwd=_BENCH, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_tables_are_what_comes_out() -> None:
    words = [sys.executable, str(_BENCH / "scale_plan.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("cpu_ms_per_turn=20_000", "(13, 'processor')"),
        ("bytes_per_open_home=1024**3", "(19, 'memory')"),
        ("bytes_per_empty_home=1024**3", "(5, 'disk')"),
    ],
)
def test_hosts_follow_from_what_runs_out_first(changed: str, told: str) -> None:
    """2 messages a second, 2.5 runs each; 1,200 homes open; 10,000 homes on disks; half of a host is used."""
    row = f"row = plan(10_000, Figures({changed}), Assumptions(), 100)\n"
    assert _computed(f"{row}print((row.shared_hosts, row.shared_limit))").strip() == told
