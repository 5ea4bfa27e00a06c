"""The session queue, on a real engine and a real home."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nexus import ids
from nexus.broker.queue import ActiveRun, SessionQueue, lane_of
from nexus.engine import Engine, Settings
from nexus.engine.errors import UnknownWorkError, WorkCancelledError, WorkFailedError, WorkTimeoutError
from nexus.engine.settings import DEFAULT_LANES
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions


class Stage:
    """A queue over one home, whose runs say what they got and wait for a gate where they are told to."""

    def __init__(self, engine: Engine, queue: SessionQueue, ledgers: Ledgers) -> None:
        self.engine = engine
        self.queue = queue
        self.ledgers = ledgers
        self.seen: list[Any] = []
        self.running: dict[str, int] = {}
        self.most_at_once: dict[str, int] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.begun = asyncio.Event()
        queue.register("talk", self.talk)

    async def talk(self, turn: ActiveRun) -> dict[str, Any]:
        label = turn.execution.session_label
        self.running[label] = self.running.get(label, 0) + 1
        self.most_at_once[label] = max(self.most_at_once.get(label, 0), self.running[label])
        self.begun.set()
        try:
            said = [each.input for each in (turn.execution, *turn.collected)]
            if said[0] == "fail":
                raise ValueError("it was told to")
            if said[0] in self.gates:
                await self.gates[said[0]].wait()
            said += [each.input for each in await turn.load_steered()]
            self.seen.append(said)
            return {"said": said}
        finally:
            self.running[label] -= 1

    async def say(self, input_: str, label: str = "chat:1", **options: Any) -> Any:
        return await self.queue.start_execution(
            "talk", input_, session_label=label, request_id="req_1", **options
        )

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())


@asynccontextmanager
async def staged(
    ledgers: Ledgers, folder: Path, *, serve: bool = True, debounce_ms: int = 300
) -> AsyncGenerator[Stage]:
    engine = Engine(Settings(database=folder / "engine.db", stop_grace_ms=200))
    queue = SessionQueue(engine, ledgers, debounce_ms=debounce_ms)
    stage = Stage(engine, queue, ledgers)
    await engine.open(serve=serve)
    try:
        yield stage
    finally:
        await engine.close()


@pytest.fixture
async def stage(opened: Ledgers, tmp_path: Path) -> AsyncIterator[Stage]:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_0')")
    )
    async with staged(opened, tmp_path) as made:
        yield made


async def until_begun(stage: Stage) -> None:
    await asyncio.wait_for(stage.begun.wait(), 20)


async def test_a_handle_comes_at_once_and_the_result_when_it_is_there(stage: Stage) -> None:
    gate = stage.gate("hello")
    handle = await stage.say("hello")
    await until_begun(stage)
    assert (await handle.state()).status == "running"
    gate.set()

    assert await handle.result() == {"said": ["hello"]}
    state = await handle.state()
    assert (state.status, state.lane, state.error) == ("done", "chat", None)
    assert state.enqueued_at <= str(state.started_at) <= str(state.ended_at)
    root = await stage.ledgers.runtime.read(lambda c: c.execute("SELECT root_request_id FROM executions").get)
    assert root == "req_0"


async def test_a_session_runs_one_at_a_time_in_the_order_of_asking(stage: Stage) -> None:
    handles = [await stage.say(f"{n}", f"chat:{n % 3}") for n in range(30)]
    for handle in handles:
        await handle.result()

    for session in range(3):
        said = [int(one[0]) for one in stage.seen if int(one[0]) % 3 == session]
        assert said == sorted(said)
    assert set(stage.most_at_once.values()) == {1}


async def test_sessions_run_side_by_side(stage: Stage) -> None:
    stage.gate("slow")
    slow = await stage.say("slow", "chat:1")
    assert await (await stage.say("quick", "chat:2")).result() == {"said": ["quick"]}
    stage.gate("slow").set()
    await slow.result()


async def test_what_is_said_within_the_debounce_becomes_one_run(stage: Stage) -> None:
    gate = stage.gate("hold")
    await stage.say("hold")  # until everything is said, however long that takes
    handles = [await stage.say(f"{n}", mode="collect") for n in range(3)]
    later = await stage.say("after", mode="followup")
    gate.set()

    assert [await handle.result() for handle in handles] == [{"said": ["0", "1", "2"]}] * 3
    assert await later.result() == {"said": ["after"]}
    assert stage.seen == [["hold"], ["0", "1", "2"], ["after"]]
    assert [(await handle.state()).taken_by for handle in handles] == [None, handles[0].id, handles[0].id]


async def test_a_run_that_collects_waits_for_what_may_still_be_said(opened: Ledgers, tmp_path: Path) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_0')")
    )
    async with staged(opened, tmp_path, debounce_ms=5_000) as stage, asyncio.timeout(60):
        first = await stage.say("first", mode="collect")
        while (await first.state()).status != "running":
            await asyncio.sleep(0.01)
        await stage.say("second", mode="collect")
        assert await first.result() == {"said": ["first", "second"]}


async def test_a_message_from_before_the_clock_was_set_back_does_not_wait_for_its_time(
    opened: Ledgers, tmp_path: Path
) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_0')")
    )
    async with staged(opened, tmp_path, serve=False) as stage:
        handle = await stage.say("hello", mode="collect")
        await opened.runtime.write(
            lambda c: c.execute("UPDATE executions SET enqueued_at = '2126-01-01T00:00:00.000Z'")
        )
    async with staged(opened, tmp_path) as stage, asyncio.timeout(60):
        assert await stage.queue.run(handle.id).result() == {"said": ["hello"]}


async def test_collecting_does_not_reach_past_a_follow_up(stage: Stage) -> None:
    gate = stage.gate("hold")
    await stage.say("hold")
    modes = ["collect", "collect", "followup", "collect"]
    handles = [await stage.say(f"{n}", mode=mode) for n, mode in enumerate(modes)]
    gate.set()
    for handle in handles:
        await handle.result()

    assert stage.seen == [["hold"], ["0", "1"], ["2"], ["3"]]


async def test_a_steer_reaches_the_run_under_way(stage: Stage) -> None:
    gate = stage.gate("long")
    running = await stage.say("long")
    await until_begun(stage)
    steer = await stage.say("and be brief", mode="steer")
    gate.set()

    assert await running.result() == {"said": ["long", "and be brief"]}
    assert await steer.result() == {"said": ["long", "and be brief"]}
    assert stage.seen == [["long", "and be brief"]]


async def test_a_repeated_run_has_what_it_took_and_takes_nothing_new(opened: Ledgers, tmp_path: Path) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_0')")
    )
    heard: list[list[Any]] = []
    waits = asyncio.Event()

    async def talk(turn: ActiveRun) -> list[Any]:
        first = not heard
        steered = await turn.load_steered(None if first else 1)
        said = [each.input for each in (turn.execution, *turn.collected, *steered)]
        heard.append(said)
        waits.set()
        await asyncio.sleep(60 if first else 0)
        return said + [each.input for each in await turn.load_steered()]

    async with staged(opened, tmp_path, serve=False) as stage:
        first = await stage.say("first", mode="collect")
        await stage.say("second", mode="collect")
        await stage.say("and be brief", mode="steer")
    async with staged(opened, tmp_path) as stage:
        stage.queue.register("talk", talk)
        await asyncio.wait_for(waits.wait(), 20)
        late = [await stage.say("third", mode="steer"), await stage.say("fourth", mode="collect")]
    async with staged(opened, tmp_path) as stage, asyncio.timeout(60):
        stage.queue.register("talk", talk)
        assert await stage.queue.run(first.id).result() == ["first", "second", "and be brief", "third"]
        await stage.queue.run(late[1].id).result()

    assert heard == [["first", "second", "and be brief"]] * 2 + [["fourth"]]


async def test_a_steer_that_no_run_takes_runs_by_itself(stage: Stage) -> None:
    assert await (await stage.say("alone", mode="steer")).result() == {"said": ["alone"]}


async def test_what_a_failed_run_had_taken_is_answered_all_the_same(stage: Stage) -> None:
    failing = await stage.say("fail", mode="collect")
    second = await stage.say("second", mode="collect")

    with pytest.raises(WorkFailedError, match="it was told to"):
        await failing.result()
    assert await second.result() == {"said": ["second"]}


async def test_an_interrupt_stops_what_runs_and_drops_what_waits(stage: Stage) -> None:
    stage.gate("long")
    running = await stage.say("long")
    await until_begun(stage)
    waiting = await stage.say("waiting")
    instead = await stage.say("instead", mode="interrupt")

    assert await instead.result() == {"said": ["instead"]}
    for handle in (running, waiting):
        with pytest.raises(WorkCancelledError):
            await handle.result()
        assert (await handle.state()).status == "cancelled"
    assert stage.most_at_once == {"chat:1": 1}
    assert stage.seen == [["instead"]]


async def test_a_time_limit_ends_a_run_and_the_session_goes_on(stage: Stage) -> None:
    stage.gate("long")
    late = await stage.say("long", timeout_ms=300)
    after = await stage.say("after")

    with pytest.raises(WorkTimeoutError):
        await late.result()
    assert await after.result() == {"said": ["after"]}
    assert (await late.state()).status == "timeout"


async def test_cancelling_what_has_ended_changes_nothing(stage: Stage) -> None:
    handle = await stage.say("hello")
    await handle.result()

    assert await handle.cancel() is False
    assert (await handle.state()).status == "done"


async def test_a_run_without_a_request_or_a_body_is_refused(stage: Stage) -> None:
    with pytest.raises(UsageError, match="req_none"):
        await stage.queue.start_execution("talk", "x", session_label="chat:1", request_id="req_none")
    with pytest.raises(UnknownWorkError, match="Known: talk"):
        await stage.queue.start_execution("sing", "x", session_label="chat:1", request_id="req_1")


async def test_asking_again_under_the_same_id_finds_the_first_run(stage: Stage) -> None:
    id_ = ids.new("exe")
    gate = stage.gate("once")
    first = await stage.say("once", execution_id=id_)
    while_it_runs = await stage.say("once", execution_id=id_)
    gate.set()

    assert await first.result() == await while_it_runs.result() == {"said": ["once"]}
    after_its_end = await stage.say("once", execution_id=id_)
    assert await after_its_end.result() == {"said": ["once"]}
    assert stage.seen == [["once"]]


async def test_an_id_that_names_another_run_is_refused(stage: Stage) -> None:
    handle = await stage.say("mine", "chat:1")
    with pytest.raises(UsageError, match="chat:1"):
        await stage.say("mine", "chat:2", execution_id=handle.id)


async def test_order_is_that_of_the_calls_however_old_a_given_id_is(stage: Stage) -> None:
    made_early = ids.new("exe")
    gate = stage.gate("first")
    handles = [
        await stage.say("first"),
        await stage.say("second", mode="collect"),
        await stage.say("third", mode="collect", execution_id=made_early),
        await stage.say("fourth"),
    ]
    gate.set()
    for handle in handles:
        await handle.result()

    assert stage.seen == [["first"], ["second", "third"], ["fourth"]]


async def _recorded_only(
    stage: Stage, input_: str, mode: executions.Mode = "followup", timeout_ms: int | None = None
) -> str:
    """What a crash leaves behind between the ledger's record and the engine's."""
    new = executions.NewExecution(
        id=ids.new("exe"),
        request_id="req_1",
        session_label="chat:1",
        lane="chat",
        work="talk",
        mode=mode,
        input=input_,
        timeout_ms=timeout_ms,
    )
    await stage.ledgers.runtime.write(executions.enqueue, new)
    return new.id


async def test_what_was_recorded_and_never_reached_the_engine_is_recovered(stage: Stage) -> None:
    id_ = await _recorded_only(stage, "x")

    assert await stage.queue.hand_over_missing() == 1
    assert await stage.queue.run(id_).result() == {"said": ["x"]}
    assert await stage.queue.hand_over_missing() == 0


async def test_a_recovered_run_keeps_its_time_limit(stage: Stage) -> None:
    stage.gate("long")
    id_ = await _recorded_only(stage, "long", timeout_ms=200)

    await stage.queue.hand_over_missing()
    with pytest.raises(WorkTimeoutError):
        await stage.queue.run(id_).result()


async def test_a_recovered_interrupt_stops_what_runs(stage: Stage) -> None:
    stage.gate("long")
    running = await stage.say("long")
    await until_begun(stage)
    id_ = await _recorded_only(stage, "instead", mode="interrupt")

    await stage.queue.hand_over_missing()
    assert await stage.queue.run(id_).result() == {"said": ["instead"]}
    with pytest.raises(WorkCancelledError):
        await running.result()


async def test_an_end_that_only_the_engine_knows_is_recorded(stage: Stage) -> None:
    gate = stage.gate("first")
    first = await stage.say("first")
    waiting = await stage.say("waiting")
    await until_begun(stage)
    # As `nexus engine cancel` of another program does, on a host where the home is not open.
    await stage.engine.cancel(waiting.id)

    with pytest.raises(WorkCancelledError):
        await waiting.result()
    assert (await waiting.state()).status == "cancelled"
    gate.set()
    await first.result()


async def test_another_process_may_ask_while_this_one_serves(opened: Ledgers, tmp_path: Path) -> None:
    await opened.runtime.write(
        lambda c: c.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_1')")
    )
    async with staged(opened, tmp_path, serve=False) as asking:
        handle = await asking.say("left for later")
        assert (await handle.state()).status == "queued"
    async with staged(opened, tmp_path) as serving:
        assert await serving.queue.run(handle.id).result() == {"said": ["left for later"]}


@pytest.mark.parametrize(
    ("label", "lane"),
    [
        ("cli:tyler", "chat"),
        ("meeseeks:memory-writer:cli:tyler", "background"),
        ("worker:req_1", "workers"),
        ("subworker:req_2", "subworkers"),
        ("reflection:exe_1:exe_2", "reflections"),
        ("desk:thread-1", "channels"),
        ("desktop:thread-1", "chat"),
    ],
)
def test_the_lane_follows_from_the_label(label: str, lane: str) -> None:
    assert lane_of(label, {"desk", "worker"}) == lane


async def test_runs_of_channels_that_wait_keep_nobody_out_of_the_chat(stage: Stage) -> None:
    gate = stage.gate("hold")
    count = 1 + sum(lane.limit for lane in DEFAULT_LANES if lane.name in {"chat", "channels"})
    held = [await stage.say("hold", f"desk:{number}", lane="channels") for number in range(count)]
    async with asyncio.timeout(60):
        assert await (await stage.say("hello", "main")).result() == {"said": ["hello"]}
    gate.set()
    for each in held:
        await each.result()
    assert set(stage.most_at_once.values()) == {1}


async def test_a_session_stays_in_its_lane_while_it_has_runs_there(stage: Stage) -> None:
    gate = stage.gate("hold")
    first = await stage.say("hold", "desk:1")
    await until_begun(stage)
    second = await stage.say("next", "desk:1", lane="channels")
    assert (await second.state()).lane == "chat"
    gate.set()
    await first.result()
    await second.result()
    third = await stage.say("later", "desk:1", lane="channels")
    await third.result()
    assert ((await third.state()).lane, stage.most_at_once) == ("channels", {"desk:1": 1})


async def test_cancelled_at_whatever_moment_of_its_beginning_its_end_is_known(stage: Stage) -> None:
    stage.gate("hold")
    for number in range(40):
        handle = await stage.say("hold", f"chat:{number}")
        await asyncio.sleep(number * 0.001)
        assert await handle.cancel()
        async with asyncio.timeout(60):
            while not await handle.is_over():
                await asyncio.sleep(0.01)
        assert (await handle.state()).status == "cancelled"
