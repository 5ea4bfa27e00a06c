"""What was spent: by day, model, automation and message; what may be spent, and what was refused."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

import apsw

from nexus import clock
from nexus.broker import budgets
from nexus.broker.agent import prices
from nexus.broker.budgets import Standing
from nexus.config import BudgetsConfig, Config
from nexus.gateway.views.requests import make_totals
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.runtime import requests, usage
from nexus.ledgers.runtime import usage as recorded
from nexus.ledgers.runtime.usage import Hit
from nexus.memory.views import names
from nexus.runs import Totals

_ASKED_CHARACTERS: Final = 200
RANGES_DAYS: Final = (7, 30, 90, 365)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What went for one day, model or automation."""

    name: str
    total: Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """A stretch of days, added up in three ways. Every day is there, also one on which nothing was spent."""

    days: tuple[Spent, ...]
    models: tuple[Spent, ...]
    """The dearest first."""
    automations: tuple[Spent, ...]
    """What ran on its own account: the dearest first."""
    by_day_and_model: dict[str, dict[str, Totals]]
    total: Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What a message and all that it led to cost, to this day."""

    request_id: str
    asked: str
    """The beginning of the message; empty where it was forgotten."""
    total: Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How far a budget is used."""

    setting: str
    """Its name in the section [budgets]."""
    budget: recorded.Budget
    unit: recorded.Unit
    automation: str | None
    """Whose, where each automation has its own."""
    guest: str | None
    """Whose, where each person other than the owner has their own: an entity."""
    guest_name: str | None
    most: float
    used: float
    is_used_up: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Report(Usage):
    """Usage, budgets and refused calls."""

    until: str
    """The last day of the report, UTC."""
    messages: tuple[Message, ...]
    """Most expensive first."""
    budgets: tuple[Budget, ...]
    """Of the day, the month, of everybody but the owner, and of each automation that ran today."""
    hits: tuple[Hit, ...]
    """What was refused because a budget was used up, the newest first."""
    unlimited_models: tuple[str, ...]
    """Those that no budget in money can limit, because their price is not known."""
    estimated_calls: int
    """Calls whose answer broke off or was lost in a crash: the provider's count is not known."""


async def load_report(
    ledgers: Ledgers, config: Config, *, days: int = 30, messages: int = 10, now: clock.Clock = clock.now
) -> Report:
    """Load everything about the money of the last days, today included.

    If no model was called in them, the days end with the last one on which one was.
    """
    end = await find_end(ledgers, days=days, now=now)
    found = await load_usage(ledgers, days=days, now=end)
    return Report(
        **{each.name: getattr(found, each.name) for each in fields(Usage)},
        until=clock.day(end()),
        messages=await load_most_expensive(ledgers, days=days, limit=messages, now=end),
        budgets=await load_budgets(ledgers, config.budgets, now=now),
        hits=await load_hits(ledgers, days=days, now=end),
        unlimited_models=tuple(prices.list_unpriced(config)),
        estimated_calls=await ledgers.runtime.read(usage.count_estimated, day=_since(end(), days)),
    )


async def find_end(ledgers: Ledgers, *, days: int, now: clock.Clock = clock.now) -> clock.Clock:
    """Now, or the last day on which a model was called, if none was in the last days."""
    last = await ledgers.runtime.read(usage.last_day)
    return now if last is None or last >= _since(now(), days) else lambda: clock.parse(last)


async def load_usage(ledgers: Ledgers, *, days: int = 30, now: clock.Clock = clock.now) -> Usage:
    """Load what the last days cost, today among them."""
    today = now()
    since = _since(today, days)
    queries = sql.queries("runtime")
    by_model, by_automation = await ledgers.runtime.read(
        lambda c: (
            sql.rows(c, queries["usage_by_day_and_model"], (since,)),
            sql.rows(c, queries["usage_by_automation"], (since,)),
        )
    )
    cells: dict[str, dict[str, Totals]] = defaultdict(dict)
    models: dict[str, Totals] = defaultdict(Totals)
    for day, model, *sums in by_model:
        cells[day][model] = make_totals(sums)
        models[model] += cells[day][model]
    return Usage(
        days=tuple(Spent(name=day, total=_sum(cells.get(day, {}))) for day in _list_days(today, days)),
        models=_sort_by_cost(models),
        automations=_sort_by_cost({name: make_totals(sums) for name, *sums in by_automation}),
        by_day_and_model=dict(cells),
        total=_sum(models),
    )


async def load_most_expensive(
    ledgers: Ledgers, *, days: int = 30, limit: int = 10, now: clock.Clock = clock.now
) -> tuple[Message, ...]:
    """Load the most expensive messages whose work began in the last days."""
    query = sql.queries("runtime")["usage_by_root"]
    bindings = {"day": _since(now(), days), "limit": limit}
    found = await ledgers.runtime.read(sql.rows, query, bindings)
    told: list[Message] = []
    for request_id, *sums in found:
        request = await requests.restore(ledgers, request_id)
        asked = "" if request is None else request.event.content[:_ASKED_CHARACTERS]
        told.append(Message(request_id=request_id, asked=asked, total=make_totals(sums)))
    return tuple(told)


async def load_budgets(
    ledgers: Ledgers, limits: BudgetsConfig, *, now: clock.Clock = clock.now
) -> tuple[Budget, ...]:
    """Load how far the budgets of the day, the month, guests and automations that ran today are used.

    What one message may spend is looked at while it is worked on; `nexus trace` shows what it did.
    """
    moment = now()

    def work(connection: apsw.Connection) -> tuple[Standing, ...]:
        today = sql.rows(connection, sql.queries("runtime")["usage_by_automation"], (clock.day(moment),))
        return (
            *budgets.of_home(connection, limits, moment),
            *budgets.of_guests(connection, limits, moment),
            *(each for name, *_ in today for each in budgets.of_automation(connection, limits, name, moment)),
        )

    found = await ledgers.runtime.read(work)
    known = await names.load_entity_names(ledgers, [each.guest for each in found])
    return tuple(_make_budget(each, known) for each in found)


async def load_hits(
    ledgers: Ledgers, *, days: int = 30, limit: int = 50, now: clock.Clock = clock.now
) -> tuple[Hit, ...]:
    """Load what was refused in the last days because a budget was used up, the newest first."""
    since = _since(now(), days)
    return tuple(await ledgers.runtime.read(recorded.find_hits, since=since, limit=limit))


def _make_budget(standing: Standing, known: Mapping[str, str]) -> Budget:
    return Budget(
        setting=standing.setting,
        budget=standing.budget,
        unit=standing.unit,
        automation=standing.automation,
        guest=standing.guest,
        guest_name=known.get(standing.guest or ""),
        most=standing.most,
        used=standing.used,
        is_used_up=standing.is_used_up,
    )


def _since(today: datetime, days: int) -> str:
    return clock.day(today - timedelta(days=days - 1))


def _list_days(today: datetime, days: int) -> list[str]:
    return [clock.day(today - timedelta(days=back)) for back in range(days - 1, -1, -1)]


def _sum(parts: dict[str, Totals]) -> Totals:
    return sum(parts.values(), start=Totals())


def _sort_by_cost(parts: dict[str, Totals]) -> tuple[Spent, ...]:
    ordered = sorted(parts.items(), key=lambda item: (-item[1].cost_microusd, -item[1].tokens, item[0]))
    return tuple(Spent(name=name, total=total) for name, total in ordered)
