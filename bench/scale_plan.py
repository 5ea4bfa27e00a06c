"""From what was measured to hosts and disks: the tables of docs/scale.md.

python bench/scale_plan.py            computes them anew, after an assumption was changed below
python bench/scale_plan.py --check    fails where the page is not what comes out
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from typing import Final, Literal

KEPT: Final = Path(__file__).with_name("scale.json")
RESULTS: Final = Path(__file__).with_name("RESULTS.md")
PAGE: Final = Path(__file__).parents[1] / "docs" / "scale.md"
_KIB, _MIB, _GIB, _TIB = (1024**power for power in (1, 2, 3, 4))
_POWERS = range(9)
_HEADS = (
    "homes",
    "messages a second, busiest hour",
    "cores",
    "homes open at once",
    "hosts, a process for each open home",
    "hosts, many homes in a process",
    "disk",
    "executions a second",
    "finished work on Postgres",
    "Postgres servers, a process for each open home",
    "Postgres servers, many homes in a process",
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What bench/scale.py measured."""

    measured: str = ""
    bytes_per_empty_home: int = 0
    bytes_per_event: int = 0
    bytes_per_fact: int = 0
    bytes_per_embedding: int = 0
    ledger_bytes_per_turn: int = 0
    cpu_ms_per_turn: float = 0.0
    cpu_ms_per_embedding: float = 0.0
    facts_of_recall: int = 0
    cpu_ms_per_recall: float = 0.0
    open_ms: int = 0
    bytes_per_open_home: int = 0
    bytes_per_process: int = 0
    bytes_per_busy_process: int = 0
    engine_rows_per_turn: float = 0.0
    engine_bytes_per_turn: int = 0
    postgres_cpu_ms_per_turn: float = 0.0
    postgres_engine_rows_per_turn: float = 0.0
    postgres_engine_bytes_per_turn: int = 0
    postgres_connections: int = 0


MEANING: Final = {
    "bytes_per_empty_home": "an empty home, its six ledgers: bytes",
    "bytes_per_event": "an event of 20 words, with its full-text index: bytes",
    "bytes_per_fact": "a fact of 14 words, with its full-text index: bytes",
    "bytes_per_embedding": "the vector of one of them, 384 numbers: bytes",
    "ledger_bytes_per_turn": "a turn, everything that the six ledgers keep of it: bytes",
    "cpu_ms_per_turn": "a turn, with two messages embedded and without the model: processor ms",
    "cpu_ms_per_embedding": "embedding a sentence: processor ms",
    "facts_of_recall": "facts in the home that is asked",
    "cpu_ms_per_recall": "a recall in it, budget low, p50: processor ms",
    "open_ms": "opening a home to serve it, in a process that runs: ms",
    "bytes_per_open_home": "one more home open in a process, ledgers alone: resident bytes",
    "bytes_per_process": "a process that has just opened a home: resident bytes",
    "bytes_per_busy_process": "the same after the turns, with the embedder loaded: resident bytes",
    "engine_rows_per_turn": "a turn on the engine, SQLite: rows",
    "engine_bytes_per_turn": "a turn on the engine, SQLite: bytes",
    "postgres_cpu_ms_per_turn": "a turn with the engine on Postgres: processor ms of the process",
    "postgres_engine_rows_per_turn": "a turn on the engine, Postgres: rows",
    "postgres_engine_bytes_per_turn": "a turn on the engine, Postgres: bytes",
    "postgres_connections": "connections of a process to Postgres",
}


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What nobody has measured: change it here, and run this file."""

    active_share: float = 0.3
    messages: float = 20
    runs_per_message: float = 2.5
    facts_per_message: float = 1.5
    recalls_per_message: float = 1.5
    busiest_hour: float = 0.12
    open_minutes: float = 10
    years: float = 3
    used: float = 0.5
    host_cores: int = 16
    host_gib: int = 128
    host_tib: float = 4
    engine_days: float = 30
    postgres_connections: int = 400


ASSUMED: Final = {
    "active_share": "share of homes in which something is said on a day",
    "messages": "messages of a day in such a home",
    "runs_per_message": "runs of agents for a message: the answer, the memory writer, some workers",
    "facts_per_message": "facts learned from a message, each with a vector",
    "recalls_per_message": "recalls for a message",
    "busiest_hour": "share of a day's messages that come in its busiest hour",
    "open_minutes": "minutes that a home stays open after a message",
    "years": "years of messages on the disk",
    "used": "share of a host that may be busy in the busiest hour",
    "host_cores": "cores of a host",
    "host_gib": "memory of a host, GiB",
    "host_tib": "disk of a host, TiB",
    "engine_days": "days that the engine keeps finished work (`retention_days`)",
    "postgres_connections": "connections that one Postgres serves well",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What so many homes need."""

    homes: int
    messages_per_s: float
    cores: float
    open_homes: float
    apart_hosts: int
    apart_limit: str
    shared_hosts: int
    shared_limit: str
    disk_bytes: float
    executions_per_s: float
    engine_bytes: float
    apart_postgres: int
    apart_postgres_limit: str
    shared_postgres: int
    shared_postgres_limit: str


