"""Budgets: what is spent counts wherever it was spent, and nothing is asked when a budget is used up."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from apps import dispatching, settings
from nexus import clock
from nexus.app import App
from nexus.automations import registration
from nexus.broker.agent.records import Estimate
from nexus.broker.budgets import Budgets, Spender
from nexus.broker.run_handle import Run
from nexus.config import BudgetsConfig
from nexus.engine.errors import WorkFailedError
from nexus.errors import BudgetError
from nexus.gateway.views import usage as views
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.identity import access as grants
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.runtime import automations, dispatches, requests, usage
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.ledgers.runtime.dispatches import NewDispatch
from nexus.ledgers.runtime.usage import UsageRow
from nexus.pipeline import Incoming
from nexus.request import Agent, Event, Request
from nexus.testing import ModelServer, Turn

_LONG_AGO = "2000-01-01"
_SPENDER = Spender(request_id="req_2", root_request_id="req_1", execution_id="exe_1", automation="notes")
_ESTIMATE = Estimate(
    id="use_1", provider="test", model="large", input_tokens=500, output_tokens=500, cost_microusd=1_000
)
_LITTLE = replace(_ESTIMATE, input_tokens=1, output_tokens=0, cost_microusd=1)
_NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
_INSERT = """
INSERT INTO usage (id, request_id, root_request_id, automation, provider, model, input_tokens, output_tokens,
                   cost_microusd, created_at)
VALUES (?1, ?2, ?2, ?3, 'test', 'large', 60, 40, 300000, ?4)
"""
_ROOT = """
INSERT INTO requests (id, root_request_id, principal_id, access_json) VALUES (?1, ?1, ?2, ?3)
"""
_SCRIPT = """
async def run(ctx):
    assembled = await ctx.assemble_context(session_label="main-but-not-really", task="Note it down")
    assembled.automation = ""
    run = await ctx.start_execution(assembled)
    await run.result()
