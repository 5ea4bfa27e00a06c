"""The results of a run: totals over its lives, and a table to read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from nexus.evaluation.life import Row
from nexus.runs import Totals

COLUMNS = (
    "life",
    "sessions#",
    "stored#",
    "must not#",
    "unsaid#",
    "speaker#",
    "current wins#",
    "answers#",
    "declined#",
    "writer tokens/message#",
    "tokens#",
    "cost#",
)
LEGEND = """\
stored: what must be remembered, and is. must not: what must not be remembered, and is. unsaid: memories that
no message supports. speaker: stored facts with the right source. current wins: changed facts of which the
newer one is stored and the older one, if stored, is marked as replaced. answers: right answers. declined:
questions that nothing answers, to which the agent says so. tokens: everything, answers and judge included."""


def results(run: Row, lives: Sequence[Row]) -> Row:
    """Return everything about a run: what was evaluated, each life, and the totals."""
    return {**run, "lives": {life["life"]: life for life in lives}, "total": total(lives)}


def total(lives: Sequence[Row]) -> Row:
    """Return the sum of every count; shares follow from those."""
    added: Row = {"life": "total", "language": ""}
    for life in lives:
        _add(added, {key: value for key, value in life.items() if key not in {"life", "language", "refused"}})
    return added


def _add(into: Row, row: Mapping[str, Any]) -> None:
    for key, value in row.items():
        if isinstance(value, dict):
            _add(into.setdefault(key, {}), cast("Row", value))
        elif isinstance(value, int | float):
            into[key] = into.get(key, 0) + value


def table(found: Row) -> Iterator[tuple[str, ...]]:
    """Yield one line for each life, and one for the total where there are several."""
    lives: Sequence[Row] = list(found["lives"].values())
    for life in [*lives, found["total"]] if len(lives) > 1 else lives:
        yield _line(life)


def _line(life: Row) -> tuple[str, ...]:
    extraction, answers = life["extraction"], life["answers"]
    spent = {role: Totals(**counts) for role, counts in life["spent"].items()}
    everything = sum(spent.values(), Totals())
    writer = spent.get("writer", Totals())
    return (
        str(life["life"]),
        f"{life['sessions']:,}",
        _of(extraction["must"], "stored"),
        _of(extraction["must_not"], "stored"),
        f"{extraction['unsaid']} of {extraction['memories']}",
        _of(life["attribution"], "right"),
        _of(life["supersession"], "right"),
        _of(answers["all"], "right"),
        _of(answers["unanswerable"], "right"),
        f"{writer.tokens / max(1, life['turns']):,.0f}",
        f"{everything.tokens:,}",
        everything.cost,
    )


def _of(counts: Row, what: str) -> str:
    """`12 of 65`; with the judge's count behind it where there is one."""
    if not counts["n"]:
        return "–"  # noqa: RUF001 - a dash, as tables have it
    judged = f" (judge: {counts['judged']})" if "judged" in counts else ""
    return f"{counts[what]} of {counts['n']}{judged}"


def markdown(found: Row) -> str:
    """Return the run as a Markdown table."""
    names = [name.removesuffix("#") for name in COLUMNS]
    judge = f", judged by {found['judge']}" if found["judge"] else ""
    lines = [
        f"{found['model']}{judge}, {found['date']}, Nexus {found['version']}\n",
        f"| {' | '.join(names)} |",
        f"|{'|'.join('---' for _ in names)}|",
        *(f"| {' | '.join(line)} |" for line in table(found)),
        "",
        LEGEND,
    ]
    return "\n".join(lines) + "\n"
