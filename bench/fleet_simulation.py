"""A day of a fleet, simulated, for 10^2 to 10^8 homes: how long takeovers take, and what saturates first.

    python bench/fleet_simulation.py              prints the tables, a minute or two
    python bench/fleet_simulation.py --write      and puts them into docs/scale.md, with two plots
    python bench/fleet_simulation.py --quick      the small fleets alone

Every day has a rolling upgrade at 02:00; a third of the hosts dies at 12:10, another third at 20:15, in the
busiest hour; and hosts fail at random. Dead hosts lose their disks and are replaced after half an hour.

A fleet of more than three hosts is represented by three of them with their share of the homes; what all hosts
share, Postgres and the storage of copies, carries the whole fleet.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import fleet_plots
import scale_plan
from fleet_cell import Cell
from fleet_parts import DAY_S, SAMPLE_S, Parameters, Sample
from report import percentile, progress

ASSETS: Final = Path(__file__).parents[1] / "docs" / "assets"
POWERS: Final = range(2, 9)
_CELL_HOSTS = 3
_UPGRADE_S, _NOON_S, _BUSY_S = 2 * 3600.0, 12 * 3600 + 600.0, 20 * 3600 + 900.0
# Of one unit: when a window of ten minutes asks for more, it is too little.
_WINDOW = int(600 / SAMPLE_S)
_SEED = 23
_CELL_POWER, _SHOWN = 5, 6
# The storms of noon are over by then.
_QUIET_S = 15 * 3600.0
# Shared parts are sized so that the worst ten minutes take this much of them.
_SHARE = 0.7


@dataclass(frozen=True, kw_only=True)
class Day:
    """One simulated day of a fleet."""

    power: int
    hosts: int
    given: Parameters
    cell: Cell

    @property
    def storages(self) -> float:
        return self.given.storage_mib_per_s / Parameters.storage_mib_per_s

    @property
    def postgres(self) -> float:
        return self.given.postgres_cores / scale_plan.Assumptions().postgres_cores

    def takeovers_s(self, died_s: float) -> list[float]:
        return sorted(took for died, took in self.cell.seen.takeovers_s if died == died_s)

    def waits_s(self, begin_s: float, end_s: float) -> list[float]:
        seen = self.cell.seen
        pairs = zip(seen.arrived_s, seen.waits_s, strict=True)
        return sorted(wait for arrived, wait in pairs if begin_s <= arrived < end_s)

    def samples(self, begin_s: float, end_s: float) -> list[Sample]:
        return [each for each in self.cell.seen.samples if begin_s < each.time_s <= end_s]

    def peak(self, name: str, begin_s: float, end_s: float) -> float:
        """The highest mean over ten minutes."""
        values = [float(getattr(each, name)) for each in self.samples(begin_s, end_s)]
        windows = (values[at : at + _WINDOW] for at in range(max(1, len(values) - _WINDOW + 1)))
        return max(sum(window) / len(window) for window in windows)


def parameters(power: int, storages: int = 1, postgres: int = 1) -> tuple[int, Parameters]:
    """How many hosts the fleet has, and the cell that stands for it."""
    figures, hosting, given = scale_plan.kept(), scale_plan.hosting(), scale_plan.Assumptions()
    row = scale_plan.plan(10**power, figures, hosting, given)
    hosts = max(_CELL_HOSTS, row.processes)
    turn_s, open_s = figures.cpu_ms_per_turn / 1000, figures.open_ms / 1000
    message_s = scale_plan.cpu_ms_per_message(figures, hosting, given) / 1000
    return hosts, Parameters(
        hosts=_CELL_HOSTS,
        homes=10**power * _CELL_HOSTS // hosts,
        times=hosts / _CELL_HOSTS,
        visits_per_day=given.messages / given.messages_per_visit,
        messages_per_visit=round(given.messages_per_visit),
        turn_cpu_s=turn_s,
        open_cpu_s=open_s,
        # Measured per message was an open home and its share of opening.
        later_cpu_s=message_s - turn_s - open_s / given.messages_per_visit,
        size_mib=scale_plan.bytes_per_home(figures, given) / 2**20,
        restore_fixed_s=hosting.restore_fixed_s,
        restore_mib_per_s=hosting.restore_mib_per_s,
        copy_mib_per_s=hosting.copy_mib_per_s,
        reconcile_s_per_mib=hosting.reconcile_s_per_mib,
        storage_mib_per_s=Parameters.storage_mib_per_s * storages,
        message_ms=hosting.message_ms,
        visit_ms=hosting.visit_ms,
        renew_ms=hosting.renew_ms,
        look_ms=hosting.look_ms,
        postgres_cores=given.postgres_cores * postgres,
    )


def simulate(power: int, storages: int = 1, postgres: int = 1, **changed: Any) -> Day:
    hosts, given = parameters(power, storages, postgres)
    given = replace(given, **changed)
    cell = Cell(given, _SEED + power)
    cell.arrivals(DAY_S)
    cell.failures(DAY_S)
    cell.sampling(DAY_S)
    cell.time.at(_UPGRADE_S, cell.upgrade)
    cell.time.at(_NOON_S, cell.kill, cell.hosts[0])
    cell.time.at(_BUSY_S, cell.kill, cell.hosts[1])
    cell.time.run(DAY_S)
    assert cell.seen.received == cell.seen.answered + len(cell.waiting())
    progress(
        f"10^{power}: {hosts:,} hosts, {cell.seen.received:,} messages of {given.hosts} hosts, "
        f"{cell.seen.restores:,} restores"
    )
    return Day(power=power, hosts=hosts, given=given, cell=cell)


def demands(day: Day) -> dict[str, tuple[float, float]]:
    """What is asked of one unit of each part at most: on a normal day, and after the loss of a third."""
    units = {"processor": 1.0, "storage": day.storages, "postgres": day.postgres}
    found: dict[str, tuple[float, float]] = {}
    for part, unit in units.items():
        normal = unit * day.peak(part, _QUIET_S, _BUSY_S)
        found[part] = normal, max(normal, unit * day.peak(part, _BUSY_S, DAY_S))
    normal, storm = (
        max(each.fullest_host for each in day.samples(begin_s, end_s)) / day.given.most_open
        for begin_s, end_s in ((_QUIET_S, _BUSY_S), (_BUSY_S, DAY_S))
    )
    found["open homes"] = normal, max(normal, storm)
    return found


def sized() -> Callable[[int], tuple[int, int]]:
    """How many units of storage and of Postgres a fleet is given, by what one cell asks for."""
    hosts, _ = parameters(_CELL_POWER)
    cell = demands(simulate(_CELL_POWER, storages=hosts))

    def units(power: int) -> tuple[int, int]:
        times = parameters(power)[0] / hosts
        storages, postgres = (ceil(times * cell[part][1] / _SHARE) for part in ("storage", "postgres"))
        return max(1, storages), max(1, postgres)

    return units


def demand_table(days: Iterable[Day]) -> str:
    lines = [
        "| homes | hosts | busiest processor | open homes, of 256 | storage, of 10 Gbit/s | Postgres, of one "
        "| saturates first |",
        "|---|---|---|---|---|---|---|",
    ]
    for day in days:
        asked = demands(day)
        cells = [
            f"{100 * asked[name][0]:,.0f}%, {100 * asked[name][1]:,.0f}%"
            for name in ("processor", "open homes", "storage", "postgres")
        ]
        lines.append(f"| 10^{day.power} | {day.hosts:,} | {' | '.join(cells)} | {_first(asked)} |")
    return "\n".join(lines) + "\n"


def _first(asked: dict[str, tuple[float, float]]) -> str:
    for when, kind in ((0, "every day"), (1, "after the loss")):
        most = max(asked, key=lambda name: asked[name][when])
        if asked[most][when] > 1:
            return f"{most.replace('postgres', 'Postgres')}, {kind}"
    return "nothing"


def time_table(days: Iterable[Day]) -> str:
    lines = [
        "| homes | storage, Postgres | takeover at noon: p50, p95, most "
        "| in the busiest hour: p50, p95, most | restores at once "
        "| delay of a message, p99 | after the loss, p99 | above 10 s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for day in days:
        waits = day.waits_s(0, DAY_S)
        late = sum(1 for wait in waits if wait > 10) + len(day.cell.waiting())
        storm = day.samples(_BUSY_S, DAY_S)
        restoring = max(each.restoring for each in storm) * day.given.times
        cells = (
            f"10^{day.power}",
            f"{day.storages:,.0f}; {day.postgres:.0f}",
            _spread(day.takeovers_s(_NOON_S)),
            _spread(day.takeovers_s(_BUSY_S)),
            f"{restoring:,.0f}",
            f"{percentile(day.waits_s(19 * 3600, _BUSY_S), 0.99):.1f} s",
            f"{percentile(day.waits_s(_BUSY_S, _BUSY_S + 1800), 0.99):.1f} s",
            f"{100 * late / day.cell.seen.received:.2f}%",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: list[float]) -> str:
    if not values:
        return "none open"
    return f"{percentile(values, 0.5):.0f}, {percentile(values, 0.95):.0f}, {values[-1]:.0f} s"


def drained(restarted: Day) -> str:
    """What it costs to drain every host at an upgrade instead of stopping and starting it."""
    moved = simulate(restarted.power, drain_moves_closed=True)
    lines = [
        "| upgrade of a host | restores that day | storage, of 10 Gbit/s | delay of a message, p99 |",
        "|---|---|---|---|",
    ]
    for what, day in (("stopped and started", restarted), ("drained first", moved)):
        restores = day.cell.seen.restores * day.given.times
        storage, delay_s = day.peak("storage", _UPGRADE_S, _NOON_S), percentile(day.waits_s(0, _NOON_S), 0.99)
        lines.append(f"| {what} | {restores:,.0f} | {100 * storage:.0f}% | {delay_s:.1f} s |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        days = [simulate(power) for power in POWERS[:2]]
    else:
        units = sized()
        days = [simulate(power, *units(power)) for power in POWERS]
    tables = {"demand": demand_table(days), "takeover": time_table(days)}
    if not asked.quick:
        tables["upgrade"] = drained(days[_CELL_POWER - POWERS[0]])
    for text in tables.values():
        print(text)
    if asked.write:
        page = scale_plan.PAGE
        page.write_text(scale_plan.filled(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
        asked_of = {day.power: demands(day) for day in days}
        fleet_plots.limits(asked_of, ASSETS / "fleet-limits.png")
        took = {day.power: day.takeovers_s(_BUSY_S) for day in days}
        shown = next(day for day in days if day.power == _SHOWN)
        storm = shown.samples(_BUSY_S - 600, _BUSY_S + 3000)
        fleet_plots.takeovers(took, storm, _BUSY_S, shown.given.times, _SHOWN, ASSETS / "fleet-takeover.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
