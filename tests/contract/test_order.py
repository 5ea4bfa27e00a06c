"""In order and one at a time for each session, whatever the number of producers and workers."""

import pytest

from contract import promises
from contract.harness import Harness, Harnesses


def run(harness: Harness, *, producers: int, count: int, keys: int, together: int = 20) -> None:
    """Workers serve while producers start; returns when all is done."""
    harness.workers(3)
    processes = [
        harness.producer(number, count=count, keys=keys, work="plain", together=together)
        for number in range(producers)
    ]
    for process in processes:
        assert process.wait(120) == 0
    assert harness.drain()


def test_sessions_run_in_order_and_one_at_a_time(harnesses: Harnesses) -> None:
    harness = harnesses()
    run(harness, producers=4, count=80, keys=40)
    assert promises.overlaps(harness) == []
    assert promises.reorderings(harness) == []
    assert promises.lost(harness) == []
    assert promises.repeats(harness) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_without_the_order_of_recording_the_order_is_seen_to_break(harnesses: Harnesses) -> None:
    harness = harnesses(without=["order of recording"])
    run(harness, producers=2, count=60, keys=5)
    assert promises.reorderings(harness) != []
