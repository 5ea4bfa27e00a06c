"""What `nexus recall` prints: the results, and with --explain why each of them is there."""

import textwrap
from typing import Final

import click

from nexus.memory.recall import Answer, Link, Result

_WIDTH: Final = 100
_INDENT: Final = " " * 6
# How each arm found something, in words.
_ARMS: Final = {
    "keyword": "shared words",
    "semantic": "meaning",
    "gist": "gist",
    "temporal": "time",
    "graph": "ties",
    "causal": "cause",
    "succession": "replacement",
}


def show(answer: Answer, *, explain: bool) -> None:
    """Print the answer for a person."""
    if not answer.results:
        click.echo("No matches.")
    weak = next((at for at, result in enumerate(answer.results) if not result.is_strong), None)
    for at, result in enumerate(answer.results):
        if at == weak:
            click.echo("Weak matches:")
        _show_result(at + 1, result, explain=explain)
    if explain:
        _show_course(answer)


def _show_result(place: int, result: Result, *, explain: bool) -> None:
    item = result.item
    who = f"{item.speaker}: " if item.speaker else ""
    kind = "" if item.kind == "event" else f"[{item.kind.replace('_', ' ')}] "
    text = " ".join(item.text.split())
    head = f"{place:>3}.  {item.at[:10]}  "
    shown = textwrap.shorten(f"{kind}{who}{text}", 300, placeholder=" …")
    click.echo(textwrap.fill(shown, _WIDTH, initial_indent=head, subsequent_indent=_INDENT))
    if item.replaced_by:
        by = item.replaced_by
        note = textwrap.shorten(
            f'Replaced by "{" ".join(by.text.split())}" on {by.at[:10]}.', 300, placeholder=" …"
        )
        click.echo(textwrap.fill(note, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))
    if explain:
        for label, words in _why(result):
            lines = textwrap.wrap(words, _WIDTH - len(_INDENT) - 10)
            for line in lines:
                shown_label = label if line is lines[0] else ""
                click.echo(f"{_INDENT}{click.style(f'{shown_label:<9}', dim=True)} {line}")


def _why(result: Result) -> list[tuple[str, str]]:
    reasons, item = result.reasons, result.item
    found = [f"{_ARMS.get(arm, arm)} (#{rank})" for arm, (rank, _) in reasons.arms.items() if rank]
    if reasons.neighbour_of:
        found.append(f"it stands beside {reasons.neighbour_of}")
    matched = [f'"{word}"' for word in reasons.matched_words]
    added = [f"{name} {value:+.2f}" for name, value in reasons.factors.items() if abs(value) >= 0.005]
    source = [item.id]
    if reasons.source_event_id and reasons.source_event_id != item.id:
        source.append(f"learned from {reasons.source_event_id}")
    if reasons.source_type:
        source.append(f"{reasons.source_type.replace('_', ' ')}, confidence {reasons.confidence:.1f}")
    if result.also:
        source.append(f"said again in {', '.join(result.also)}")
    return [
        pair
        for pair in (
            ("found by", ", ".join(found)),
            ("says", ", ".join(matched)),
            ("about", ", ".join(reasons.matched_names)),
            ("score", ", ".join([f"{result.score:.2f}", *added])),
            (
                "age",
                _age(reasons.age_days)
                + (f", stale since {item.stale_since[:10]}" if item.stale_since else ""),
            ),
            ("because", "; ".join(_link(link) for link in item.caused_by)),
            ("led to", "; ".join(_link(link) for link in item.leads_to)),
            ("source", "; ".join(source)),
        )
        if pair[1]
    ]


def _link(link: Link) -> str:
    relation = "" if link.relation == "caused" else f" [{link.relation}]"
    return f"{textwrap.shorten(link.text, 160, placeholder=' …')}{relation} ({link.id})"


def _age(days: float) -> str:
    for size, unit in ((365.25, "year"), (30.4, "month"), (7, "week"), (1, "day")):
        if days >= size:
            count = round(days / size)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return "less than a day"


def _show_course(answer: Answer) -> None:
    click.echo()
    for said, names in answer.meant.items():
        click.echo(f"{said} → {', '.join(names)}")
    if answer.window:
        start, end = answer.window
        click.echo(f"Time meant: {start.date()} to {end.date()}")
    if answer.late_arms:
        click.echo(f"Too late for the deadline, and left out: {', '.join(answer.late_arms)}")
    click.echo(
        f"{answer.considered} candidates; the best answers with a probability of {answer.answerable:.0%}."
    )
    total = answer.timings_ms.get("total", 0.0)
    slowest = sorted(((ms, name) for name, ms in answer.timings_ms.items() if name != "total"), reverse=True)[
        :4
    ]
    spent = ", ".join(f"{name} {ms:.0f}" for ms, name in slowest)
    click.echo(f"{total:.0f} ms, of which the longest, some of them side by side: {spent}.")
