"""`nexus recall`: search the memory, and see why each result was found."""

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

import click

from nexus.cli.place import json_option, locate_home, note, open_home, parse_time
from nexus.errors import ModelFileError
from nexus.home import Home
from nexus.memory.recall.item import (
    NEIGHBOUR_ARM,
    Budget,
    Link,
    Match,
    Matches,
    Query,
    kinds,
    label,
    list_kinds,
    list_options,
)
from nexus.serialization import decode
from nexus.serving import Service, serving
from nexus.text import join_lines, strip_citations

if TYPE_CHECKING:
    from nexus.config import Config, MemoryConfig
    from nexus.ledgers import Ledgers
    from nexus.memory.embedding import Vectors

_WIDTH: Final = 100
_INDENT: Final = " " * 6


def ask_service(service: Service, token: str, query: Query) -> Matches:
    """Ask the process that serves the home."""
    text, given = list_options(query, {})
    options = {name: value for name, value in given.items() if value is not None}
    options["scope"] = ",".join(list_kinds(options.pop("kinds")))
    if "about" in options:
        options["entity"] = options.pop("about")
    found = service.get(f"/api/recall?{urlencode({'text': text, **options})}", token, note)
    if found is not None:
        return decode(Matches, found)
    import asyncio

    from nexus.client import Client

    async def ask() -> Matches:
        async with Client(service.url, token, service=service, notify=note) as client:
            return await client.recall(query)

    return asyncio.run(ask())


def print_answer(answer: Matches, *, explain: bool) -> None:
    """Print the answer for a person."""
    if answer.is_too_late:
        click.echo("Recall ran out of time before it found anything. Try again.")
    elif not answer.results:
        click.echo("No matches.")
    results = sorted(answer.results, key=lambda result: not result.is_strong)
    weak = sum(result.is_strong for result in results)
    for at, result in enumerate(results):
        if at == weak:
            click.echo("Weak matches:")
        _print_match(at + 1, result, explain=explain)
    if explain:
        _print_search(answer)


def _print_match(place: int, result: Match, *, explain: bool) -> None:
    item = result.item
    who = f"{item.speaker_name}: " if item.speaker else ""
    kind = "" if item.kind == "event" else f"[{item.kind.replace('_', ' ')}] "
    text = join_lines(strip_citations(item.text))
    head = f"{place:>3}.  {item.at[:10]}  "
    shown = textwrap.shorten(f"{kind}{who}{text}", 300, placeholder=" …")
    click.echo(textwrap.fill(shown, _WIDTH, initial_indent=head, subsequent_indent=_INDENT))
    if note := item.note:
        note = textwrap.shorten(f"{note[0].upper()}{note[1:]}", 300, placeholder=" …")
        click.echo(textwrap.fill(note, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT))
    if explain:
        for name, words in _explain_match(result):
            lines = textwrap.wrap(words, _WIDTH - len(_INDENT) - 10)
            for line in lines:
                shown_name = name if line is lines[0] else ""
                click.echo(f"{_INDENT}{click.style(f'{shown_name:<9}', dim=True)} {line}")


def _explain_match(result: Match) -> list[tuple[str, str]]:
    reasons, item = result.reasons, result.item
    found = [
        f"{way} (#{rank})" if rank else way
        for way, rank in reasons.name_ways().items()
        if way != label(NEIGHBOUR_ARM)
    ]
    if reasons.neighbour_of:
        found.append(f"next to {reasons.neighbour_of}")
    matched = [f'"{word}"' for word in reasons.matched_words]
    added = [
        f"{name.replace('_', ' ')} {value:+.2f}"
        for name, value in reasons.factors.items()
        if abs(value) >= 0.005
    ]
    score = f"{result.score:.2f}" + (f", of which {', '.join(added)}" if added else "")
    moved_up = f"replaces {reasons.replaces}" if reasons.replaces else ""
    if reasons.precedes:
        moved_up = f"was before {reasons.precedes}"
    source = [item.id]
    if reasons.source_event_id and reasons.source_event_id != item.id:
        source.append(f"learned from {reasons.source_event_id}")
    if reasons.source_type:
        source.append(f"{reasons.source_type.replace('_', ' ')}, confidence {reasons.confidence:.1f}")
    if result.also:
        source.append(f"said again in {', '.join(result.also)}")
    by = item.replaced_by
    return [
        pair
        for pair in (
            ("found by", ", ".join(found)),
            ("says", ", ".join(matched)),
            ("about", ", ".join(reasons.matched_names)),
            ("score", score),
            ("moved up", moved_up),
            ("age", _describe_age(reasons.age_days)),
            # The same words as on the fact's page.
            (
                "replaced",
                "" if by is None else "as stated" if by.basis == "stated" else ", ".join(by.signals),
            ),
            ("because", "; ".join(_describe_link(link) for link in item.caused_by)),
            ("led to", "; ".join(_describe_link(link) for link in item.leads_to)),
            ("source", "; ".join(source)),
        )
        if pair[1]
    ]


