"""From what was measured to hosts and disks: the tables of docs/scale.md.

python bench/scale_plan.py            computes them again, after an assumption below or a figure changed
python bench/scale_plan.py --check    fails where the page is not what comes out
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

KEPT: Final = Path(__file__).with_name("scale.json")
RESULTS: Final = Path(__file__).with_name("RESULTS.md")
PAGE: Final = Path(__file__).parents[1] / "docs" / "scale.md"
_KIB, _MIB, _GIB, _TIB = (1024**power for power in (1, 2, 3, 4))
_POWERS = range(9)
# As bench/hosting.py ran it.
OPEN_HOMES: Final = 256
_HEADS = (
    "homes",
    "messages a second, busiest hour",
    "homes open at once",
    "host processes",
    "machines",
    "disk in use on hosts",
    "copies in storage",
    "of one Postgres",
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


# What the plan is computed from; the rest is in RESULTS.md.
_USED: Final = (
    "bytes_per_empty_home",
    "bytes_per_fact",
    "bytes_per_embedding",
    "ledger_bytes_per_turn",
    "cpu_ms_per_turn",
    "cpu_ms_per_embedding",
    "facts_of_recall",
    "cpu_ms_per_recall",
    "open_ms",
)


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """What bench/hosting.py, takeover.py and control_plane.py measured, as RESULTS.md has it."""

    cpu_ms_per_message: float = 0.0
    """With one run of an agent, and with its share of opening the home."""
    bytes_per_process: float = 0.0
    bytes_per_open_home: float = 0.0
    restore_fixed_s: float = 0.0
    restore_mib_per_s: float = 1.0
    copy_mib_per_s: float = 1.0
    reconcile_s_per_mib: float = 0.0
    message_ms: float = 0.0
    visit_ms: float = 0.0
    renew_ms: float = 0.0
    look_ms: float = 0.0


HOSTED: Final = {
    "cpu_ms_per_message": "a message on a busy host, with its share of opening the home: processor ms",
    "bytes_per_process": "a host with no home open: resident bytes",
    "bytes_per_open_home": "one more open home of a busy host: resident bytes",
    "restore_fixed_s": "bringing back a small home from its copy: processor s",
    "restore_mib_per_s": "bringing back a large one: MiB for a second of processor",
    "copy_mib_per_s": "the first copy by its new owner: MiB a second",
    "reconcile_s_per_mib": "reconciling its ledgers: s for each MiB",
    "message_ms": "a message, looking up its host: processor ms of Postgres",
    "visit_ms": "a visit, acquiring, opening and closing a home: processor ms of Postgres",
    "renew_ms": "a host that renews its lease: processor ms of Postgres",
    "look_ms": "a host that looks for lost homes: processor ms of Postgres",
}


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What nobody has measured: change it here, and run this file."""

    active_share: float = 0.3
    messages: float = 20
    messages_per_visit: float = 3
    runs_per_message: float = 2.5
    facts_per_message: float = 1.5
    recalls_per_message: float = 1.5
    busiest_hour: float = 0.12
    open_minutes: float = 3
    years: float = 3
    kept_share: float = 0.64
    used: float = 0.5
    host_cores: int = 16
    host_gib: int = 128
    host_tib: float = 4
    postgres_cores: int = 8


ASSUMED: Final = {
    "active_share": "share of homes in which something is said on a day",
    "messages": "messages of a day in such a home",
    "messages_per_visit": "messages of a visit, a minute apart",
    "runs_per_message": "runs of agents for a message: the answer, the memory writer, some workers",
    "facts_per_message": "facts learned from a message, each with a vector",
    "recalls_per_message": "recalls for a message",
    "busiest_hour": "share of a day's messages that come in its busiest hour",
    "open_minutes": "minutes that a visit keeps a home open (`--idle-s 60`)",
    "years": "years of messages in a home",
    "kept_share": "share of homes whose folder is on a host: used in the last week, the others evicted",
    "used": "share of a host that may be busy in the busiest hour",
    "host_cores": "cores of a machine; a host process uses one",
    "host_gib": "memory of a machine, GiB",
    "host_tib": "disk of a machine, TiB",
    "postgres_cores": "cores of Postgres",
}
# A host renews its lease and looks for lost homes four times in 15 s.
LOOKED_PER_S: Final = 4 / 15


@dataclass(frozen=True, kw_only=True)
class Row:
    """What so many homes need."""

    homes: int
    messages_per_s: float
    open_homes: float
    processes: int
    machines: int
    limit: str
    disk_bytes: float
    copy_bytes: float
    postgres_share: float


def plan(homes: int, figures: Figures, hosting: Hosting, given: Assumptions) -> Row:
    """The arithmetic, from homes to hosts."""
    messages_per_s = homes * given.active_share * given.messages * given.busiest_hour / 3600
    visits_per_s = messages_per_s / given.messages_per_visit
    open_homes = visits_per_s * given.open_minutes * 60
    cores = messages_per_s * cpu_ms_per_message(figures, hosting, given) / 1000 / given.used
    processes = max(1, ceil(cores))
    memory = open_homes * hosting.bytes_per_open_home + processes * hosting.bytes_per_process
    copy_bytes = homes * bytes_per_home(figures, given)
    disk_bytes = copy_bytes * given.kept_share
    machines, limit = _machines(cores, memory, disk_bytes, given)
    kept_ms = processes * LOOKED_PER_S * (hosting.renew_ms + hosting.look_ms)
    spent_ms = messages_per_s * hosting.message_ms + visits_per_s * hosting.visit_ms + kept_ms
    return Row(
        homes=homes,
        messages_per_s=messages_per_s,
        open_homes=open_homes,
        processes=processes,
        machines=machines,
        limit=limit,
        disk_bytes=disk_bytes,
        copy_bytes=copy_bytes,
        postgres_share=spent_ms / 1000 / given.postgres_cores,
    )


