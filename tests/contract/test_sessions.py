"""The session queue on a real home: whenever its process is killed, each run ends once and in order."""

import random
import subprocess
import time
from collections import Counter

import pytest

from contract import promises
from contract.harness import Harness, Harnesses
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions

# Between the ledger's record and the engine's, between two steps, between the ledger's end and the engine's.
_MOMENTS = ("hand over", "step", "end")
_RANDOM_KILLS = 3


@pytest.fixture(params=["sqlite"])
def database(home: Home) -> str:
    return str(home.data / "engine.db")


@pytest.fixture
def harness(harnesses: Harnesses) -> Harness:
    return harnesses(lease_ms=2_000)


async def _asked(opened: Ledgers) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_1')")
    )


def _killed_again_and_again(harness: Harness, home: Home) -> None:
    chance = random.Random(5)
    for moment in _MOMENTS:
        process = harness.sessions("talk", home=str(home.root), die=moment)
        assert process.wait(60) == -9
        harness.killed[process.pid] = time.monotonic_ns()
    for _ in range(_RANDOM_KILLS):
        process = harness.sessions("talk", home=str(home.root))
        harness.await_line(process, "serving")
        time.sleep(chance.uniform(0.05, 0.6))
        harness.kill(process)


async def _statuses(opened: Ledgers) -> Counter[str]:
    rows = await opened.runtime.read(lambda c: c.execute("SELECT status FROM executions").fetchall())
    return Counter(str(row[0]) for row in rows)


async def test_each_run_ends_once_and_in_order_whenever_the_process_is_killed(
    harness: Harness, home: Home, opened: Ledgers
) -> None:
    await _asked(opened)
    _killed_again_and_again(harness, home)
    left = len(await opened.runtime.read(executions.list_unfinished))
    assert harness.sessions("finish", home=str(home.root)).wait(120) == 0

    assert left, "nothing was interrupted, so no recovery was tested"
    assert set(await _statuses(opened)) == {"done"}
    assert promises.lost(harness) == []
    assert promises.reorderings(harness) == []
    assert promises.overlaps(harness) == []
    assert promises.repeated_steps(harness) == []


async def test_without_recovery_a_run_that_never_reached_the_engine_is_seen_to_wait(
    harnesses: Harnesses, home: Home, opened: Ledgers
) -> None:
    harness = harnesses(lease_ms=2_000, without=["recovery"])
    await _asked(opened)
    assert harness.sessions("talk", home=str(home.root), die="hand over").wait(60) == -9
    # It waits for a run that nobody hands to the engine.
    waiting = harness.sessions("finish", home=str(home.root))
    harness.await_line(waiting, "serving")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(5)
    waiting.kill()
    waiting.wait(60)
    assert (await _statuses(opened))["queued"] == 1
