"""The plots of the simulated fleet, where matplotlib is installed."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet_parts import Sample


def limits(asked: Mapping[int, Mapping[str, tuple[float, float]]], file: Path) -> None:
    """What is asked of each part, by the size of the fleet."""
    library: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = library.subplots(figsize=(7.5, 4.2))
    homes = [10**power for power in asked]
    names = {
        "storage": "storage of copies, one of 10 Gbit/s",
        "postgres": "Postgres, one of 8 cores",
        "processor": "busiest host: its core",
        "open homes": "fullest host: of 256 open homes",
    }
    for name, label in names.items():
        normal = [100 * each[name][0] for each in asked.values()]
        storm = [100 * each[name][1] for each in asked.values()]
        [line] = axes.plot(homes, normal, marker="o", markersize=4, label=label)
        axes.plot(homes, storm, linestyle="--", color=line.get_color())
    axes.plot([], [], linestyle="--", color="0.4", label="dashed: a third of the hosts is lost")
    axes.axhline(100, color="0.4", linewidth=1)
    axes.annotate("saturated", (homes[0], 115), fontsize=9, color="0.3")
    axes.set(xscale="log", yscale="log", xlabel="homes", ylabel="asked for in the worst ten minutes, %")
    axes.set_ylim(0.01, None)
    axes.grid(visible=True, color="0.92")
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def takeovers(
    took_s: Mapping[int, Sequence[float]],
    storm: Sequence[Sample],
    died_s: float,
    times: float,
    shown: int,
    file: Path,
) -> None:
    """How long open homes are away; and the hour of the loss in one fleet."""
    library: Any = importlib.import_module("matplotlib.pyplot")
    figure, (left, right) = library.subplots(1, 2, figsize=(9.5, 3.8))
    for power, values in took_s.items():
        if len(values) > 1:
            shares = [100 * (number + 1) / len(values) for number in range(len(values))]
            left.plot(values, shares, label=f"$10^{power}$ homes", drawstyle="steps-post")
    left.axvspan(11.25, 15, color="0.85", label="the lease ends")
    left.set(xlabel="seconds since the host died", ylabel="homes back, %", ylim=(0, 101))
    left.set_xlim(0, None)
    left.set_title("Takeover in the busiest hour", fontsize=10, loc="left")
    left.legend(fontsize=8, loc="lower right")
    minutes = [(each.time_s - died_s) / 60 for each in storm]
    lines = {
        "messages without an answer": [each.unanswered * times for each in storm],
        "restores at once": [each.restoring * times for each in storm],
        "homes without a host": [each.lost_homes * times for each in storm],
    }
    for name, values in lines.items():
        right.plot(minutes, values, label=name, linewidth=1.2)
    right.axvline(0, color="0.4", linewidth=1, linestyle=":")
    right.set(xlabel="minutes since a third of the hosts died", yscale="log")
    right.set_ylim(40, None)
    right.set_title(f"$10^{shown}$ homes", fontsize=10, loc="left")
    right.legend(fontsize=8, loc="upper right")
    for axes in (left, right):
        axes.grid(visible=True, color="0.92")
    figure.tight_layout()
    figure.savefig(file, dpi=100)
