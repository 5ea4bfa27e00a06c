"""`nexus recall`: ask the memory, and see why it answers as it does."""

import asyncio
import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

import click

from nexus import config
from nexus.cli.place import moment, opened_home
from nexus.cli.recall_served import asked
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.memory.recall.item import Answer, Budget, Link, Query, Result, kinds
from nexus.serving import serving

if TYPE_CHECKING:
    from nexus.memory.embedding import Vectors

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
        found.append(f"next to {reasons.neighbour_of}")
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
        click.echo(f"Time range: {start.date()} to {end.date()}")
    if answer.late_arms:
        click.echo(f"Missed the deadline: {', '.join(answer.late_arms)}")
    click.echo(
        f"{answer.considered} candidates; probability that the best one answers: {answer.answerable:.0%}."
    )
    total = answer.timings_ms.get("total", 0.0)
    slowest = sorted(((ms, name) for name, ms in answer.timings_ms.items() if name != "total"), reverse=True)[
        :4
    ]
    spent = ", ".join(f"{name} {ms:.0f}" for ms, name in slowest)
    click.echo(f"{total:.0f} ms; longest steps, some in parallel: {spent}.")


# The program has just started and nothing is warm; a person waits longer than an agent may.
_DEADLINE_MS: Final = 10_000
# The gateway takes no longer question in an address.
_LONGEST_ASKED: Final = 2_000


@click.command()
@click.argument("text")
@click.option("--explain", is_flag=True, help="Explain each result.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--budget", type=click.Choice(["low", "mid", "high"]), default="mid", show_default=True)
@click.option(
    "--limit", type=click.IntRange(1, 200), default=10, show_default=True, help="Maximum number of results."
)
@click.option("--max-tokens", type=click.IntRange(1), default=4000, show_default=True)
@click.option(
    "--scope",
    metavar="KINDS",
    help="Comma-separated kinds: events, facts, observations, mental_models, episodes, entities.",
)
@click.option("--entity", help="Only about this entity: id, name, `me` or `my boss`.")
@click.option("--channel", help="Filter by channel.")
@click.option("--after", metavar="TIME", help="Only since this time, such as 2026-05-01.")
@click.option("--before", metavar="TIME", help="Only before this time.")
@click.pass_context
def recall(ctx: click.Context, text: str, explain: bool, as_json: bool, **options: Any) -> None:
    """Search the memory for TEXT, best matches first.

    Searches events, facts, observations, mental models, episodes and entities, without a language model.
    Results that may not answer the question are listed under "Weak matches".

    Asks `nexus up` if it is running.
    """
    home, settings = opened_home(ctx)
    query = Query(
        text=text,
        deadline_ms=_DEADLINE_MS,
        kinds=kinds(options["scope"]),
        entity_id=options["entity"],
        budget=cast("Budget", options["budget"]),
        max_results=options["limit"],
        max_tokens=options["max_tokens"],
        channel=options["channel"],
        time_after=moment(options["after"]),
        time_before=moment(options["before"]),
    )
    service = serving(home)
    if service is not None and service.url and len(text) <= _LONGEST_ASKED:
        answer = asyncio.run(asked(service.url, home.token(), query, options["scope"]))
        notes = [] if "embed" in answer.timings_ms else _missing_model(settings)
    else:
        answer, notes = asyncio.run(_ask(home, settings, query))
    if as_json:
        click.echo(json.dumps({"notes": notes, **asdict(answer)}, indent=2, default=_plain))
        return
    for note in notes:
        click.echo(note, err=True)
    show(answer, explain=explain)


def _plain(value: object) -> object:
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)


def _missing_model(settings: config.Config) -> list[str]:
    from nexus.memory.embedding import installed

    try:
        installed(settings.memory)
    except ModelFileError as error:
        return [_by_words(error)]
    return []


def _by_words(error: ModelFileError) -> str:
    return f"Searching by words only: {error.message}. {error.hint}"


async def _ask(home: Home, settings: config.Config, query: Query) -> tuple[Answer, list[str]]:
    # Imported here, because a home that is served needs none of it.
    from nexus.ledgers import Ledgers
    from nexus.memory.embedding import embed_new, opened
    from nexus.memory.recall import Recall
    from nexus.memory.recall.reranker import installed_reranker
    from nexus.memory.succession import derive

    notes: list[str] = []
    async with Ledgers(home, settings.ledgers) as ledgers:
        vectors: Vectors | None = None
        try:
            vectors = await opened(ledgers, settings.memory)
            await embed_new(ledgers, vectors)
            await derive(ledgers, vectors)
            await vectors.mirror.refresh()
        except ModelFileError as error:
            notes.append(_by_words(error))
        reranker = await asyncio.to_thread(installed_reranker)
        return await Recall(ledgers, vectors, reranker=reranker).find(query), notes
