"""Killed and frozen workers: their work is taken over, recorded steps are not repeated, nothing is lost."""

import random
import subprocess
import time

import pytest

from contract import promises
from contract.harness import Harness, Harnesses

_LEASE_MS = 3_000


def _produce(
    harness: Harness, *, producers: int, count: int, keys: int, work: str = "steps", **payload: int
) -> None:
    processes = [
        harness.producer(number, count=count, keys=keys, work=work, payload=payload)
        for number in range(producers)
    ]
    for process in processes:
        assert process.wait(120) == 0


def _kill_some(harness: Harness, workers: list[subprocess.Popen[bytes]], times: int, every_s: float) -> None:
    """Kill a random worker again and again, each time starting another."""
    chance = random.Random(7)
    for _ in range(times):
        time.sleep(every_s)
        victim = _at_work(harness, workers, chance)
        workers.remove(victim)
        harness.kill(victim)
        workers.append(harness.worker())


def _at_work(
    harness: Harness, workers: list[subprocess.Popen[bytes]], chance: random.Random
) -> subprocess.Popen[bytes]:
    """A worker that has begun something: one of them may have claimed all that there is."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pids = {line["pid"] for line in harness.lines() if line["what"] == "begin"}
        if busy := [worker for worker in workers if worker.pid in pids]:
            return chance.choice(busy)
        time.sleep(0.05)
    raise AssertionError("no worker has begun anything")


def test_the_work_of_killed_workers_is_taken_over(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS)
    workers = harness.workers(3)
    _produce(harness, producers=2, count=50, keys=20, ms=250, step_ms=10)
    _kill_some(harness, workers, times=2, every_s=0.3)
    assert harness.drain()
    assert promises.lost(harness) == []
    assert promises.overlaps(harness) == []
    assert promises.reorderings(harness) == []
    assert promises.repeated_steps(harness) == []
    delays = promises.takeover_delays_ms(harness)
    assert delays, "no execution was interrupted, so no takeover was tested"
    assert max(delays) < 5_000


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_without_takeover_the_loss_is_seen(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS, without=["takeover"])
    (worker,) = harness.workers(1)
    _produce(harness, producers=1, count=10, keys=5, ms=2_000)
    time.sleep(0.5)
    harness.kill(worker)
    harness.workers(1)
    assert not harness.drain(timeout_s=_LEASE_MS / 1000 + 2)
    assert promises.lost(harness) != []


def _killed_between_steps_side_by_side(harness: Harness) -> None:
    """Of steps that run side by side some are recorded and some are not when their worker is killed."""
    (worker,) = harness.workers(1)
    producer = harness.producer(0, count=6, keys=6, work="parallel", payload={"step_ms": 400})
    harness.await_line(worker, "recorded")
    harness.kill(worker)
    assert producer.wait(120) == 0
    harness.without = []  # where the order is by chance, the next process may well find another one
    harness.workers(1)
    assert harness.drain()


def test_steps_side_by_side_keep_their_places_over_a_crash(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS)
    _killed_between_steps_side_by_side(harness)
    assert promises.lost(harness) == []
    assert promises.misplaced_results(harness) == []
    assert promises.repeated_steps(harness) == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_without_an_order_of_starting_steps_the_confusion_is_seen(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS, without=["order of starting steps"])
    _killed_between_steps_side_by_side(harness)
    assert promises.misplaced_results(harness) != []


def _frozen_at_work(harness: Harness) -> None:
    """A worker is frozen in the middle of its steps while another one is there, and wakes up."""
    (frozen,) = harness.workers(1)
    _produce(harness, producers=1, count=4, keys=4, ms=50, step_ms=2_000)
    harness.await_line(frozen, "ran")
    with harness.freeze(frozen):
        harness.workers(1)
        time.sleep(2)
    assert harness.drain()
    time.sleep(0.5)


def test_a_frozen_worker_is_waited_for_and_its_work_is_done_once(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS)
    _frozen_at_work(harness)
    assert promises.lost(harness) == []
    assert promises.overlaps(harness) == []
    assert promises.repeated_steps(harness) == []
    assert [line["what"] for line in harness.lines()].count("ran") == 8


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_without_one_owner_the_double_work_is_seen(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS, without=["one owner"])
    _frozen_at_work(harness)
    assert [line["what"] for line in harness.lines()].count("ran") > 8


def test_a_worker_that_stands_by_takes_over_from_a_frozen_one_that_is_ended(harnesses: Harnesses) -> None:
    harness = harnesses(lease_ms=_LEASE_MS)
    (frozen,) = harness.workers(1)
    # Before the freeze: one that is frozen while it writes keeps a SQLite file from being opened.
    (other,) = harness.workers(1)
    _produce(harness, producers=1, count=4, keys=4, ms=50, step_ms=500)
    harness.await_line(frozen, "ran")
    with harness.freeze(frozen):
        harness.kill(frozen)
        harness.await_line(other, "ran")
    assert harness.drain()
    assert promises.lost(harness) == []
    assert promises.overlaps(harness) == []
