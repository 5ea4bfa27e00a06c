"""The samples of a soak, one panel for each."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def plot(times_s: Sequence[float], values: Mapping[str, Sequence[float]], file: Path) -> None:
    """Every series over time, with the half that is judged shaded."""
    library: Any = importlib.import_module("matplotlib.pyplot")
    minutes = [time_s / 60 for time_s in times_s]
    figure, grid = library.subplots(len(values) // 2, 2, figsize=(8, 1.7 * len(values) // 2), sharex=True)
    for axes, (name, series) in zip(grid.flat, values.items(), strict=True):
        axes.axvspan(minutes[len(minutes) // 2], minutes[-1], color="0.93")
        axes.plot(minutes, series, linewidth=1)
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_ylim(0, max(*series, 1) * 1.15)
        axes.tick_params(labelsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("minutes", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=100)