def plan(homes: int, figures: Figures, given: Assumptions, postgres_rate: float) -> Row:
    """The arithmetic, from homes to hosts."""
    active = homes * given.active_share
    messages_per_s = active * given.messages * given.busiest_hour / 3600
    cores = messages_per_s * cpu_ms_per_message(figures, given) / 1000 / given.used
    open_homes = active * min(1.0, given.messages * given.busiest_hour * given.open_minutes / 60)
    disk_bytes = homes * bytes_per_home(figures, given)
    apart_bytes = open_homes * figures.bytes_per_busy_process
    processes = max(1, ceil(cores))
    shared_bytes = open_homes * figures.bytes_per_open_home + processes * figures.bytes_per_busy_process
    executions_per_s = messages_per_s * given.runs_per_message
    kept = active * given.messages * given.runs_per_message * given.engine_days
    apart_hosts, apart_limit = _hosts(cores, apart_bytes, disk_bytes, given)
    shared_hosts, shared_limit = _hosts(cores, shared_bytes, disk_bytes, given)
    rate = executions_per_s / postgres_rate / given.used
    apart_postgres, apart_postgres_limit = _servers(rate, open_homes, figures, given)
    shared_postgres, shared_postgres_limit = _servers(rate, processes, figures, given)
    return Row(
        homes=homes,
        messages_per_s=messages_per_s,
        cores=cores,
        open_homes=open_homes,
        apart_hosts=apart_hosts,
        apart_limit=apart_limit,
        shared_hosts=shared_hosts,
        shared_limit=shared_limit,
        disk_bytes=disk_bytes,
        executions_per_s=executions_per_s,
        engine_bytes=kept * figures.postgres_engine_bytes_per_turn,
        apart_postgres=apart_postgres,
        apart_postgres_limit=apart_postgres_limit,
        shared_postgres=shared_postgres,
        shared_postgres_limit=shared_postgres_limit,
    )


def cpu_ms_per_message(figures: Figures, given: Assumptions) -> float:
    """Everything that a message costs but the model."""
    return (
        given.runs_per_message * figures.cpu_ms_per_turn
        + given.recalls_per_message * figures.cpu_ms_per_recall
        + given.facts_per_message * figures.cpu_ms_per_embedding
    )


def bytes_per_home(figures: Figures, given: Assumptions) -> float:
    """An average home after those years."""
    facts = given.facts_per_message * (figures.bytes_per_fact + figures.bytes_per_embedding)
    per_message = given.runs_per_message * figures.ledger_bytes_per_turn + facts
    messages = 365 * given.years * given.active_share * given.messages
    return figures.bytes_per_empty_home + messages * per_message


