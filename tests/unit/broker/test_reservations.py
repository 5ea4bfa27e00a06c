"""Runs side by side: what one may yet spend is held back from the others, in whatever process they run."""

import asyncio
from dataclasses import replace
from typing import Any

import apsw
import pytest

from apps import settings
from nexus import ids
from nexus.app import App
from nexus.broker.agent.records import Estimate
from nexus.broker.budgets import Budgets, Spender
from nexus.config import BudgetsConfig, LedgersConfig
from nexus.engine.errors import WorkFailedError
from nexus.errors import BudgetError, StoppedError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions, requests, reservations, usage
from nexus.ledgers.runtime.executions import NewExecution, Step
from nexus.ledgers.runtime.usage import UsageRow
from nexus.request import Event, Request
from nexus.testing import Hold, ModelServer, Turn

_LIMITS = BudgetsConfig(request_usd=0, day_tokens=100)
_LONG_S = 60
_COUNT = "SELECT count(*) FROM reservations"


def _estimate(tokens: int = 60) -> Estimate:
    return Estimate(
        id=ids.new("use"),
        provider="test",
        model="large",
        input_tokens=tokens - 50,
        output_tokens=50,
        cost_microusd=None,
    )


def _spender(name: str, **values: Any) -> Spender:
    given = {"request_id": f"req_{name}", "root_request_id": f"req_{name}", "execution_id": f"exe_{name}"}
    return Spender(**{**given, **values})


async def _held(ledgers: Ledgers) -> int:
    return await ledgers.runtime.read(lambda c: c.execute(_COUNT).get)


def _held_as(connection: apsw.Connection, spender: Spender) -> str:
    query = "SELECT usage_id FROM reservations WHERE execution_id = ?"
    return str(connection.execute(query, (spender.execution_id,)).get)


async def _spend(ledgers: Ledgers, spender: Spender, tokens: int) -> None:
    """As the journal does when an answer is there."""

    def bill(connection: apsw.Connection) -> None:
        row = UsageRow(
            id=_held_as(connection, spender),
            request_id=spender.request_id,
            root_request_id=spender.root_request_id,
            execution_id=spender.execution_id,
            provider="test",
            model="large",
            output_tokens=tokens,
        )
        usage.record(connection, row)
        reservations.release(connection, row.id)

    await ledgers.runtime.write(bill)


async def _waits(task: asyncio.Task[None]) -> bool:
    await asyncio.wait({task}, timeout=1)
    return not task.done()


async def test_who_might_find_too_little_left_waits_until_the_others_are_billed(opened: Ledgers) -> None:
    home = Budgets(opened, _LIMITS)
    one, two, three = (_spender(name) for name in ("1", "2", "3"))
    for spender in (one, two):
        await home.reserve(spender, _estimate())
    third = asyncio.create_task(home.reserve(three, _estimate()))
    assert await _waits(third)
    await _spend(opened, one, tokens=20)
    async with asyncio.timeout(_LONG_S):
        await third
    assert await opened.runtime.read(usage.find_hits, since="") == []


async def test_who_waits_is_refused_when_the_others_have_used_it_up(opened: Ledgers) -> None:
    home = Budgets(opened, _LIMITS)
    for name in ("1", "2"):
        await home.reserve(_spender(name), _estimate())
    third = asyncio.create_task(home.reserve(_spender("3"), _estimate()))
    await _spend(opened, _spender("1"), tokens=100)
    async with asyncio.timeout(_LONG_S):
        with pytest.raises(BudgetError, match="The budget of 100 tokens per day"):
            await third
    (hit,) = await opened.runtime.read(usage.find_hits, since="")
    assert (hit.execution_id, hit.used) == ("exe_3", 100)


async def test_however_many_ask_at_once_in_several_processes_few_are_let_through(
    home: Home, opened: Ledgers
) -> None:
    async with Ledgers(home, LedgersConfig()) as elsewhere:
        places = (Budgets(opened, _LIMITS), Budgets(elsewhere, _LIMITS))
        asked = [
            asyncio.create_task(places[number % 2].reserve(_spender(str(number)), _estimate()))
            for number in range(20)
        ]
        async with asyncio.timeout(_LONG_S):
            while sum(task.done() for task in asked) < 2:
                await asyncio.sleep(0.01)
        # Together they may come to 120 of 100: the budget is exceeded by one request at most.
        assert all([await _waits(task) for task in asked if not task.done()][:1])
        assert await _held(opened) == 2
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize(
    ("limits", "other", "waits"),
    [
        ({"request_tokens": 50}, {"root_request_id": "req_1"}, True),
        ({"request_tokens": 50}, {}, False),
        ({"automation_tokens": 50}, {"automation": "notes"}, True),
        ({"automation_tokens": 50}, {"automation": "letters"}, False),
        ({"month_tokens": 50}, {}, True),
        ({"day_usd": 0.001}, {}, False),
    ],
)
async def test_only_what_is_spent_from_the_same_budget_is_waited_for(
    opened: Ledgers, limits: dict[str, Any], other: dict[str, str], waits: bool
) -> None:
    home = Budgets(opened, BudgetsConfig(**{"request_usd": 0, **limits}))
    await home.reserve(_spender("1", automation="notes"), _estimate())
    second = asyncio.create_task(home.reserve(_spender("2", **other), _estimate()))
    if waits:
        assert await _waits(second)
        second.cancel()
    else:
        async with asyncio.timeout(_LONG_S):
            await second