"""


def _app(home: Home, server: ModelServer, **limits: Any) -> App:
    return App(home, replace(settings(server), budgets=BudgetsConfig(**limits)))


async def _hits(app: App) -> list[usage.Hit]:
    return await app.ledgers.runtime.read(usage.find_hits, since=_LONG_AGO)


async def test_a_message_is_refused_what_it_may_not_spend_with_all_that_it_led_to(
    home: Home, server: ModelServer
) -> None:
    server.script(*dispatching("Look it up", then=Turn("Never said")))
    server.always("Looked up")
    async with _app(home, server, request_tokens=1) as app:
        run = await app.send("Find it")
        with pytest.raises(WorkFailedError, match="The budget of 1 tokens for one message") as caught:
            await run.result()
        hits = await _hits(app)
    assert "request_tokens" in caught.value.hint
    assert "nexus usage" in caught.value.hint
    assert len(server.requests) == 1
    assert {(hit.budget, hit.unit, hit.most) for hit in hits} == {("request", "tokens", 1.0)}
    assert all(hit.used > 1 for hit in hits)


async def test_a_day_is_used_up_for_every_process_and_message(home: Home, server: ModelServer) -> None:
    server.script("Yes", "Never said")
    async with _app(home, server, day_tokens=10) as app:
        assert (await (await app.send("Is it day?")).result()).response.content == "Yes"
    async with _app(home, server, day_tokens=10) as app:
        run = await app.send("Still?", session_label="another")
        with pytest.raises(WorkFailedError, match="per day is used up"):
            await run.result()
        (hit,) = await _hits(app)
        (standing,) = await views.load_budgets(app.ledgers, app.config.budgets)
    assert hit.execution_id == run.id
    assert (standing.setting, standing.is_used_up) == ("day_tokens", True)
    assert len(server.requests) == 1


async def test_an_automation_spends_on_its_own_account_whatever_its_script_says(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.always("Fine")
    async with _app(home, server, automation_tokens=1) as app:
        await _register(app, tmp_path)
        for text in ("One", "Two"):
            assert (await (await app.send(text)).result()).response.content == "Fine"
        (hit,) = await _hits(app)
        spent = await views.load_usage(app.ledgers)
    assert (hit.budget, hit.automation) == ("automation", "notes")
    assert [(each.name, each.total.calls) for each in spent.automations] == [("notes", 1)]
    # Two messages and one note: the second note was refused, and the message was answered all the same.
    assert len(server.requests) == 3


async def _register(app: App, folder: Path) -> None:
    file = folder / "notes.py"
    file.write_text(_SCRIPT)
    script = registration.bring_in(app.home, "notes", file)
    new = NewAutomation(
        name="notes",
        script_path=str(script.path),
        script_hash=script.hash,
        hook_point="runAutomations",
        timeout_ms=30_000,
    )
    await app.ledgers.runtime.write(automations.register, new=new)
    await app.automations.load()


async def test_the_worker_of_an_automation_spends_on_its_account(opened: Ledgers) -> None:
    parent = Request(event=Event(content="Note it"))
    worker = parent.child(content="Look it up", agent=Agent(role="worker", session_label="worker:1"))
    task = NewDispatch(
        id="dsp_1",
        parent_request_id=parent.request_id,
        root_request_id=parent.request_id,
        parent_session_label="meeseeks:notes:main",
        parent_execution_id="exe_1",
        call_id="1",
        worker_request_id=worker.request_id,
        worker_session_label="worker:1",
        execution_id="exe_2",
        task="Look it up",
    )

    def dispatched(connection: apsw.Connection) -> str | None:
        for request in (parent, worker):
            requests.create(connection, request)
        dispatches.create(connection, task)
        usage.record(connection, _row("use_1", execution_id="exe_1", automation="notes"))
        return usage.automation_of_dispatcher(connection, worker.request_id)

    assert await opened.runtime.write(dispatched) == "notes"


async def test_everybody_but_the_owner_has_a_limit_by_default(home: Home, server: ModelServer) -> None:
    server.always("Hello")
    async with App(home, settings(server)) as app:
        first = await _from_sam(app)
        root = (await first.result()).request_id
        row = replace(_row("use_much", root_request_id=root), input_tokens=1_000_000, cost_microusd=0)
        await app.ledgers.runtime.write(usage.record, row=row)
        with pytest.raises(WorkFailedError, match="Your limit for today is used up") as caught:
            await (await _from_sam(app)).result()
        (hit,) = await _hits(app)
        assert (await (await app.send("The owner has no such limit")).result()).response.content == "Hello"
        standing = {each.setting: each for each in await views.load_budgets(app.ledgers, app.config.budgets)}
    assert caught.value.hint == "Try again tomorrow (UTC)."
    assert (hit.budget, hit.unit) == ("guest", "tokens")
    assert standing["guest_tokens"].is_used_up
    assert standing["guest_tokens"].guest
    assert not standing["guests_tokens"].is_used_up


async def _from_sam(app: App) -> Run:
    """A message of somebody who was let in."""
    incoming = Incoming(channel="telegram", sender="@sam", thread="42", content="Hello")
    journey = await app.pipeline.receive(incoming)
    if journey.run is None:
        (asking,) = await app.ledgers.identity.read(grants.list_pairings)
        await app.ledgers.identity.write(grants.approve, code=asking.code, granted=Granted(), by="owner")
        journey = await app.pipeline.receive(incoming)
        assert journey.run is not None
        await journey.run.result()
    return journey.run


@pytest.mark.parametrize(
    ("limits", "refused"),
    [
        ({}, {}),
        ({"guest_usd": 0.3}, {"req_sam": "guest"}),
        ({"guest_tokens": 100}, {"req_sam": "guest"}),
        ({"guests_usd": 0.3}, {"req_sam": "guests", "req_ann": "guests"}),
        ({"guest_usd": 0, "guest_tokens": 0, "guests_usd": 0, "guests_tokens": 0}, {}),
    ],
)
async def test_the_limits_of_guests_count_by_person_and_together(
    opened: Ledgers, limits: dict[str, Any], refused: dict[str, str]
) -> None:
    roots = {
        "req_owner": ("ent_owner", "owner"),
        "req_sam": ("ent_sam", "known"),
        "req_ann": ("ent_ann", "known"),
        "req_night": (None, None),
    }

    def write(connection: apsw.Connection) -> None:
        for id_, (principal, level) in roots.items():
            access = json.dumps({"level": level} if level else {})
            connection.execute(_ROOT, (id_, principal, access))
        connection.execute(_INSERT, ("use_sam", "req_sam", None, clock.timestamp(_NOW)))
        connection.execute(_INSERT, ("use_owner", "req_owner", None, clock.timestamp(_NOW)))
        # Yesterday is over.
        connection.execute(_INSERT, ("use_ann", "req_ann", None, clock.timestamp(_NOW - timedelta(days=1))))

    await opened.runtime.write(write)
    found: dict[str, str] = {}
    told: list[str] = []
    for id_ in roots:
        spender = Spender(request_id=id_, root_request_id=id_, execution_id=f"exe_{id_}")
        try:
            await Budgets(opened, BudgetsConfig(**limits), lambda: _NOW).reserve(spender, _LITTLE)
        except BudgetError as error:
            told.append(str(error))
            (hit, *_) = await opened.runtime.read(usage.find_hits, since=_LONG_AGO)
            found[id_] = hit.budget
    assert found == refused
    assert not any("config.toml" in each or "$" in each for each in told)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"request_usd": 0.5},
            r"The budget of \$0.50 for one message and all work it leads to is used up \(\$0.60",
        ),
        ({"automation_usd": 0.25}, r"The budget of \$0.25 per day for `notes`"),
        ({"day_usd": 0.9}, r"The budget of \$0.90 per day is used up \(\$0.90"),
        ({"month_tokens": 300}, r"The budget of 300 tokens per month is used up \(400 tokens spent"),
    ],
)
async def test_each_budget_says_which_how_much_and_what_to_do(
    opened: Ledgers, limits: dict[str, Any], message: str
) -> None:
    await _spend(opened)
    with pytest.raises(BudgetError, match=message) as caught:
        await Budgets(opened, BudgetsConfig(**limits), lambda: _NOW).reserve(_SPENDER, _ESTIMATE)
    assert next(iter(limits)) in caught.value.hint


@pytest.mark.parametrize(
    "limits",
    [
        {"request_usd": 0.61, "automation_usd": 0.31, "day_usd": 0.91, "month_usd": 1.3, "month_tokens": 401},
        {"request_usd": 0.0},
    ],
)
async def test_what_is_left_or_not_limited_may_be_spent(opened: Ledgers, limits: dict[str, Any]) -> None:
    await _spend(opened)
    await Budgets(opened, BudgetsConfig(**limits), lambda: _NOW).reserve(_SPENDER, _ESTIMATE)
    assert await opened.runtime.read(usage.find_hits, since=_LONG_AGO) == []


async def test_a_day_and_a_month_begin_anew(opened: Ledgers) -> None:
    await _spend(opened)
    limits = BudgetsConfig(request_usd=0, day_usd=0.1, automation_usd=0.1)
    await Budgets(opened, limits, lambda: _NOW + timedelta(days=1)).reserve(_SPENDER, _ESTIMATE)
    monthly = BudgetsConfig(request_usd=0, month_usd=0.1)
    await Budgets(opened, monthly, lambda: _NOW + timedelta(days=20)).reserve(_SPENDER, _ESTIMATE)


async def test_a_run_that_is_repeated_is_refused_once(opened: Ledgers) -> None:
    await _spend(opened)
    asking = Budgets(opened, BudgetsConfig(day_usd=0.1), lambda: _NOW)
    for _ in range(2):
        with pytest.raises(BudgetError):
            await asking.reserve(_SPENDER, _ESTIMATE)
    assert len(await opened.runtime.read(usage.find_hits, since=_LONG_AGO)) == 1


async def _spend(ledgers: Ledgers) -> None:
    """60 cents for the message, 30 of them by an automation; 30 for another one; 30 three days before."""
    before = _NOW - timedelta(days=3)
    rows = [
        ("use_1", "req_1", None, clock.timestamp(_NOW)),
        ("use_2", "req_1", "notes", clock.timestamp(_NOW)),
        ("use_3", "req_9", None, clock.timestamp(_NOW)),
        ("use_4", "req_8", "notes", clock.timestamp(before)),
    ]
    await ledgers.runtime.write(lambda c: c.executemany(_INSERT, rows))


def _row(id_: str, **values: Any) -> UsageRow:
    given: dict[str, Any] = {"root_request_id": "req_1", **values}
    return UsageRow(
        id=id_,
        request_id="req_1",
        provider="test",
        model="large",
        input_tokens=60,
        output_tokens=40,
        cost_microusd=300_000,
        **given,
    )
