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
    ("figures", "hosting", "told"),
    [
        ("", "cpu_ms_per_message=20_000", "(80, 5, 'processor')"),
        ("", "bytes_per_open_home=1024**3", "(1, 2, 'memory')"),
        ("bytes_per_empty_home=1024**3", "", "(1, 4, 'disk')"),
    ],
)
def test_hosts_follow_from_what_runs_out_first(figures: str, hosting: str, told: str) -> None:
    """2 messages a second; 120 homes open; 6,400 homes on disks; half of a machine with 16 cores is used."""
    row = f"row = plan(10_000, Figures({figures}), Hosting({hosting}), Assumptions())\n"
    assert _computed(f"{row}print((row.processes, row.machines, row.limit))").strip() == told


def test_postgres_spends_on_messages_visits_and_hosts() -> None:
    """2 messages and 2/3 visits a second, and one host that looks 4 times in 15 s; 8 cores."""
    hosting = "Hosting(message_ms=3, visit_ms=6, renew_ms=5, look_ms=10)"
    row = f"row = plan(10_000, Figures(), {hosting}, Assumptions())\n"
    assert float(_computed(f"{row}print(row.postgres_share)")) == pytest.approx((6 + 4 + 4) / 8000)