async def test_who_has_reserved_does_not_wait_for_itself(opened: Ledgers) -> None:
    home = Budgets(opened, _LIMITS)
    async with asyncio.timeout(_LONG_S):
        for _ in range(3):
            await home.reserve(_spender("1"), _estimate(1_000))
    assert await _held(opened) == 1


async def _begun(ledgers: Ledgers, id_: str) -> None:
    request = Request(event=Event(content="Find it"))
    run = NewExecution(
        id=id_,
        request_id=request.request_id,
        session_label="main",
        lane="chat",
        work="agent",
        mode="followup",
        input=None,
    )

    def begin(connection: apsw.Connection) -> None:
        requests.create(connection, request)
        executions.enqueue(connection, run)
        executions.begin(connection, run.id)

    await ledgers.runtime.write(begin)


async def _usage(ledgers: Ledgers) -> list[Any]:
    query = "SELECT id, input_tokens, output_tokens, cost_microusd, role, automation, estimated FROM usage"
    return await ledgers.runtime.read(lambda c: c.execute(query).fetchall())


@pytest.mark.parametrize("act", ["begins again", "ends"])
@pytest.mark.parametrize("limits", [_LIMITS, BudgetsConfig(request_usd=0)], ids=["limited", "unlimited"])
async def test_a_request_whose_process_died_is_billed_as_estimated_when_its_run_begins_again_or_ends(
    opened: Ledgers, act: str, limits: BudgetsConfig
) -> None:
    await _begun(opened, "exe_1")
    asked = _estimate()
    await Budgets(opened, limits).reserve(_spender("1", role="manager", automation="notes"), asked)
    assert await _held(opened) == 1
    for _ in range(2):
        if act == "begins again":
            await opened.runtime.write(executions.begin, execution_id="exe_1")
        else:
            await opened.runtime.write(executions.end, execution_id="exe_1", status="failed")
        assert await _held(opened) == 0
        assert await _usage(opened) == [(asked.id, 10, 50, None, "manager", "notes", 1)]
    assert await opened.runtime.read(usage.count_estimated, day="2020-01-01") == 1


async def test_a_process_that_was_only_frozen_corrects_the_estimate_and_leaves_others_reservations(
    opened: Ledgers,
) -> None:
    await _begun(opened, "exe_1")
    budgets_, spender, first, second = Budgets(opened, _LIMITS), _spender("1"), _estimate(), _estimate()
    await budgets_.reserve(spender, first)
    await opened.runtime.write(executions.begin, execution_id="exe_1")  # another process takes over
    await budgets_.reserve(spender, second)

    def late(connection: apsw.Connection) -> None:
        row = UsageRow(
            id=first.id,
            request_id="req_1",
            root_request_id="req_1",
            provider="test",
            model="large",
            input_tokens=8,
            output_tokens=2,
            cost_microusd=5,
        )
        usage.record(connection, row)
        reservations.release(connection, first.id)

    await opened.runtime.write(late)
    assert await _usage(opened) == [(first.id, 8, 2, 5, None, None, 0)]
    assert await _held(opened) == 1
    total = await opened.runtime.read(usage.of_root, root_request_id="req_1")
    assert (total.calls, total.tokens, total.unpriced_calls) == (1, 10, 0)


async def test_a_process_that_was_frozen_while_another_ended_its_run_asks_no_model(opened: Ledgers) -> None:
    await _begun(opened, "exe_1")
    await opened.runtime.write(executions.end, execution_id="exe_1", status="done")
    with pytest.raises(StoppedError, match="exe_1"):
        await Budgets(opened, _LIMITS).reserve(_spender("1"), _estimate())
    assert await _held(opened) == 0


async def test_what_it_still_does_is_not_recorded_as_a_step(opened: Ledgers) -> None:
    await _begun(opened, "exe_1")
    step = Step(execution_id="exe_1", number=1, name="model", failed=False, outcome="{}")
    assert await opened.runtime.write(executions.record_step, step=step) == step
    await opened.runtime.write(executions.end, execution_id="exe_1", status="done")
    assert await opened.runtime.write(executions.record_step, step=step) == step
    assert await opened.runtime.read(executions.find_steps, execution_id="exe_1") == []


async def test_runs_side_by_side_spend_a_day_once(home: Home, server: ModelServer) -> None:
    server.script(Turn("Yes", faults=[Hold(gate="first")]))
    server.always("Never said")
    config = replace(settings(server), budgets=BudgetsConfig(day_tokens=10))
    async with App(home, config) as app:
        runs = [await app.send("Is it day?", session_label=f"s{number}") for number in range(4)]
        await server.until(lambda: server.gate("first").waiting)
        results = [asyncio.create_task(run.result()) for run in runs]
        await asyncio.wait(results, timeout=1)
        server.gate("first").open()
        async with asyncio.timeout(_LONG_S):
            told = await asyncio.gather(*results, return_exceptions=True)
        assert await _held(app.ledgers) == 0
    refused = [each for each in told if isinstance(each, WorkFailedError)]
    assert len(refused) == 3
    assert all("per day is used up" in str(each) for each in refused)
    assert len(server.requests) == 1
