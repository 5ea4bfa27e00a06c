"""Async invocations and a process that is killed again and again: each is done, once.

NEXUS_LONG=1: a thousand, and ten kills.
"""

import random
import subprocess
import sys
import time
from pathlib import Path

from acceptance.agents import rows
from long_form import times
from nexus.home import Home

_COUNT = times(400, long=1_000)
_KILLS = times(2, long=10)
_PATIENCE_S = 400
_PROGRAM = Path(__file__).with_name("invoking.py")


def _started(home: Home) -> subprocess.Popen[str]:
    command = [sys.executable, str(_PROGRAM), str(home.root), str(_COUNT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _done(home: Home) -> int:
    return int(rows(home, "runtime", "SELECT count(*) FROM invocations WHERE status = 'done'")[0][0])


def test_invocations_survive_kills(home: Home) -> None:
    chance = random.Random(11)
    interrupted = 0
    for _ in range(_KILLS):
        process = _started(home)
        time.sleep(chance.uniform(0.05, 0.8))
        _kill(process)
        interrupted += _done(home) < _COUNT
    assert interrupted, "every invocation was done before the first kill: nothing was tested"
    process = _started(home)
    deadline = time.monotonic() + _PATIENCE_S
    while _done(home) < _COUNT and time.monotonic() < deadline:
        time.sleep(0.2)
    _kill(process)
    ends = rows(home, "runtime", "SELECT status, error, count(*) FROM invocations GROUP BY 1, 2")
    assert ends == [("done", None, _COUNT)]
    results = rows(home, "runtime", "SELECT count(DISTINCT result_json) FROM invocations")
    assert results == [(_COUNT,)]
    # Its end counts once: a second end of the same invocation would have counted again.
    assert rows(home, "runtime", "SELECT trigger_count FROM automations") == [(_COUNT,)]
