import asyncio

import pytest

from nexus.broker.agent.slots import (
    BACKGROUND,
    LONGEST_DELAY_S,
    MOST_YIELDS,
    PERSON,
    WORKER,
    Delay,
    Slots,
    YieldedError,
    stopped_time,
    time_limit_of,
    time_limited,
)


class Log(list[str]):
    """What happened, and a place to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._grown = asyncio.Event()

    def add(self, what: str) -> None:
        self.append(what)
        self._grown.set()

    async def until(self, *whole: str) -> None:
        async with asyncio.timeout(10):
            while self != list(whole):
                self._grown.clear()
                await self._grown.wait()


async def _ask(
    slots: Slots,
    name: str,
    priority: int,
    log: Log,
    let_go: asyncio.Event,
    *,
    yields: bool = False,
    delay: Delay | None = None,
) -> None:
    try:
        with await slots.enter(
            "local",
            1,
            priority,
            name=name,
            yields=yields,
            delay=delay,
            on_wait=lambda users: log.add(f"{name} waits for {users or 'a quiet moment'}"),
        ):
            log.add(name)
            await let_go.wait()
    except YieldedError:
        log.add(f"{name} yielded")


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_person_is_next_whoever_waits_already() -> None:
    slots, log, let_go = Slots(), Log(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        asked = (("first", PERSON), ("writer", BACKGROUND), ("worker", WORKER), ("second", PERSON))
        for name, priority in asked:
            group.create_task(_ask(slots, name, priority, log, let_go))
            await _settle()
        assert [each for each in log if "waits" not in each] == ["first"], "one at a time"
        let_go.set()
    assert [each for each in log if "waits" not in each] == ["first", "second", "worker", "writer"]
    assert "second waits for first" in log


async def test_background_work_is_canceled_as_soon_as_a_person_needs_its_place() -> None:
    slots, log = Slots(), Log()
    writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, asyncio.Event(), yields=True))
    await log.until("writer")
    person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go := asyncio.Event()))
    await log.until("writer", "person waits for writer", "writer yielded", "person")
    let_go.set()
    await asyncio.gather(writer, person)
    assert writer.cancelling() == 0, "whoever waits for it sees no cancellation"


async def test_what_cannot_be_canceled_at_the_server_is_waited_for() -> None:
    slots, log = Slots(), Log()
    writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, written := asyncio.Event()))
    await log.until("writer")
    person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go := asyncio.Event()))
    await log.until("writer", "person waits for writer")
    written.set()
    await log.until("writer", "person waits for writer", "person")
    let_go.set()
    await asyncio.gather(writer, person)


async def test_with_one_slot_background_work_waits_until_nobody_has_used_it_for_a_while() -> None:
    slots, log, let_go = Slots(quiet_s=3_600), Log(), asyncio.Event()
    let_go.set()
    await _ask(slots, "person", PERSON, log, let_go)
    writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, let_go, yields=True))
    await log.until("person", "writer waits for a quiet moment")
    await _ask(slots, "person", PERSON, log, let_go)
    assert log.count("person") == 2, "it keeps nobody out meanwhile"
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer

    slots = Slots(quiet_s=0.01)
    log.clear()
    await _ask(slots, "person", PERSON, log, let_go)
    await _ask(slots, "writer", BACKGROUND, log, let_go, yields=True)
    assert log[0] == "person"
    assert log[-1] == "writer"


async def test_background_work_that_has_made_way_often_enough_is_finished_first() -> None:
    slots, log, delay, stay = Slots(quiet_s=0.0), Log(), Delay(), asyncio.Event()
    for _ in range(MOST_YIELDS):
        writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, stay, yields=True, delay=delay))
        await log.until("writer")
        person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go := asyncio.Event()))
        await log.until("writer", "person waits for writer", "writer yielded", "person")
        let_go.set()
        await asyncio.gather(writer, person)
        log.clear()

    slots, let_go = Slots(quiet_s=3_600), asyncio.Event()
    let_go.set()
    await _ask(slots, "person", PERSON, log, let_go)
    fresh = asyncio.create_task(_ask(slots, "fresh", BACKGROUND, log, let_go, yields=True))
    await log.until("person", "fresh waits for a quiet moment")
    log.clear()
    writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, stay, yields=True, delay=delay))
    await log.until("writer")
    person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go))
    await log.until("writer", "person waits for writer", "fresh waits for writer")
    stay.set()
    await asyncio.gather(writer, person)
    assert "writer yielded" not in log
    assert "fresh" not in log, "what has not waited long waits for a quiet moment"
    fresh.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fresh


async def test_background_work_waits_for_a_quiet_moment_only_so_long() -> None:
    slots, log, let_go = Slots(quiet_s=3_600), Log(), asyncio.Event()
    let_go.set()
    await _ask(slots, "person", PERSON, log, let_go)
    # It has waited for nearly as long as it may.
    delay = Delay(began_at=asyncio.get_running_loop().time() - LONGEST_DELAY_S + 0.05)
    writer = asyncio.create_task(
        _ask(slots, "writer", BACKGROUND, log, stay := asyncio.Event(), yields=True, delay=delay)
    )
    async with asyncio.timeout(10):
        while "writer" not in log:
            await asyncio.sleep(0.01)
    person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go))
    while "person waits for writer" not in log:
        await asyncio.sleep(0)
    await _settle()
    assert not writer.done(), "it is finished now"
    stay.set()
    await asyncio.gather(writer, person)
    assert "writer yielded" not in log


async def test_who_comes_in_the_moment_of_its_turn_is_made_room_for() -> None:
    slots, log = Slots(), Log()
    with await slots.enter("local", 1, PERSON):
        writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, asyncio.Event(), yields=True))
        await _settle()
    # The writer has its turn now, and does not know it yet.
    async with asyncio.timeout(10):
        with await slots.enter("local", 1, PERSON):
            await writer
    assert log[-2:] == ["writer", "writer yielded"]


async def test_who_is_stopped_while_it_makes_room_is_stopped() -> None:
    slots, log = Slots(), Log()
    writer = asyncio.create_task(_ask(slots, "writer", BACKGROUND, log, asyncio.Event(), yields=True))
    await log.until("writer")
    person = asyncio.create_task(_ask(slots, "person", PERSON, log, let_go := asyncio.Event()))
    let_go.set()
    while "person waits for writer" not in log:
        await asyncio.sleep(0)
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    await person


async def test_who_stops_waiting_keeps_nobody_from_a_place() -> None:
    slots, log, let_go = Slots(), Log(), asyncio.Event()
    running = asyncio.create_task(_ask(slots, "running", PERSON, log, let_go))
    await _settle()
    waiting = asyncio.create_task(_ask(slots, "waiting", PERSON, log, let_go))
    last = asyncio.create_task(_ask(slots, "last", WORKER, log, let_go))
    await _settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    let_go.set()
    await asyncio.gather(running, last)
    assert [each for each in log if "waits" not in each] == ["running", "last"]


async def test_who_is_stopped_in_the_moment_of_its_turn_hands_it_on() -> None:
    slots, log, let_go = Slots(), Log(), asyncio.Event()
    running = asyncio.create_task(_ask(slots, "running", PERSON, log, let_go))
    await _settle()
    waiting = asyncio.create_task(_ask(slots, "waiting", PERSON, log, asyncio.Event()))
    last = asyncio.create_task(_ask(slots, "last", WORKER, log, let_go))
    await _settle()
    let_go.set()
    await running
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(10):
        await last


async def test_providers_without_a_limit_do_not_wait() -> None:
    slots, log, let_go = Slots(), Log(), asyncio.Event()

    async def ask() -> None:
        with await slots.enter("cloud", None, PERSON):
            log.add("in")
            await let_go.wait()

    tasks = [asyncio.create_task(ask()) for _ in range(3)]
    await log.until("in", "in", "in")
    let_go.set()
    await asyncio.gather(*tasks)


async def test_the_time_of_an_invocation_stands_still_while_a_run_of_it_waits() -> None:
    async with asyncio.timeout(60) as limit:
        with time_limited("inv_1", limit):
            until = limit.when()
            with stopped_time(time_limit_of("inv_1")):
                assert limit.when() is None
                await asyncio.sleep(0.01)
            assert until is not None
            assert (limit.when() or 0.0) > until
    with stopped_time(time_limit_of("inv_1")):
        assert time_limit_of("inv_1") is None


async def test_the_time_of_an_invocation_goes_on_when_the_last_of_its_runs_does() -> None:
    async with asyncio.timeout(60) as limit:
        with stopped_time(limit):
            second = stopped_time(limit)
            second.__enter__()
        assert limit.when() is None, "the other still waits"
        second.__exit__(None, None, None)
        assert limit.when() is not None


async def test_a_time_limit_that_expires_cannot_be_stopped() -> None:
    stopped: list[asyncio.Timeout] = []

    async def expire() -> None:
        async with asyncio.timeout(0) as limit:
            try:
                await asyncio.Event().wait()
            finally:
                with stopped_time(limit):
                    stopped.append(limit)

    with pytest.raises(TimeoutError):
        await expire()
    assert [each.expired() for each in stopped] == [True]
