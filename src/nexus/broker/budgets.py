"""Budgets: what may be spent, looked at before each request to a model, from what the ledger says was spent.

The sums are the ledger's, so they hold over processes and restarts. A request that is under way is not
counted until it has ended: runs side by side may go beyond a budget by the requests that they have begun.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import apsw

from nexus import clock, ids
from nexus.answer import MICRO, Totals
from nexus.config import BudgetsConfig
from nexus.errors import BudgetError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import budgets, usage
from nexus.ledgers.runtime.budgets import Budget, NewHit, Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Spender:
    """Who wants to spend: a run of a request, on its own account or on an automation's."""

    request_id: str
    root_request_id: str
    execution_id: str
    automation: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How far a budget is used."""

    budget: Budget
    unit: Unit
    most: float
    used: float
    automation: str | None = None

    @property
    def setting(self) -> str:
        """Its name in the section [budgets]."""
        return f"{self.budget}_{self.unit}"

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most


class Budgets:
    """The budgets of a home."""

    def __init__(self, ledgers: Ledgers, limits: BudgetsConfig, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._limits = limits
        self._now = now

    async def check(self, spender: Spender) -> None:
        """Refuse a further request, and record that, where a budget is used up."""
        moment = self._now()

        def work(connection: apsw.Connection) -> Standing | None:
            standing = of_spender(connection, self._limits, spender, moment)
            return next((each for each in standing if each.is_used_up), None)

        used_up = await self._ledgers.runtime.read(work)
        if used_up is not None:
            await self._ledgers.runtime.write(partial(budgets.record, hit=hit(used_up, spender)))
            raise refusal(used_up)


def of_spender(
    connection: apsw.Connection, limits: BudgetsConfig, spender: Spender, now: datetime
) -> Iterator[Standing]:
    """The budgets that a run spends from, the narrowest first. What is not limited is not added up."""
    if limits.request_usd or limits.request_tokens:
        total = usage.of_root(connection, spender.root_request_id)
        yield from _standing("request", limits.request_usd, limits.request_tokens, total)
    if spender.automation:
        yield from of_automation(connection, limits, spender.automation, now)
    yield from of_home(connection, limits, now)


def of_automation(
    connection: apsw.Connection, limits: BudgetsConfig, name: str, now: datetime
) -> Iterator[Standing]:
    """What an automation has used of its day."""
    if limits.automation_usd or limits.automation_tokens:
        total = usage.of_automation(connection, name, clock.day(now))
        yield from _standing("automation", limits.automation_usd, limits.automation_tokens, total, name)


def of_home(connection: apsw.Connection, limits: BudgetsConfig, now: datetime) -> Iterator[Standing]:
    """What the whole home has used of its day and its month."""
    if limits.day_usd or limits.day_tokens:
        total = usage.since(connection, clock.day(now))
        yield from _standing("day", limits.day_usd, limits.day_tokens, total)
    if limits.month_usd or limits.month_tokens:
        total = usage.since(connection, clock.first_of_month(now))
        yield from _standing("month", limits.month_usd, limits.month_tokens, total)


def refusal(used_up: Standing) -> BudgetError:
    """Which budget, how much, and what to type."""
    most, used = (_told(amount, used_up.unit) for amount in (used_up.most, used_up.used))
    whose, again = {
        "request": ("for one message and what it leads to", "Ask for less at a time"),
        "automation": (f"for `{used_up.automation}` in a day", "It goes on tomorrow (UTC)"),
        "day": ("for a day", "It goes on tomorrow (UTC)"),
        "month": ("for a month", "It goes on next month (UTC)"),
    }[used_up.budget]
    return BudgetError(
        f"The budget of {most} {whose} is used up: {used} were spent",
        hint=f"{again}, or raise `{used_up.setting}` in the section [budgets] of config.toml. "
        "`nexus usage` shows what was spent on what.",
    )


def _standing(
    budget: Budget, usd: float, tokens: int, total: Totals, automation: str | None = None
) -> Iterator[Standing]:
    given: tuple[tuple[Unit, float, float], ...] = (
        ("usd", usd, total.cost_microusd / MICRO),
        ("tokens", tokens, total.tokens),
    )
    for unit, most, used in given:
        if most:
            yield Standing(budget=budget, unit=unit, most=most, used=used, automation=automation)


def hit(used_up: Standing, spender: Spender) -> NewHit:
    """What the ledger keeps of a refusal."""
    return NewHit(
        id=ids.derived("bgt", spender.execution_id, used_up.setting),
        budget=used_up.budget,
        unit=used_up.unit,
        automation=used_up.automation,
        most=used_up.most,
        used=used_up.used,
        request_id=spender.request_id,
        root_request_id=spender.root_request_id,
        execution_id=spender.execution_id,
    )


def _told(amount: float, unit: Unit) -> str:
    return f"${amount:,.2f}" if unit == "usd" else f"{amount:,.0f} tokens"
