"""The promises, as functions of the evidence. Each returns what breaks it; nothing means it was kept."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

from contract.harness import Harness

Line = dict[str, Any]


def overlaps(harness: Harness) -> list[str]:
    """Two executions of one key never run at the same time."""
    broken: list[str] = []
    by_key: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for begin, end, line in _intervals(harness):
        by_key[line["key"]].append((begin, end, line["id"]))
    for key, intervals in by_key.items():
        intervals.sort()
        for (_, end, one), (begin, _, other) in pairwise(intervals):
            if begin < end:
                broken.append(f"{key}: {one} and {other} by {(end - begin) / 1e6:.1f} ms")
    return broken


def reorderings(harness: Harness) -> list[str]:
    """What one producer started for one key begins in that order."""
    broken: list[str] = []
    begun: set[str] = set()
    last: dict[tuple[str, int], int] = {}
    for line in harness.lines():
        if line["what"] != "begin" or line["id"] in begun:
            continue
        begun.add(line["id"])
        place = (line["key"], line["producer"])
        if line["seq"] < last.get(place, -1):
            broken.append(f"{place}: {line['seq']} after {last[place]}")
        last[place] = line["seq"]
    return broken


def lost(harness: Harness) -> list[str]:
    """Every acknowledged execution is done."""
    acknowledged = [line["id"] for line in harness.lines() if line["what"] == "acknowledged"]
    assert acknowledged, "nothing was started, so nothing was tested"
    database = harness.open()
    try:
        states = _states(database)
    finally:
        database.close()
    return [f"{id_}: {states.get(id_)}" for id_ in acknowledged if states.get(id_) != "SUCCESS"]


def repeats(harness: Harness) -> list[str]:
    """Without crashes, every execution begins once and ends once."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for line in harness.lines():
        if line["what"] in {"begin", "end"}:
            counts[line["id"], line["what"]] += 1
    return [f"{id_}: {what} {count} times" for (id_, what), count in counts.items() if count != 1]


def repeated_steps(harness: Harness) -> list[str]:
    """A step that was recorded never runs again."""
    broken: list[str] = []
    recorded: set[tuple[str, str]] = set()
    for line in harness.lines():
        step = (line.get("id", ""), line.get("step", ""))
        if line["what"] == "recorded":
            recorded.add(step)
        elif line["what"] == "ran" and step in recorded:
            broken.append(f"{step} ran again in {line['pid']}")
    return broken


def misplaced_results(harness: Harness) -> list[str]:
    """Steps that were started side by side each give their own result, after a crash too."""
    return [
        f"{line['id']}: {line['results']}"
        for line in harness.lines()
        if line["what"] == "end" and line["results"] != sorted(line["results"])
    ]


def late_writes(harness: Harness) -> list[str]:
    """After its work was taken over, a thawed process records nothing and finishes nothing of it."""
    broken: list[str] = []
    lines = harness.lines()
    for pid, freezes in harness.frozen.items():
        for frozen, thawed in freezes:
            taken = {
                line["id"]
                for line in lines
                if line["what"] == "begin" and line["pid"] != pid and frozen < line["ns"] < thawed
            }
            lost = taken & _begun(lines, pid, frozen)
            for line in lines:
                if line["pid"] != pid or line["ns"] < thawed or line.get("id") not in lost:
                    continue
                if line["what"] == "begin":
                    lost.remove(line["id"])  # it was given the work anew
                elif line["what"] == "end" or (line["what"] == "recorded" and _ran_elsewhere(lines, line)):
                    broken.append(f"{line['id']}: {line['what']} {line.get('step', '')} after the thaw")
    return broken


def _ran_elsewhere(lines: list[Line], recorded: Line) -> bool:
    """Whether another process ran the step too; if not, its record stood when the work was taken over."""
    return any(
        line["what"] == "ran" and line["pid"] != recorded["pid"]
        for line in lines
        if line.get("id") == recorded["id"] and line.get("step") == recorded["step"]
    )


def _begun(lines: list[Line], pid: int, before: int) -> set[str]:
    """What a process had begun and not ended at a moment."""
    begun: set[str] = set()
    for line in lines:
        if line["pid"] == pid and line["ns"] < before:
            if line["what"] == "begin":
                begun.add(line["id"])
            elif line["what"] == "stopped":
                begun.discard(line["id"])
    return begun


def takeover_delays_ms(harness: Harness) -> list[float]:
    """For each execution that a killed process was running: from its death to its next begin."""
    delays: list[float] = []
    open_at_death: dict[str, int] = {}
    for line in harness.lines():
        pid = line["pid"]
        if line["what"] == "begin":
            if line["id"] in open_at_death:
                death = open_at_death.pop(line["id"])
                delays.append((line["ns"] - death) / 1e6)
            if pid in harness.killed:
                open_at_death[line["id"]] = harness.killed[pid]
        elif line["what"] == "stopped":
            open_at_death.pop(line["id"], None)
    return delays


def _intervals(harness: Harness) -> list[tuple[int, int, Line]]:
    """When each body ran: from its begin to its stop, its process's death, or its freeze."""
    begun: dict[tuple[int, str], Line] = {}
    found: list[tuple[int, int, Line]] = []
    for line in harness.lines():
        place = (line["pid"], line.get("id", ""))
        if line["what"] == "begin":
            begun[place] = line
        elif line["what"] == "stopped" and place in begun:
            begin = begun.pop(place)
            freezes = harness.frozen.get(line["pid"], [])
            within = [frozen for frozen, _ in freezes if begin["ns"] < frozen < line["ns"]]
            found.append((begin["ns"], min(within, default=line["ns"]), begin))
    for (pid, _), begin in begun.items():
        if pid in harness.killed:
            found.append((begin["ns"], harness.killed[pid], begin))
    return found


def _states(database: Any) -> dict[str, str]:
    statement = database.sql("SELECT workflow_uuid, status FROM {t}workflow_status")
    with database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(statement)}
