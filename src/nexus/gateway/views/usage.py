"""What was spent: by day, by model and by automation."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nexus import clock
from nexus.answer import Totals
from nexus.gateway.views.page import all_rows
from nexus.gateway.views.requests import totals
from nexus.ledgers import Ledgers, sql

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


async def spent(ledgers: Ledgers, *, days: int = 30, now: clock.Clock = clock.now) -> Usage:
    """What the last days cost, today among them."""
    today = now()
    since = f"{(today - timedelta(days=days - 1)).date().isoformat()}T00:00:00.000Z"
    queries = sql.queries("runtime")
    by_model, by_automation = await ledgers.runtime.read(
        lambda c: (
            all_rows(c, queries["usage_by_day_and_model"], (since,)),
            all_rows(c, queries["usage_by_automation"], (since,)),
        )
    )
    cells: dict[str, dict[str, Totals]] = defaultdict(dict)
    models: dict[str, Totals] = defaultdict(Totals)
    for day, model, *sums in by_model:
        cells[day][model] = totals(sums)
        models[model] += cells[day][model]
    return Usage(
        days=tuple(Spent(name=day, total=_sum(cells.get(day, {}))) for day in _days(today, days)),
        models=_dearest(models),
        automations=_dearest({name: totals(sums) for name, *sums in by_automation}),
        by_day_and_model=dict(cells),
        total=_sum(models),
    )


def _days(today: datetime, days: int) -> list[str]:
    return [(today - timedelta(days=back)).date().isoformat() for back in range(days - 1, -1, -1)]


def _sum(parts: dict[str, Totals]) -> Totals:
    return sum(parts.values(), start=Totals())


def _dearest(parts: dict[str, Totals]) -> tuple[Spent, ...]:
    ordered = sorted(parts.items(), key=lambda item: (-item[1].cost_microusd, -item[1].tokens, item[0]))
    return tuple(Spent(name=name, total=total) for name, total in ordered)
