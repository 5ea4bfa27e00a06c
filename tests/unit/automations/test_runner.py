"""What happens at a hook point: order, time, failure, circuit, and async automations."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from nexus import clock
from nexus.automations.context import Context, NoServices, Occasion
from nexus.cli import doctor, program
from nexus.context import AssembledContext
from nexus.errors import UnknownHookPointError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.invocations import Invocation
from unit.automations.stage import QUICK, Stage, request, staged

_CONTEXT = AssembledContext(session_label="s", role="worker", system_prompt="", tools=(), current_message="")


@pytest.fixture
async def stage(opened: Ledgers, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(opened, tmp_path) as made:
        yield made


async def test_firing_an_unknown_name_is_an_error(stage: Stage) -> None:
    with pytest.raises(UnknownHookPointError, match="after:lunch"):
        await stage.fire("after:lunch")


async def test_an_empty_hook_point_records_nothing(stage: Stage) -> None:
    returned = await stage.fire()
    assert not returned.enrich
    count = await stage.ledgers.runtime.read(lambda c: c.execute("SELECT count(*) FROM invocations").get)
    assert count == 0


async def test_blocking_ones_run_by_priority_then_age_and_see_what_came_before(stage: Stage) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def named(name: str) -> Any:
        async def run(ctx: Context) -> dict[str, Any]:
            seen.append((name, dict(ctx.request.enrichment)))
            return {"enrich": {name: len(seen)}}

        return run

    for name, priority in (("second", 100), ("third", 100), ("first", 1)):
        await stage.code(name, named(name), priority=priority)
    returned = await stage.fire()

    assert [name for name, _ in seen] == ["first", "second", "third"]
    assert [before for _, before in seen] == [{}, {"first": 1}, {"first": 1, "second": 2}]
    assert returned.enrich == {"first": 1, "second": 2, "third": 3}


async def test_code_in_this_process_gets_the_request_itself(stage: Stage) -> None:
    given: list[object] = []
    await stage.code("looks", lambda ctx: given.append(ctx.request))
    mine = request()
    await stage.runner.fire("runAutomations", Occasion(request=mine))
    assert given == [mine]
    assert given[0] is mine


async def test_every_invocation_is_a_row(stage: Stage) -> None:
    await stage.code("good", lambda ctx: {"enrich": {"a": 1}})
    await stage.code("bad", lambda ctx: 1 / 0)
    await stage.fire()
    (good,), (bad,) = await stage.rows("good"), await stage.rows("bad")
    assert (good.status, good.result, good.automation_version) == ("done", {"enrich": {"a": 1}}, 1)
    assert (bad.status, bad.error) == ("failed", "ZeroDivisionError: division by zero")
    assert good.request_id == bad.request_id
    assert good.duration_ms is not None
    assert good.ended_at is not None


async def test_what_failed_does_not_keep_the_next_from_running(stage: Stage) -> None:
    await stage.code("bad", lambda ctx: 1 / 0, priority=1)
    await stage.code("good", lambda ctx: {"enrich": {"good": True}})
    assert (await stage.fire()).enrich == {"good": True}


async def test_one_that_takes_too_long_costs_its_time_out(stage: Stage) -> None:
    async def sleeps(ctx: Context) -> None:
        await asyncio.sleep(3600)

    await stage.code("slow", sleeps, timeout_ms=50)
    await stage.fire()
    (row,) = await stage.rows("slow")
    assert row.status == "timeout"


async def test_plain_code_that_takes_too_long_leaves_the_event_loop_free(stage: Stage) -> None:
    free, returned = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def blocks(ctx: Context) -> dict[str, Any]:
        free.wait(60)  # set below, after the time-out: on the event loop nothing could set it
        loop.call_soon_threadsafe(returned.set)
        return {"enrich": {"late": True}}

    await stage.code("slow", blocks, timeout_ms=50)
    mine = request()
    answered = await stage.runner.fire("runAutomations", Occasion(request=mine))
    assert not free.is_set()
    free.set()
    await returned.wait()
    for _ in range(3):  # what the thread hands back comes after `returned`
        await asyncio.sleep(0)
    await stage.runner.wait_until_settled()
    (row,) = await stage.rows("slow")
    assert (row.status, row.error, row.result) == ("timeout", "timed out after 50 ms", None)
    assert not answered.enrich
    assert not mine.enrichment


async def test_time_outs_of_plain_code_open_the_circuit(stage: Stage) -> None:
    free, calls = threading.Event(), list[Context]()

    def blocks(ctx: Context) -> None:
        calls.append(ctx)
        free.wait(60)

    await stage.code("slow", blocks, timeout_ms=20)
    for _ in range(QUICK.circuit_errors + 1):
        await stage.fire()
    free.set()
    assert [row.status for row in await stage.rows("slow")] == ["timeout"] * 3 + ["skipped"]
    assert (await stage.row("slow")).circuit_state == "open"
    assert len(calls) == QUICK.circuit_errors


async def test_plain_code_may_return_something_to_wait_for(stage: Stage) -> None:
    async def answer() -> dict[str, Any]:
        return {"enrich": {"later": 1}}

    await stage.code("later", lambda ctx: answer())
    assert (await stage.fire()).enrich == {"later": 1}


async def test_a_time_out_inside_of_an_automation_is_a_failure(stage: Stage) -> None:
    def gives_up(ctx: Context) -> None:
        raise TimeoutError("the calendar did not answer")

    def leaves(ctx: Context) -> None:
        raise SystemExit(1)

    await stage.code("impatient", gives_up)
    await stage.code("leaves", leaves)
    await stage.fire()
    ((impatient,), (left,)) = await stage.rows("impatient"), await stage.rows("leaves")
    assert (impatient.status, impatient.error) == ("failed", "TimeoutError: the calendar did not answer")
    assert (left.status, left.error) == ("failed", "It raised SystemExit")


async def test_a_request_does_not_wait_until_what_was_started_has_stopped(
    opened: Ledgers, tmp_path: Path
) -> None:
    class Stubborn(NoServices):
        id = "exe_1"
        ended = asyncio.Event()

        async def start_execution(self, *_: Any, **__: Any) -> Any:
            return self

        async def cancel(self) -> bool:
            return await self.ended.wait()

    async def starts(ctx: Context) -> None:
        await ctx.start_execution(_CONTEXT)
        await asyncio.sleep(3600)

    services = Stubborn()
    async with staged(opened, tmp_path, services=services) as stage:
        await stage.code("slow", starts, timeout_ms=50)
        async with asyncio.timeout(30):
            await stage.fire()
        services.ended.set()
        assert [row.status for row in await stage.rows("slow")] == ["timeout"]


async def test_the_hook_points_budget_bounds_them_together(stage: Stage) -> None:
    stage.runner.settings = replace(stage.runner.settings, decision_budget_ms=1_000)

    async def sleeps(ctx: Context) -> None:
        await asyncio.sleep(3600)

    for name, timeout_ms in (("one", 100), ("two", 60_000), ("three", 60_000)):
        await stage.code(name, sleeps, timeout_ms=timeout_ms)
    await stage.fire()
    outcomes = [(await stage.rows(name))[0].status for name in ("one", "two", "three")]
    assert outcomes == ["timeout", "timeout", "skipped"]


async def test_handled_ends_the_round_and_carries_the_answer(stage: Stage) -> None:
    await stage.code("answers", lambda ctx: {"handled": True, "response": "42"}, priority=1)
    await stage.code("later", lambda ctx: {"enrich": {"late": True}})
    returned = await stage.fire()
    assert (returned.handled, returned.response, returned.enrich) == (True, "42", {})
    assert await stage.rows("later") == []


async def test_a_route_changes_who_answers(stage: Stage) -> None:
    await stage.code("routes", lambda ctx: {"route": {"session_label": "work", "role": "worker"}})
    mine = request()
    await stage.runner.fire("runAutomations", Occasion(request=mine))
    assert (mine.agent.session_label, mine.agent.role) == ("work", "worker")


async def test_access_can_be_narrowed_and_never_widened(stage: Stage) -> None:
    await stage.code("cuts", lambda ctx: {"narrow": {"tools": ["read"]}}, hook_point="after:resolveAccess")
    await stage.code(
        "grabs", lambda ctx: {"narrow": {"tools": ["bash", "read"]}}, hook_point="after:resolveAccess"
    )
    mine = request()
    await stage.runner.fire("after:resolveAccess", Occasion(request=mine))
    assert mine.access.tools == frozenset({"read"})


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        ({"deny": "no"}, "`deny`, which is not for runAutomations"),
        ({"enrich": "text"}, "`enrich` must be of type dict"),
        ("text", "It returned 'text'"),
        ({"enrich": {"a": object()}}, "what JSON cannot hold"),
        ({"enrich": {"a": "x" * 300_000}}, "KiB"),
        ({"route": {"model": "x"}}, "`route` has no `model`"),
    ],
)
async def test_what_may_not_be_returned_is_an_error_of_the_automation(
    stage: Stage, returned: object, error: str
) -> None:
    await stage.code("odd", lambda ctx: returned)
    await stage.fire()
    (row,) = await stage.rows("odd")
    assert row.status == "failed"
    assert error in (row.error or "")


async def test_it_fires_only_where_its_conditions_hold(stage: Stage) -> None:
    await stage.code("tea", lambda ctx: None, triggers={"contains": ["tea"], "channels": ["cli"]})
    await stage.fire(content="Coffee?")
    await stage.fire(content="Some TEA please")
    assert len(await stage.rows("tea")) == 1


async def test_the_circuit_opens_is_tried_after_a_while_and_closes(opened: Ledgers, tmp_path: Path) -> None:
    moment = [datetime(2026, 3, 1, tzinfo=UTC)]
    healthy = [False]

    def run(ctx: Context) -> None:
        if not healthy[0]:
            raise ValueError("not today")

    async with staged(opened, tmp_path, now=lambda: moment[0]) as stage:
        await stage.code("shaky", run)
        for _ in range(5):
            await stage.fire()
        row = await stage.row("shaky")
        assert (row.circuit_state, row.consecutive_errors, bool(row.last_error)) == ("open", 3, True)
        assert [each.status for each in await stage.rows("shaky")] == ["failed"] * 3 + ["skipped"] * 2

        moment[0] += timedelta(milliseconds=QUICK.circuit_cooldown_ms + 1)
        await stage.fire()  # the trial, which fails
        assert (await stage.row("shaky")).circuit_state == "open"
        await stage.fire()
        assert (await stage.rows("shaky"))[-1].status == "skipped"

        moment[0] += timedelta(milliseconds=QUICK.circuit_cooldown_ms + 1)
        healthy[0] = True
        await stage.fire()
        row = await stage.row("shaky")
        assert (row.circuit_state, row.consecutive_errors, row.last_error) == ("closed", 0, None)
        await stage.fire()
        assert (await stage.rows("shaky"))[-1].status == "done"


async def test_a_circuit_that_opens_while_the_registry_is_read_stays_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, has_read, may_end = stage.ledgers.runtime.read, asyncio.Event(), asyncio.Event()

    async def slowly(*asked: Any, **given: Any) -> Any:
        found = await read(*asked, **given)
        has_read.set()
        await may_end.wait()
        return found

    def run(ctx: Context) -> None:
        raise ValueError("not today")

    await stage.code("shaky", run)
    for _ in range(QUICK.circuit_errors - 1):
        await stage.fire()
    monkeypatch.setattr(stage.ledgers.runtime, "read", slowly)
    reading = asyncio.create_task(stage.runner.registry.read())
    await has_read.wait()
    await stage.fire()  # the last error, after what is being read
    may_end.set()
    await reading
    await stage.fire()
    assert [each.status for each in await stage.rows("shaky")] == ["failed"] * 3 + ["skipped"]


async def test_a_circuit_that_opened_before_the_clock_was_set_back_is_tried(
    opened: Ledgers, tmp_path: Path
) -> None:
    moment = [datetime(2026, 3, 1, tzinfo=UTC)]

    def run(ctx: Context) -> None:
        raise ValueError("not today")

    async with staged(opened, tmp_path, now=lambda: moment[0]) as stage:
        await stage.code("shaky", run)
        for _ in range(4):
            await stage.fire()
        assert Counter(each.status for each in await stage.rows("shaky")) == {"failed": 3, "skipped": 1}

        moment[0] -= timedelta(days=40)
        await stage.fire()
        assert Counter(each.status for each in await stage.rows("shaky")) == {"failed": 4, "skipped": 1}


async def test_one_that_is_to_run_once_does(stage: Stage) -> None:
    await stage.code("once", lambda ctx: None, mode="once")
    await stage.fire()
    await stage.fire()
    assert len(await stage.rows("once")) == 1
    assert (await stage.row("once")).status == "disabled"


async def test_a_change_by_another_process_is_noticed_at_the_next_firing(stage: Stage) -> None:
    await stage.fire()
    await stage.script("late", "def run(ctx):\n    return {'enrich': {'late': 1}}\n")
    assert (await stage.fire()).enrich == {"late": 1}


async def test_a_change_by_plain_sql_is_noticed_soon(stage: Stage) -> None:
    await stage.code("quiet", lambda ctx: {"enrich": {"a": 1}})
    await stage.fire()
    await stage.ledgers.runtime.write(
        lambda c: c.execute("UPDATE automations SET status = 'disabled'").fetchall()
    )
    deadline = time.monotonic() + 20
    while (await stage.fire()).enrich and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    assert not (await stage.fire()).enrich


async def test_an_edit_that_was_not_registered_is_refused_until_it_is(stage: Stage) -> None:
    made = await stage.script("edited", "def run(ctx):\n    return {'enrich': {'v': 1}}\n")
    assert made.script_path is not None
    Path(made.script_path).write_text("def run(ctx):\n    return {'enrich': {'v': 2}}\n")
    assert not (await stage.fire()).enrich
    (row,) = await stage.rows("edited")
    assert row.status == "skipped"
    assert "changed since it was registered" in (row.error or "")
    assert (await stage.row("edited")).circuit_state == "closed"

    again = await stage.script("edited", "def run(ctx):\n    return {'enrich': {'v': 2}}\n")
    assert again.version == 2
    assert (await stage.fire()).enrich == {"v": 2}


async def test_async_ones_run_on_the_engine_and_are_not_waited_for(opened: Ledgers, tmp_path: Path) -> None:
    gate, done = asyncio.Event(), asyncio.Event()

    async def waits(ctx: Context) -> None:
        await gate.wait()
        assert ctx.request.event.content == "remember this"
        done.set()

    async with staged(opened, tmp_path, engine=True) as stage:
        await stage.code("writer", waits, blocking=False, hook_point="after:runAgent")
        await stage.fire("after:runAgent", "remember this")
        (row,) = await stage.rows("writer")
        assert row.status in {"queued", "running"}
        gate.set()
        async with asyncio.timeout(30):
            await done.wait()
            while (await stage.rows("writer"))[0].status != "done":
                await asyncio.sleep(0.02)


async def test_async_ones_of_one_session_follow_each_other(opened: Ledgers, tmp_path: Path) -> None:
    running, most, seen = [0], [0], list[str]()

    async def works(ctx: Context) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.02)
        seen.append(ctx.request.event.content)
        running[0] -= 1

    async with staged(opened, tmp_path, engine=True) as stage:
        await stage.code("writer", works, blocking=False)
        for number in range(5):
            await stage.fire(content=str(number))
        async with asyncio.timeout(30):
            while len(seen) < 5:
                await asyncio.sleep(0.02)
    assert seen == ["0", "1", "2", "3", "4"]
    assert most == [1]


async def test_what_was_written_down_and_never_reached_the_engine_is_handed_over(
    opened: Ledgers, tmp_path: Path
) -> None:
    seen: list[str] = []
    async with staged(opened, tmp_path) as stage:  # no engine: as if it had died right after the write
        await stage.code("writer", lambda ctx: seen.append(ctx.request.event.content), blocking=False)
        await stage.fire(content="not lost")
    async with staged(opened, tmp_path, engine=True) as stage:
        stage.handlers["python:writer"] = lambda ctx: seen.append(ctx.request.event.content)
        assert stage.queue is not None
        assert await stage.queue.hand_over_missing(opened) == 1
        await _until(stage, "writer", "done")
        assert await stage.queue.hand_over_missing(opened) == 0
    assert seen == ["not lost"]


async def _until(stage: Stage, name: str, status: str) -> Invocation:
    async with asyncio.timeout(60):
        while (found := (await stage.rows(name))[-1]).status != status:
            await asyncio.sleep(0.02)
    return found


async def test_a_failed_async_one_is_tried_again_then_waits_as_a_dead_letter(
    opened: Ledgers, tmp_path: Path
) -> None:
    moment = [datetime.now(UTC) - timedelta(days=1)]  # what is due then is due now
    seen: list[datetime] = []

    def fails(ctx: Context) -> None:
        seen.append(moment[0])
        raise ValueError("not today")

    async with staged(opened, tmp_path, now=lambda: moment[0], engine=True) as stage:
        await stage.code("writer", fails, blocking=False, retries=3)
        await stage.fire()
        dead = await _until(stage, "writer", "failed")
        assert (len(seen), dead.attempts, dead.retries_left, dead.retry_at) == (4, 3, 0, None)
        assert [(name, each.id) for name, each in await opened.runtime.read(invocations.list_dead)] == [
            ("writer", dead.id)
        ]
        assert (await stage.row("writer")).consecutive_errors == 4

        stage.handlers["python:writer"] = lambda ctx: seen.append(moment[0])
        await stage.runner.registry.read()
        assert await opened.runtime.write(invocations.retry, dead.id)
        assert not await opened.runtime.write(invocations.retry, dead.id), "it waits already"
        assert stage.queue is not None
        assert await stage.queue.hand_over_missing(opened) == 1
        assert (await _until(stage, "writer", "done")).attempts == 4
        assert await opened.runtime.read(invocations.count_dead) == 0


async def test_a_retry_that_is_due_later_survives_a_restart(opened: Ledgers, tmp_path: Path) -> None:
    def fails(ctx: Context) -> None:
        raise ValueError("not today")

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    async with staged(opened, tmp_path, now=lambda: moment, engine=True) as stage:
        await stage.code("writer", fails, blocking=False, retries=1)
        await stage.fire()
        async with asyncio.timeout(60):
            while (waits := (await stage.rows("writer"))[0]).retry_at is None:
                await asyncio.sleep(0.02)
    assert (waits.status, waits.attempts, waits.error) == ("queued", 1, "ValueError: not today")
    assert waits.retry_at == clock.timestamp(moment + timedelta(seconds=10))
    # As if the engine had lost it: the ledger knows what is due, and when.
    (tmp_path / "engine.db").unlink()
    early = "2020-01-01T00:00:00.000Z"
    await opened.runtime.write(
        lambda c: c.execute("UPDATE invocations SET retry_at = ?", (early,)).fetchall()
    )
    seen: list[str] = []
    async with staged(opened, tmp_path, engine=True) as stage:
        stage.handlers["python:writer"] = lambda ctx: seen.append(ctx.invocation_id)
        assert stage.queue is not None
        assert await stage.queue.hand_over_missing(opened) == 1
        await _until(stage, "writer", "done")
    assert seen == [waits.id]


async def test_without_retries_a_failed_async_one_is_a_dead_letter_at_once(
    opened: Ledgers, tmp_path: Path
) -> None:
    async with staged(opened, tmp_path, engine=True) as stage:
        await stage.code("writer", lambda ctx: 1 / 0, blocking=False)
        await stage.fire()
        assert (await _until(stage, "writer", "failed")).attempts == 0
        assert await opened.runtime.read(invocations.count_dead) == 1


async def test_a_dead_letter_is_dismissed_and_the_doctor_is_content(opened: Ledgers, tmp_path: Path) -> None:
    def nexus(*arguments: str) -> Result:
        return CliRunner().invoke(program, ["--home", str(opened.home.root), "automations", *arguments])

    def reported() -> list[str]:
        return [
            each.message
            for each in doctor.examine(opened.home, thorough=False)
            if each.check == "automations" and "invocation" in each.message
        ]

    async with staged(opened, tmp_path, engine=True) as stage:
        await stage.code("writer", lambda ctx: 1 / 0, blocking=False)
        await stage.fire()
        dead = await _until(stage, "writer", "failed")
        await stage.fire()
        async with asyncio.timeout(60):
            while await opened.runtime.read(invocations.count_dead) < 2:
                await asyncio.sleep(0.02)
        assert await asyncio.to_thread(reported) == ["2 async invocations failed every attempt"]
        listed = await asyncio.to_thread(nexus, "retry", "--json")
        assert dead.id in [each["id"] for each in json.loads(listed.stdout)]

        done = await asyncio.to_thread(nexus, "retry", "--dismiss", dead.id)
        assert done.output == "Dismissed 1 invocation.\n"
        again = await asyncio.to_thread(nexus, "retry", dead.id)
        assert "is not a failed async invocation" in str(again.exception)
        retried = await asyncio.to_thread(nexus, "retry", "--all")
        assert retried.output == "Retrying 1 invocation.\n"
        assert await asyncio.to_thread(reported) == []
        assert stage.queue is not None
        assert await stage.queue.hand_over_missing(opened) == 1
        async with asyncio.timeout(60):
            while await opened.runtime.read(invocations.count_dead) < 1:
                await asyncio.sleep(0.02)
        done = await asyncio.to_thread(nexus, "retry", "--dismiss", "--all")
        assert done.output == "Dismissed 1 invocation.\n"
        assert (await asyncio.to_thread(nexus, "retry")).output == "No failed invocations.\n"
    assert await asyncio.to_thread(reported) == []
    assert [each.status for each in await stage.rows("writer")] == ["failed", "failed"], "the history stays"


async def test_runs_of_a_further_attempt_are_not_those_of_the_one_that_failed(
    opened: Ledgers, tmp_path: Path
) -> None:
    class Started(NoServices):
        ids: ClassVar[list[str | None]] = []

        async def start_execution(self, *_: Any, execution_id: str | None = None, **__: Any) -> Any:
            self.ids.append(execution_id or _[2])
            raise ValueError("no model today")

    async def starts(ctx: Context) -> None:
        await ctx.start_execution(_CONTEXT)

    long_ago = datetime.now(UTC) - timedelta(days=1)
    async with staged(opened, tmp_path, services=Started(), now=lambda: long_ago, engine=True) as stage:
        await stage.code("writer", starts, blocking=False, retries=2)
        await stage.fire()
        await _until(stage, "writer", "failed")
    assert len(Started.ids) == len(set(Started.ids)) == 3


async def test_an_open_circuit_keeps_async_ones_from_the_engine(opened: Ledgers, tmp_path: Path) -> None:
    calls: list[Context] = []

    def fails(ctx: Context) -> None:
        calls.append(ctx)
        raise ValueError("not today")

    async with staged(opened, tmp_path, engine=True) as stage:
        await stage.code("writer", fails, blocking=False)
        for _ in range(QUICK.circuit_errors):
            await stage.fire()
            await _until(stage, "writer", "failed")
        await stage.runner.registry.read()
        await stage.fire()
        assert [row.status for row in await stage.rows("writer")] == ["failed"] * 3 + ["skipped"]
    assert len(calls) == QUICK.circuit_errors


async def test_what_came_of_one_that_another_process_has_is_not_recorded(stage: Stage) -> None:
    class LostError(Exception):
        """Raised in the place of the engine's own."""

    def lost() -> None:
        raise LostError

    async def fail(ctx: Context) -> None:
        raise OSError("a connection broke while this process was frozen")

    await stage.code("slow", fail, blocking=False)
    await stage.fire()
    [queued] = await stage.rows("slow")
    with pytest.raises(LostError):
        await stage.runner.run_queued(queued.id, lost)
    assert [row.status for row in await stage.rows("slow")] == ["running"]
    await stage.runner.run_queued(queued.id)
    assert [row.status for row in await stage.rows("slow")] == ["failed"]


async def test_an_attempt_that_follows_is_not_lost_with_the_one_before(stage: Stage) -> None:
    async def fail(ctx: Context) -> None:
        raise OSError("away")

    await stage.code("slow", fail, blocking=False, retries=3)
    await stage.fire()
    [queued] = await stage.rows("slow")
    await stage.runner.run_queued(queued.id)
    lose = {"invocation_id": queued.id, "error": "It ended without saying how"}
    assert not await stage.ledgers.runtime.write(invocations.lose, attempts=0, **lose)
    assert [(row.status, row.attempts) for row in await stage.rows("slow")] == [("queued", 1)]
    assert await stage.ledgers.runtime.write(invocations.lose, attempts=1, **lose)


async def test_a_blocking_one_that_is_repeated_after_a_crash_counts_once(stage: Stage) -> None:
    async def fail(ctx: Context) -> None:
        raise OSError("away")

    await stage.code("after", fail, hook_point="finalize")
    for _ in range(2):
        await stage.runner.fire("finalize", Occasion(request=request(), key="exe_1"))
        await stage.runner.wait_until_settled()
    assert len(await stage.rows("after")) == 1
    assert (await stage.row("after")).consecutive_errors == 1
