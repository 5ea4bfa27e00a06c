"""What a benchmark prints: its progress, its table, and its section of RESULTS.md."""

import os
import platform
import sqlite3
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import apsw

RESULTS = Path(__file__).with_name("RESULTS.md")
_TITLE = "# Results\n\nEach section is written by the benchmark that it names, with `--write`.\n"
_started = time.monotonic()


@dataclass(frozen=True)
class Figure:
    """One line of the table. Without a target it is there to be known."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None


def progress(text: str) -> None:
    """Say on stderr what is going on."""
    print(f"[{time.monotonic() - _started:7.1f} s] {text}", file=sys.stderr, flush=True)


def table(figures: list[Figure]) -> str:
    """The figures as a markdown table."""
    verdict = {None: "", True: "yes", False: "**no**"}
    lines = ["| measured | figure | target | met |", "|---|---|---|---|"]
    lines += [f"| {each.what} | {each.value} | {each.target} | {verdict[each.met]} |" for each in figures]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What the figures were measured on."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()} in apsw and {sqlite3.sqlite_version} in `sqlite3`, "
        f"load {load:.1f} at the end of the run."
    )


def write_section(name: str, text: str) -> None:
    """Put the section into RESULTS.md, in the place of the one of that name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    known = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _TITLE
    before, found, rest = known.partition(begin)
    after = rest.partition(end)[2] if found else ""
    if not found:
        before = before.rstrip("\n") + "\n\n"
    RESULTS.write_text(f"{before}{begin}{text}{end}{after}", encoding="utf-8")


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return int(line.split()[1]) / 1024**2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