def _hosts(cores: float, memory: float, disk: float, given: Assumptions) -> tuple[int, str]:
    needed = {
        "processor": cores / given.host_cores,
        "memory": memory / (given.host_gib * _GIB * given.used),
        "disk": disk / (given.host_tib * _TIB * given.used),
    }
    most = max(needed, key=lambda name: needed[name])
    return max(1, ceil(needed[most])), most


def _servers(
    rate: float, processes: float, figures: Figures, given: Assumptions
) -> tuple[int, Literal["rate", "connections"]]:
    connections = processes * figures.postgres_connections / given.postgres_connections
    return max(1, ceil(max(rate, connections))), "rate" if rate >= connections else "connections"


def postgres_rate() -> float:
    """Executions a second that one Postgres carried on two cores, beside the processes that ran them."""
    section = RESULTS.read_text(encoding="utf-8").partition("## The engine on postgres")[2]
    found = re.search(r"no-op executions[^|]*\| (\d+)/s", section)
    assert found is not None
    return float(found[1])


def table(figures: Figures) -> str:
    """The plan for every power of ten."""
    given, rate = Assumptions(), postgres_rate()
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    for power in _POWERS:
        row = plan(10**power, figures, given, rate)
        cells = (
            f"10^{power}",
            _number(row.messages_per_s),
            _number(row.cores),
            _number(row.open_homes),
            f"{row.apart_hosts:,} ({row.apart_limit})",
            f"{row.shared_hosts:,} ({row.shared_limit})",
            _bytes(row.disk_bytes),
            _number(row.executions_per_s),
            _bytes(row.engine_bytes),
            f"{row.apart_postgres:,} ({row.apart_postgres_limit})",
            f"{row.shared_postgres:,} ({row.shared_postgres_limit})",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def parts(figures: Figures) -> dict[str, str]:
    """What the page holds between its markers."""
    given = Assumptions()
    measured = ((meaning, _shown(name, getattr(figures, name))) for name, meaning in MEANING.items())
    assumed = ((ASSUMED[each.name], f"{getattr(given, each.name):g}") for each in fields(given))
    per_message = [
        ("processor time of a message, without the model", f"{cpu_ms_per_message(figures, given):.0f} ms"),
        ("an average home on the disk", _bytes(bytes_per_home(figures, given))),
        ("executions a second that one Postgres carries", f"{postgres_rate():.0f}"),
    ]
    return {
        "figures": f"{figures.measured}\n\n{_table('measured', measured)}",
        "assumptions": _table("assumed", assumed),
        "derived": _table("that makes", per_message),
        "plan": table(figures),
    }


def page(text: str, figures: Figures) -> str:
    """The page with its tables as they come out."""
    for name, content in parts(figures).items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        assert found, f"{PAGE} has no place for {name}"
        text = f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"
    return text


def kept() -> Figures:
    """What was measured last."""
    return Figures(**json.loads(KEPT.read_text(encoding="utf-8")))


def keep(figures: Figures) -> None:
    """Store what was measured, and compute the page from it."""
    KEPT.write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def _table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    return f"| {head} | |\n|---|---|\n" + "".join(f"| {what} | {value} |\n" for what, value in rows)


def _shown(name: str, value: float) -> str:
    return f"{_bytes(value)}" if "bytes" in name and value >= 10 * _KIB else f"{value:,}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _bytes(value: float) -> str:
    for unit, name in ((_TIB * 1024, "PiB"), (_TIB, "TiB"), (_GIB, "GiB"), (_MIB, "MiB")):
        if value >= unit:
            return f"{value / unit:,.1f} {name}"
    return f"{value / _KIB:,.1f} KiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    held = PAGE.read_text(encoding="utf-8")
    made = page(held, kept())
    if given.check and made != held:
        print(f"{PAGE} is stale: run `python bench/scale_plan.py`.", file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