def cpu_ms_per_message(figures: Figures, hosting: Hosting, given: Assumptions) -> float:
    """Everything that a message costs a host but the model."""
    return (
        hosting.cpu_ms_per_message
        + (given.runs_per_message - 1) * figures.cpu_ms_per_turn
        + given.recalls_per_message * figures.cpu_ms_per_recall
        + given.facts_per_message * figures.cpu_ms_per_embedding
    )


def bytes_per_home(figures: Figures, given: Assumptions) -> float:
    """An average home after those years."""
    facts = given.facts_per_message * (figures.bytes_per_fact + figures.bytes_per_embedding)
    per_message = given.runs_per_message * figures.ledger_bytes_per_turn + facts
    messages = 365 * given.years * given.active_share * given.messages
    return figures.bytes_per_empty_home + messages * per_message


def _machines(cores: float, memory: float, disk: float, given: Assumptions) -> tuple[int, str]:
    needed = {
        "processor": cores / given.host_cores,
        "memory": memory / (given.host_gib * _GIB * given.used),
        "disk": disk / (given.host_tib * _TIB * given.used),
    }
    most = max(needed, key=lambda name: needed[name])
    return max(1, ceil(needed[most])), most


def hosting() -> Hosting:
    """What RESULTS.md says of one host."""
    text = RESULTS.read_text(encoding="utf-8")
    busy, plane = _section(text, "hosting"), _section(text, "control plane")
    restored = _restored(_section(text, "takeover"))
    highest_mib = _found(r"resident memory, highest[^|]*\| ([\d,]+) MiB", busy)
    idle_mib = _found(r"idle, [^|]*(?:none|no home) open[^|]*\| ([\d,]+) MiB", busy)
    small, large = restored[0], restored[-1]
    return Hosting(
        cpu_ms_per_message=_found(r"processor time of the host, a message \| ([\d,]+) ms", busy),
        bytes_per_process=idle_mib * _MIB,
        bytes_per_open_home=round((highest_mib - idle_mib) / OPEN_HOMES * _MIB),
        restore_fixed_s=small.fetching_s,
        restore_mib_per_s=round((large.mib - small.mib) / (large.fetching_s - small.fetching_s), 1),
        copy_mib_per_s=round((large.mib - small.mib) / (large.copying_s - small.copying_s), 1),
        reconcile_s_per_mib=round(large.reconciling_s / large.mib, 4),
        message_ms=_found(r"\| a message:[^|]*\| ([\d.]+)", plane),
        visit_ms=_found(r"\| a visit:[^|]*\| ([\d.]+)", plane),
        renew_ms=_found(r"\| renewing[^|]*\| ([\d.]+)", plane),
        look_ms=_found(r"\| looking[^|]*\| ([\d.]+)", plane),
    )


def _section(text: str, name: str) -> str:
    return text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]


def _found(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, f"{RESULTS} doesn't have {pattern}"
    return float(found[1].replace(",", ""))


class _Restored(NamedTuple):
    """A home of one size that came back; fetching it is in seconds of processor."""

    mib: float
    copying_s: float
    fetching_s: float
    reconciling_s: float


def _restored(section: str) -> list[_Restored]:
    row = r"\| [\d,]+ \| ([\d,.]+) MiB \| ([\d.]+) s (?:\| [^|]* ){3}\| ([\d.]+) s \| ([\d.]+) s "
    found = [
        _Restored(*(float(cell.replace(",", "")) for cell in cells)) for cells in re.findall(row, section)
    ]
    assert len(found) > 1, f"{RESULTS} has no section on takeover"
    return found


def table(figures: Figures) -> str:
    """The plan for every power of ten."""
    given, measured = Assumptions(), hosting()
    lines = ["| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS)]
    for power in _POWERS:
        row = plan(10**power, figures, measured, given)
        cells = (
            f"10^{power}",
            _number(row.messages_per_s),
            _number(row.open_homes),
            f"{row.processes:,}",
            f"{row.machines:,} ({row.limit})",
            _bytes(row.disk_bytes),
            _bytes(row.copy_bytes),
            _share(row.postgres_share),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def parts(figures: Figures) -> dict[str, str]:
    """What the page holds between its markers."""
    given, measured = Assumptions(), hosting()
    shown = [(MEANING[name], _shown(name, getattr(figures, name))) for name in _USED]
    shown += [(meaning, _shown(name, getattr(measured, name))) for name, meaning in HOSTED.items()]
    assumed = ((ASSUMED[each.name], f"{getattr(given, each.name):g}") for each in fields(given))
    per_message = [
        (
            "processor time of a message, without the model",
            f"{cpu_ms_per_message(figures, measured, given):.0f} ms",
        ),
        ("an average home on the disk", _bytes(bytes_per_home(figures, given))),
    ]
    return {
        "figures": f"{figures.measured}\n\n{_table('measured', shown)}",
        "assumptions": _table("assumed", assumed),
        "derived": _table("that makes", per_message),
        "plan": table(figures),
    }


def page(text: str, figures: Figures) -> str:
    """The page with its tables as they come out."""
    return filled(text, parts(figures))


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The page with something else between some of its markers."""
    for name, content in contents.items():
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


def _share(value: float) -> str:
    return f"{100 * value:,.0f}%" if value >= 0.1 else f"{100 * value:.1g}%"


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
