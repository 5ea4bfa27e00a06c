"""A forget that is killed, held up or overtaken by other writers still ends with nothing left."""

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import apsw
import pytest

from acceptance.forgotten import (
    ARGUMENTS,
    INDEXES,
    assert_forgotten,
    assert_guarded,
    built,
    connection,
    counts,
    holding,
    index_blocks,
)
from acceptance.marked_home import RANGE, STEMS, THREAD_ID, MarkedHome
from acceptance.marked_rows import NOBODY
from acceptance.program import nexus, start_program
from nexus import config, ids
from nexus.home import LEDGERS, Home
from nexus.ledgers import Ledgers, forgetting
from nexus.ledgers.forgetting import planning, removal
from nexus.ledgers.forgetting.planning import Counts, Entry
from nexus.ledgers.forgetting.sets import Sets, attach_all

_ATTEMPTS = 10


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> MarkedHome:
    return built(tmp_path_factory.mktemp("small"), 5_000, 1_000)


@pytest.fixture
def copied(marked: MarkedHome, tmp_path: Path) -> Iterator[Home]:
    root = tmp_path / "copied"
    shutil.copytree(marked.home.root, root)
    yield Home(root)
    shutil.rmtree(root)


@pytest.mark.parametrize("case", ["entity", "range"])
def test_a_forget_that_was_killed_is_finished_by_resuming(
    case: str, marked: MarkedHome, tmp_path: Path
) -> None:
    for attempt in range(_ATTEMPTS):
        home = Home(tmp_path / f"attempt-{attempt}")
        shutil.copytree(marked.home.root, home.root)
        if _killed_after_one_ledger(home, case, marked):
            break
    else:
        pytest.fail("the program was always quicker than the kill")
    assert holding(home, STEMS[case]) != [set()]
    assert_guarded(home)
    done = nexus(home.root, "forget", "resume", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["removed"] == +marked.tally[case]
    assert_forgotten(home, marked, case)
    assert_guarded(home)
    assert "Nothing to resume" in nexus(home.root, "forget", "resume").stdout


def _killed_after_one_ledger(home: Home, case: str, marked: MarkedHome) -> bool:
    """Kill the program once the facts are gone. False where it was quicker."""
    others = sum(marked.tally[owner]["memory.facts"] for owner in marked.tally if owner != case)
    memory = connection(home, "memory")
    words = ("--home", str(home.root), "forget", case, *ARGUMENTS[case], "--yes")
    process = start_program(*words, stdout=subprocess.DEVNULL)
    while memory.execute("SELECT count(*) FROM facts").get != others and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    memory.close()
    return _unfinished(home) == 1


def _unfinished(home: Home) -> int:
    runtime = connection(home, "runtime")
    found = cast("int", runtime.execute("SELECT count(*) FROM forgets WHERE completed_at IS NULL").get)
    runtime.close()
    return found


async def test_the_next_forget_finishes_one_that_was_interrupted(marked: MarkedHome, copied: Home) -> None:
    async with Ledgers(copied, config.LedgersConfig()) as ledgers:
        await _remove_without_scrubbing(ledgers, forgetting.time_range(*RANGE))
    done = nexus(copied.root, "forget", "thread", THREAD_ID, "--yes")
    assert done.returncode == 0
    assert "Finished fgt_" in done.stderr
    assert _unfinished(copied) == 0
    assert holding(copied, STEMS["range"], STEMS["thread"]) == [set(), set()]


async def test_rows_removed_without_scrubbing_still_stand_in_the_files(
    marked: MarkedHome, copied: Home
) -> None:
    """The test of the tests: each step of scrubbing is needed, and its lack is seen."""
    stem = STEMS["range"]
    async with Ledgers(copied, config.LedgersConfig()) as ledgers:
        await _remove_without_scrubbing(ledgers, forgetting.time_range(*RANGE))
        gone = counts(marked.home) - counts(copied)
        assert gone == +marked.tally["range"]
        assert index_blocks(copied, "events", stem) > 0
        assert _ledgers_holding(copied, stem) >= {"events", "memory", "agents", "runtime"}
        for ledger, index in INDEXES.items():
            await ledgers[ledger].maintain(partial(_optimize, index))
        assert index_blocks(copied, "events", stem) == 0
        assert _ledgers_holding(copied, stem) >= {"events", "memory", "agents", "runtime"}
        assert len(await forgetting.resume(ledgers)) == 1
    assert_forgotten(copied, marked, "range")


async def _remove_without_scrubbing(ledgers: Ledgers, target: forgetting.Target) -> None:
    """As far as a forget comes that is killed before it writes the ledgers anew."""
    planner = attach_all(ledgers.home)
    sets = Sets(planner)
    plan = planning.make(sets, target)
    entry = Entry(forget_id=ids.new("fgt"), target=target, counts=Counts().and_those_of(plan))
    await ledgers.runtime.write(entry.begin, sets=sets, actor="test")
    planner.close()
    kinds = await ledgers.runtime.read(entry.kinds)
    for ledger in LEDGERS:
        await removal.remove(ledgers[ledger], ledgers.home, entry.forget_id, kinds)


def _optimize(index: str, opened: apsw.Connection) -> None:
    opened.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")
    opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _ledgers_holding(home: Home, word: str) -> set[str]:
    return {path.name.partition(".")[0] for path in holding(home, word)[0] if path.parent == home.data}


def test_a_reader_that_holds_the_wal_is_told_of_and_the_rest_can_be_finished(
    marked: MarkedHome, copied: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_LEDGERS_BUSY_TIMEOUT_MS", "300")
    reader = connection(copied, "events")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchall()
    done = nexus(copied.root, "forget", "thread", THREAD_ID, "--yes")
    reader.close()
    assert done.returncode == 1
    assert "events.db-wal" in done.stderr
    assert "memory.db" not in done.stderr
    assert "nexus forget resume" in done.stderr
    assert nexus(copied.root, "forget", "resume").returncode == 0
    assert_forgotten(copied, marked, "thread")


async def test_what_others_write_meanwhile_goes_too(marked: MarkedHome, copied: Home) -> None:
    """An event that arrives in a thread while it is forgotten is not left without its thread."""

    steps: list[str] = []

    def say_something(step: str) -> None:
        steps.append(step)
        if steps.count("Removing from memory") == 1 and step == "Removing from memory":
            other = connection(copied, "events")
            other.execute(
                "INSERT INTO events (id, thread_id, channel, direction, content) "
                "VALUES ('evt_late', ?, 'email', 'inbound', ?)",
                (THREAD_ID, f"late {STEMS['thread']}"),
            )
            other.close()

    async with Ledgers(copied, config.LedgersConfig()) as ledgers:
        target = await forgetting.find(ledgers, lambda opened: forgetting.thread(opened, THREAD_ID))
        report = await forgetting.forget(ledgers, target, actor="test", tell=say_something)
    assert report is not None
    assert report.counts.removed["events.events"] == marked.tally["thread"]["events.events"] + 1
    assert_forgotten(copied, marked, "thread")


def test_the_home_serves_other_processes_meanwhile(marked: MarkedHome, copied: Home) -> None:
    """Another process writes facts about somebody else all the while and sees no error."""
    words = ("--home", str(copied.root), "forget", "entity", *ARGUMENTS["entity"], "--yes")
    process = start_program(*words, stdout=subprocess.DEVNULL)
    writer = connection(copied, "memory")
    writer.set_busy_timeout(30_000)
    written = 0
    while process.poll() is None:
        writer.execute("INSERT INTO facts (id, fact) VALUES (?, 'it rains')", (f"fact_rain_{written}",))
        written += 1
        time.sleep(0.002)
    assert process.returncode == 0
    assert written > 0
    assert writer.execute("SELECT count(*) FROM facts WHERE fact = 'it rains'").get == written
    writer.close()
    assert marked.tally[NOBODY]["memory.facts"] > 0
    assert holding(copied, STEMS["entity"]) == [set()]
