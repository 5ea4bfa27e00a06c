"""What was acknowledged is durable: killing the process at any moment loses none of it."""

import random
import time

import pytest

from contract import promises
from contract.harness import Harness, Harnesses


def kill_again_and_again(harness: Harness, times: int) -> None:
    """A program that starts and runs work is killed at random moments; then one is left to finish."""
    chance = random.Random(3)
    for number in range(times):
        process = harness.both(number, keys=10, work="plain")
        harness.await_line(process, "acknowledged")
        time.sleep(chance.uniform(0.05, 0.6))
        harness.kill(process)
    harness.workers(1)
    assert harness.drain()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_no_acknowledged_execution_is_lost_to_kill_9(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=2_000)
    kill_again_and_again(harness, times=4)
    assert promises.lost(harness) == []
    assert promises.reorderings(harness) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_acknowledging_before_the_commit_is_seen(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=2_000, without=["commit before acknowledging"])
    kill_again_and_again(harness, times=1)
    assert promises.lost(harness) != []
