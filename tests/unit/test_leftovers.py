"""The tests' own end: what a test leaves running neither holds up the verdict nor goes unnamed."""

import subprocess
import sys
from pathlib import Path

_LEAVES = """
import subprocess, threading, time

def test_leaves_a_thread_and_a_process():
    threading.Thread(target=time.sleep, args=(600,), name="forgotten").start()
    subprocess.Popen(["sleep", "600"])
    assert {passes}
"""


def _run(tmp_path: Path, *, passes: bool) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_it.py").write_text(_LEAVES.format(passes=passes))
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "leftovers", "-p", "no:cacheprovider", "-o"]
    return subprocess.run(
        [*command, f"pythonpath={tests}", str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tests), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_run_ends_though_a_thread_and_a_process_do_not(tmp_path: Path) -> None:
    run = _run(tmp_path, passes=True)
    assert run.returncode == 0
    assert "1 passed" in run.stdout
    assert "forgotten" in run.stderr
    assert "sleep 600" in run.stderr


def test_a_failure_stays_a_failure(tmp_path: Path) -> None:
    run = _run(tmp_path, passes=False)
    assert run.returncode == 1
