"""Bars made of numbers, ready to be drawn as SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nexus.gateway.views.usage import Spent, Usage
from nexus.runs import Totals

WIDTH: Final = 900
HEIGHT: Final = 220
_LEFT: Final = 64
_RIGHT: Final = 16
_BOTTOM: Final = 24
_TOP: Final = 8
_COLOURS: Final = 6
_LABELS: Final = 8
_GRID: Final = 4
# More bars than that are thinner than the eye tells apart: then a bar is a week.
_MOST_BARS: Final = 100
_WEEK: Final = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A part of a bar: one model on one day. `colour` is the number of a class."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A text on an axis."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """Stacked bars over days."""

    width: int
    height: int
    left: int
    baseline: float
    blocks: tuple[Block, ...]
    days: tuple[Label, ...]
    grid: tuple[Label, ...]
    legend: tuple[tuple[int, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One line of a list with a bar. `share` is of 100."""

    spent: Spent
    share: float


def stack_bars(usage: Usage) -> Plot | None:
    """Stack money by day, or tokens if no price is known. None if nothing was spent."""
    usage = _group_by_week(usage) if len(usage.days) > _MOST_BARS else usage
    by_money = usage.total.cost_microusd > 0
    highest = max((_size(day.total, by_money=by_money) for day in usage.days), default=0)
    if not highest:
        return None
    others = ["others"] if len(usage.models) >= _COLOURS else list[str]()
    named = [spent.name for spent in usage.models[: _COLOURS - 1]]
    top, step = _round_up(highest), (WIDTH - _LEFT - _RIGHT) / len(usage.days)
    tall = HEIGHT - _BOTTOM - _TOP
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        baseline=HEIGHT - _BOTTOM,
        blocks=tuple(_make_blocks(usage, named, top, step, by_money=by_money)),
        days=_day_labels(usage, step),
        grid=tuple(
            Label(
                x=_LEFT - 6,
                y=HEIGHT - _BOTTOM - tall * n / _GRID,
                text=_format_value(top * n / _GRID, top / _GRID, by_money=by_money),
            )
            for n in range(_GRID + 1)
        ),
        legend=tuple(enumerate([*named, *others])),
    )


def _group_by_week(usage: Usage) -> Usage:
    """Sum up usage by seven days, each named after the first of them."""
    weeks = [usage.days[place : place + _WEEK] for place in range(0, len(usage.days), _WEEK)]
    cells: dict[str, dict[str, Totals]] = {}
    for week in weeks:
        sums = cells.setdefault(week[0].name, {})
        for day in week:
            for model, total in usage.by_day_and_model.get(day.name, {}).items():
                sums[model] = sums.get(model, Totals()) + total
    totals = [sum((day.total for day in week), start=Totals()) for week in weeks]
    days = tuple(Spent(name=week[0].name, total=total) for week, total in zip(weeks, totals, strict=True))
    return replace(usage, days=days, by_day_and_model=cells)


def make_bars(spent: Sequence[Spent]) -> tuple[Bar, ...]:
    """Give each of a list its share of the largest."""
    by_money = any(each.total.cost_microusd for each in spent)
    largest = max((_size(each.total, by_money=by_money) for each in spent), default=0) or 1
    return tuple(
        Bar(spent=each, share=round(100 * _size(each.total, by_money=by_money) / largest, 1))
        for each in spent
    )


def make_spark(days: Sequence[Spent]) -> tuple[tuple[float, float, float, float], ...]:
    """Draw days as small bars in a box of 100 by 24: x, y, width and height of each."""
    step = 100 / max(1, len(days))
    heights = [max(1.0, round(0.24 * bar.share, 1)) for bar in make_bars(days)]
    return tuple(
        (round(place * step, 1), round(24 - height, 1), round(step * 0.7, 1), height)
        for place, height in enumerate(heights)
    )


def _make_blocks(usage: Usage, named: list[str], top: float, step: float, *, by_money: bool) -> list[Block]:
    found: list[Block] = []
    tall, thickness = HEIGHT - _BOTTOM - _TOP, max(step * 0.72, 1.0)
    for place, day in enumerate(usage.days):
        y = float(HEIGHT - _BOTTOM)
        for name, total in sorted(
            usage.by_day_and_model.get(day.name, {}).items(), key=lambda item: _order(named, item[0])
        ):
            height = tall * _size(total, by_money=by_money) / top
            y -= height
            found.append(
                Block(
                    x=round(_LEFT + place * step + (step - thickness) / 2, 1),
                    y=round(y, 1),
                    width=round(thickness, 1),
                    height=round(height, 1),
                    colour=_order(named, name),
                    title=f"{day.name} {name}: {total.cost}, {total.tokens:,} tokens",
                )
            )
    return found


def _day_labels(usage: Usage, step: float) -> tuple[Label, ...]:
    every = max(1, math.ceil(len(usage.days) / _LABELS))
    return tuple(
        Label(x=round(_LEFT + (place + 0.5) * step, 1), y=HEIGHT - 6, text=day.name[5:])
        for place, day in enumerate(usage.days)
        if (len(usage.days) - 1 - place) % every == 0
    )


def _order(named: list[str], name: str) -> int:
    return named.index(name) if name in named else len(named)


def _size(total: Totals, *, by_money: bool) -> int:
    return total.cost_microusd if by_money else total.tokens


def _format_value(value: float, step: float, *, by_money: bool) -> str:
    """Write a value of the axis with as many digits as all of them need."""
    if not by_money:
        return f"{value:,.0f}"
    digits = next(digits for digits in range(8) if round(step / 1e6, digits) == step / 1e6 or digits == 7)
    return f"${value / 1e6:,.{digits}f}" if value else "$0"


def _round_up(value: float) -> float:
    """The next number that is easy to read and to divide by four."""
    unit = 10 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 8, 10, 20) if unit * step >= value)
