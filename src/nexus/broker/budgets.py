"""Budgets: what may be spent, looked at before each request to a model, from what the ledger says was spent.

The sums are the ledger's, so they hold over processes and restarts. In the transaction that looks at them a
request reserves what it may come to, until it is billed; if its process dies before, the reservation is its
bill. It is refused where a budget is used up, and waits
where a budget would be used up together with what others have reserved. So however many runs there are, a
budget is exceeded by one request at most, and by what those under way turn out dearer than estimated.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import apsw

from nexus import clock, ids
from nexus.broker.agent.records import Attempt, Estimate
from nexus.config import BudgetsConfig
from nexus.errors import BudgetError, StoppedError
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import reservations, usage
from nexus.ledgers.runtime.reservations import Held, Reservation
from nexus.ledgers.runtime.usage import Budget, NewHit, Unit, UsageRow
from nexus.runs import MICRO, Totals

_NOTHING: Final = Held()
# How soon somebody who waits notices that others were billed: soon beside what an answer takes.
_LOOK_AGAIN_S: Final = 0.2

_TOMORROW: Final = "Try again tomorrow (UTC)."
_GUEST_REFUSALS: Final[dict[Budget, tuple[str, str]]] = {
    "request": ("This message exceeded its limit", "Ask for less at a time."),
    "automation": ("Today's limit is used up", _TOMORROW),
    "guest": ("Your limit for today is used up", _TOMORROW),
    "guests": ("Today's limit is used up", _TOMORROW),
    "day": ("Today's limit is used up", _TOMORROW),
    "month": ("This month's limit is used up", "Try again next month (UTC)."),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Spender:
    """Who wants to spend: a run of a request, on its own account or on an automation's."""

    request_id: str
    root_request_id: str
    execution_id: str = ""
    """Empty for a request that belongs to no run."""
    invocation_id: str | None = None
    role: str | None = None
    automation: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How far a budget is used."""

    budget: Budget
    unit: Unit
    most: float
    used: float
    held: float = 0.0
    """What requests under way may yet use of it."""
    automation: str | None = None
    guest: str | None = None
    """Whose, where each person has their own: an entity."""

    @property
    def setting(self) -> str:
        """Its name in the section [budgets]."""
        return f"{self.budget}_{self.unit}"

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most

    @property
    def is_taken(self) -> bool:
        """Whether those who are under way may use up what is left."""
        return self.used + self.held >= self.most


class Budgets:
    """The budgets of a home."""

    def __init__(self, ledgers: Ledgers, limits: BudgetsConfig, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._limits = limits
        self._now = now

    async def reserve(self, spender: Spender, estimate: Estimate) -> None:
        """Hold back what a request may come to; refuse it, and record that, where a budget is used up."""
        while (short := await self._ledgers.runtime.write(self._reserve, spender, estimate)) is not None:
            if short.is_used_up:
                raise refusal(short, guest=await self._is_guest(spender))
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def check_home(self) -> None:
        """Refuse a request that belongs to no run where the day's or the month's budget is used up."""

        def find_short(connection: apsw.Connection) -> Standing | None:
            held = reservations.by_others(connection, execution_id="", root_request_id="", automation="")
            standing = of_home(connection, self._limits, self._now(), held.for_home)
            return next((each for each in standing if each.is_taken), None)

        short = await self._ledgers.runtime.read(find_short)
        if short is not None:
            raise refusal(short)

    async def bill(self, attempt: Attempt, purpose: str) -> None:
        """Record what a request that belongs to no run has used."""
        spender = Spender(request_id=purpose, root_request_id=purpose)
        await self._ledgers.runtime.write(usage.record, make_usage_row(attempt, spender))

    async def _is_guest(self, spender: Spender) -> bool:
        root = spender.root_request_id
        return await self._ledgers.runtime.read(usage.guest_of_root, root_request_id=root) is not None

    def _reserve(self, connection: apsw.Connection, spender: Spender, estimate: Estimate) -> Standing | None:
        """The budget that falls short; None where none does, and the estimate is held."""
        standing = list(of_spender(connection, self._limits, spender, self._now()))
        taken = [each for each in standing if each.is_taken]
        used_up = next((each for each in taken if each.is_used_up), None)
        if used_up is not None:
            usage.record_hit(connection, hit(used_up, spender))
        elif not taken and not reservations.hold(connection, _reservation(spender, estimate)):
            # This process lost its lease, and doesn't know it yet.
            raise StoppedError(f"Another process has ended the run {spender.execution_id}")
        return used_up or next(iter(taken), None)


def of_spender(
    connection: apsw.Connection, limits: BudgetsConfig, spender: Spender, now: datetime
) -> Iterator[Standing]:
    """The budgets that a run spends from, the narrowest first. What is not limited is not added up."""
    reserved = reservations.by_others(
        connection,
        execution_id=spender.execution_id,
        root_request_id=spender.root_request_id,
        automation=spender.automation,
    )
    if limits.request_usd or limits.request_tokens:
        total = usage.of_root(connection, spender.root_request_id)
        yield from _standing("request", limits.request_usd, limits.request_tokens, total, reserved.for_root)
    if spender.automation:
        yield from of_automation(connection, limits, spender.automation, now, reserved.for_automation)
    guest = usage.guest_of_root(connection, spender.root_request_id)
    if guest is not None:
        yield from of_guests(connection, limits, now, only=guest, but_of_execution=spender.execution_id)
    yield from of_home(connection, limits, now, reserved.for_home)


def of_automation(
    connection: apsw.Connection, limits: BudgetsConfig, name: str, now: datetime, held: Held = _NOTHING
) -> Iterator[Standing]:
    """What an automation has used of its day."""
    if limits.automation_usd or limits.automation_tokens:
        total = usage.of_automation(connection, name, clock.day(now))
        yield from _standing("automation", limits.automation_usd, limits.automation_tokens, total, held, name)


def of_guests(
    connection: apsw.Connection,
    limits: BudgetsConfig,
    now: datetime,
    *,
    only: str | None = None,
    but_of_execution: str = "",
) -> Iterator[Standing]:
    """What people other than the owner have used of their day: one of them or each, then all together."""
    if not (limits.guest_usd or limits.guest_tokens or limits.guests_usd or limits.guests_tokens):
        return
    spent = usage.of_guests(connection, clock.day(now))
    held = reservations.by_guests(connection, but_of_execution=but_of_execution)
    for guest in sorted(spent) if only is None else [only]:
        total, reserved = spent.get(guest, Totals()), held.get(guest, _NOTHING)
        for each in _standing("guest", limits.guest_usd, limits.guest_tokens, total, reserved):
            yield replace(each, guest=guest)
    if only is None and not spent:
        return
    together = Held(
        sum(each.tokens for each in held.values()), sum(each.cost_microusd for each in held.values())
    )
    total = sum(spent.values(), start=Totals())
    yield from _standing("guests", limits.guests_usd, limits.guests_tokens, total, together)


def of_home(
    connection: apsw.Connection, limits: BudgetsConfig, now: datetime, held: Held = _NOTHING
) -> Iterator[Standing]:
    """What the whole home has used of its day and its month."""
    if limits.day_usd or limits.day_tokens:
        total = usage.since(connection, clock.day(now))
        yield from _standing("day", limits.day_usd, limits.day_tokens, total, held)
    if limits.month_usd or limits.month_tokens:
        total = usage.since(connection, clock.first_of_month(now))
        yield from _standing("month", limits.month_usd, limits.month_tokens, total, held)


def refusal(used_up: Standing, *, guest: bool = False) -> BudgetError:
    """Which budget, how much, and what to type. A guest is told only when to write again."""
    if guest:
        message, hint = _GUEST_REFUSALS[used_up.budget]
        return BudgetError(message, hint=hint)
    most, used = (_format_amount(amount, used_up.unit) for amount in (used_up.most, used_up.used))
    whose, again = {
        "request": ("for one message and all work it leads to", "Ask for less at a time"),
        "automation": (f"per day for `{used_up.automation}`", "Try again tomorrow (UTC)"),
        "guest": ("per day for one person", "Try again tomorrow (UTC)"),
        "guests": ("per day for everyone but you", "Try again tomorrow (UTC)"),
        "day": ("per day", "Try again tomorrow (UTC)"),
        "month": ("per month", "Try again next month (UTC)"),
    }[used_up.budget]
    return BudgetError(
        f"The budget of {most} {whose} is used up ({used} spent)",
        hint=f"{again}, or raise `{used_up.setting}` in [budgets] in config.toml. "
        "`nexus usage` shows the details.",
    )


def _standing(
    budget: Budget, usd: float, tokens: int, total: Totals, held: Held, automation: str | None = None
) -> Iterator[Standing]:
    given: tuple[tuple[Unit, float, float, float], ...] = (
        ("usd", usd, total.cost_microusd / MICRO, held.cost_microusd / MICRO),
        ("tokens", tokens, total.tokens, held.tokens),
    )
    for unit, most, used, reserved in given:
        if most:
            yield Standing(
                budget=budget, unit=unit, most=most, used=used, held=reserved, automation=automation
            )


def _reservation(spender: Spender, estimate: Estimate) -> Reservation:
    return Reservation(
        execution_id=spender.execution_id,
        usage_id=estimate.id,
        request_id=spender.request_id,
        root_request_id=spender.root_request_id,
        invocation_id=spender.invocation_id,
        role=spender.role,
        provider=estimate.provider,
        model=estimate.model,
        automation=spender.automation or None,
        input_tokens=estimate.input_tokens,
        output_tokens=estimate.output_tokens,
        cost_microusd=estimate.cost_microusd,
    )


def make_usage_row(attempt: Attempt, spender: Spender, span_id: str | None = None) -> UsageRow:
    """Make the ledger's row of what a request to a model used."""
    return UsageRow(
        id=attempt.id,
        request_id=spender.request_id,
        root_request_id=spender.root_request_id,
        execution_id=spender.execution_id or None,
        invocation_id=spender.invocation_id,
        span_id=span_id,
        role=spender.role,
        provider=attempt.provider,
        model=attempt.model,
        input_tokens=attempt.input_tokens,
        cache_read_tokens=attempt.cache_read_tokens,
        cache_write_tokens=attempt.cache_write_tokens,
        output_tokens=attempt.output_tokens,
        cost_microusd=attempt.cost_microusd,
        automation=spender.automation or None,
        estimated=attempt.estimated,
    )


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


def _format_amount(amount: float, unit: Unit) -> str:
    return f"${amount:,.2f}" if unit == "usd" else f"{amount:,.0f} tokens"
