"""Ids that sort by the time they were made."""

import os
import random
import re
import threading
import time

import pytest

from nexus import ids

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _milliseconds(ulid: str) -> int:
    value = 0
    for digit in ulid[:10]:
        value = value * 32 + _DIGITS.index(digit)
    return value


def test_an_id_is_a_prefix_and_a_ulid() -> None:
    assert re.fullmatch(rf"fact_[{_DIGITS}]{{26}}", ids.new("fact"))


def test_an_id_carries_the_time_it_was_made_at() -> None:
    before = time.time_ns() // 1_000_000
    made = _milliseconds(ids.Ulids().next())
    assert before <= made <= time.time_ns() // 1_000_000


def test_ids_of_one_process_are_distinct_and_sorted_also_within_a_millisecond() -> None:
    made = [ids.new("evt") for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_stay_sorted_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([100, 200, 50, 50, 199, 200, 201])
    monkeypatch.setattr("nexus.ids.time.time_ns", lambda: next(seconds) * 1_000_000_000)
    ulids = ids.Ulids()
    made = [ulids.next() for _ in range(7)]
    assert made == sorted(set(made))
    assert [_milliseconds(ulid) // 1000 for ulid in made] == [100, 200, 200, 200, 200, 200, 201]


def test_two_makers_do_not_repeat_each_other_in_the_same_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nexus.ids.time.time_ns", lambda: 1_700_000_000_000_000_000)
    one, other = ids.Ulids(), ids.Ulids()
    made = [maker.next() for maker in (one, other) for _ in range(1_000)]
    assert len(set(made)) == len(made)


def test_threads_share_one_maker_without_repeats() -> None:
    ulids = ids.Ulids()
    made: list[list[str]] = [[] for _ in range(8)]

    def make(into: list[str]) -> None:
        into.extend(ulids.next() for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(part,)) for part in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ulid for part in made for ulid in part}) == 16_000
    assert all(part == sorted(part) for part in made)


def test_a_forked_child_does_not_make_its_parents_ids() -> None:
    reader, writer = os.pipe()
    ids.new("evt")
    child = os.fork()
    if child == 0:
        os.write(writer, "\n".join(ids.new("evt") for _ in range(200)).encode())
        os._exit(0)
    mine = {ids.new("evt") for _ in range(200)}
    os.waitpid(child, 0)
    theirs = set(os.read(reader, 65536).decode().split("\n"))
    os.close(reader)
    os.close(writer)

    assert len(theirs) == 200
    assert not mine & theirs


def test_two_makers_in_one_millisecond_sort_by_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ids.Ulids(), ids.Ulids()
    for microsecond in range(100, 900, 7):
        moment = 1_700_000_000_000_000_000 + microsecond * 1_000
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        first = one.next()
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment + 1_000)
        assert first < other.next()


def test_ids_can_come_from_another_time_and_the_same_seed() -> None:
    def made() -> list[str]:
        with ids.made_by(ids.Ulids(lambda: 1_600_000_000_000_000, random.Random(3))):
            return [ids.new("evt") for _ in range(5)]

    assert made() == made() == sorted(made())
    assert _milliseconds(made()[0].removeprefix("evt_")) == 1_600_000_000_000
    assert ids.new("evt") > made()[-1]