def _describe_link(link: Link) -> str:
    relation = "" if link.relation == "caused" else f" [{link.relation}]"
    return f"{textwrap.shorten(link.text, 160, placeholder=' …')}{relation} ({link.id})"


def _describe_age(days: float) -> str:
    for size, unit in ((365.25, "year"), (30.4, "month"), (7, "week"), (1, "day")):
        if days >= size:
            count = round(days / size)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return "less than a day"


def _print_search(answer: Matches) -> None:
    click.echo()
    for said, names in answer.meant.items():
        click.echo(f"{said} → {', '.join(names)}")
    if answer.window:
        start, end = answer.window
        click.echo(f"Time range: {start.date()} to {end.date()}")
    if answer.late_arms:
        click.echo(f"Missed the deadline: {', '.join(dict.fromkeys(map(label, answer.late_arms)))}")
    click.echo(
        f"{answer.considered} candidates; probability that the best one answers: {answer.answerable:.0%}."
    )
    total = answer.timings_ms.get("total", 0.0)
    spent = ", ".join(f"{name} {ms:.0f}" for name, ms in answer.sum_steps_ms()[:4])
    click.echo(f"{total:.0f} ms; longest steps, some in parallel: {spent}.")


# The program has just started and nothing is warm; a person waits longer than an agent may.
_DEADLINE_MS: Final = 10_000
# The gateway takes no longer question in an address.
_LONGEST_ASKED: Final = 2_000


@click.command()
@click.argument("text")
@click.option("--explain", is_flag=True, help="Explain each result.")
@json_option
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
    home = locate_home(ctx).require()
    query = Query(
        text=text,
        deadline_ms=_DEADLINE_MS,
        kinds=kinds(options["scope"]),
        entity_id=options["entity"],
        budget=cast("Budget", options["budget"]),
        max_results=options["limit"],
        max_tokens=options["max_tokens"],
        channel=options["channel"],
        time_after=parse_time(options["after"]),
        time_before=parse_time(options["before"]),
        rank_threads=True,
    )
    service = serving(home)
    if service is not None and service.url and len(text) <= _LONGEST_ASKED:
        service.check()
        answer = ask_service(service, home.token(), query)
        notes = [] if "embed" in answer.timings_ms else _check_model(open_home(ctx)[1])
    else:
        import asyncio

        answer, notes = asyncio.run(_search_home(*open_home(ctx), query))
    if as_json:
        click.echo(json.dumps({"notes": notes, **asdict(answer)}, indent=2, default=_to_json))
        return
    for each in notes:
        click.echo(each, err=True)
    print_answer(answer, explain=explain)


def _to_json(value: object) -> object:
    return sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else str(value)


def _check_model(settings: "Config") -> list[str]:
    from nexus.memory.embedding import find_installed

    try:
        find_installed(settings.memory)
    except ModelFileError as error:
        return [_describe_words_only(error)]
    return []


def _describe_words_only(error: ModelFileError) -> str:
    return f"Searching by words only: {error.message}. {error.hint}"


async def open_current_vectors(ledgers: "Ledgers", settings: "MemoryConfig") -> "Vectors":
    """Open the vectors of a home that nobody serves, with all that was written and replaced in them.

    ModelFileError where no embedding model is installed.
    """
    from nexus.memory.embedding import embed_new, open_vectors
    from nexus.memory.succession import derive

    vectors = await open_vectors(ledgers, settings)
    await embed_new(ledgers, vectors)
    await derive(ledgers, vectors)
    await vectors.mirror.refresh()
    return vectors


async def _search_home(home: Home, settings: "Config", query: Query) -> tuple[Matches, list[str]]:
    # Imported here, because a home that is served needs none of it.
    import asyncio

    from nexus.ledgers import Ledgers
    from nexus.memory.recall.recall import Recall
    from nexus.memory.recall.reranker import installed_reranker

    notes: list[str] = []
    async with Ledgers(home, settings.ledgers) as ledgers:
        vectors: Vectors | None = None
        try:
            vectors = await open_current_vectors(ledgers, settings.memory)
        except ModelFileError as error:
            notes.append(_describe_words_only(error))
        reranker = await asyncio.to_thread(installed_reranker)
        return await Recall(ledgers, vectors, reranker=reranker).find(query), notes
