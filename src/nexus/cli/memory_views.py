"""The commands of `nexus memory` that only look."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import click

from nexus import clock
from nexus.cli.display import print_table
from nexus.cli.memory_preview import preview_option, print_preview
from nexus.cli.place import json_option, print_unicode_json, user_name, with_ledgers
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import replacement_note, shorten_id
from nexus.memory import grouping
from nexus.memory.operations import Memory
from nexus.memory.upkeep import review
from nexus.memory.views import plain as views
from nexus.memory.views.names import find_family
from nexus.memory.writing import Provenance
from nexus.text import pluralize

T = TypeVar("T")
Row = dict[str, Any]
"""What a view returned: its columns by name."""

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of results."
)


def person() -> Provenance:
    """Return whoever runs the command, as the source of what is written."""
    return Provenance(actor=f"person:{user_name()}", kind="owner", channel="cli")


def with_memory(ctx: click.Context, work: Callable[[Memory], Awaitable[T]]) -> T:
    """Run work on the memory of the chosen home."""

    async def run(ledgers: Ledgers) -> T:
        return await work(Memory(ledgers))

    return with_ledgers(ctx, run)


def print_found(
    found: list[Row],
    print_rows: Callable[[list[Row]], None],
    *,
    as_json: bool,
    otherwise: str = "No results.",
) -> None:
    """Print what a query found: as JSON, as rows, or that it is nothing."""
    if as_json:
        print_unicode_json(found)
    elif found:
        print_rows(found)
    else:
        click.echo(otherwise)


@click.command()
@click.argument("text", required=False)
@click.option("--type", "type_", help="Filter by type, such as Person.")
@limit_option
@json_option
@click.pass_context
def entities(ctx: click.Context, text: str | None, type_: str | None, limit: int, as_json: bool) -> None:
    """List entities by last change, or search names for TEXT."""
    found = with_ledgers(ctx, views.entities, matching=text, type_=type_, limit=limit)
    print_found(found, _print_entities, as_json=as_json)


def _print_entities(found: list[Row]) -> None:
    lines = [
        (each["name"], each["type"], each["facts"], len(each["merged"]) or "", each["summary"], each["id"])
        for each in found
    ]
    print_table(("name", "type", "facts#", "merged#", "summary", "id"), lines)


@click.command()
@click.argument("text", required=False)
@limit_option
@json_option
@click.pass_context
def people(ctx: click.Context, text: str | None, limit: int, as_json: bool) -> None:
    """List the people Nexus knows, or search names for TEXT."""
    found = with_ledgers(ctx, views.entities, matching=text, type_="Person", limit=limit)
    print_found(found, _print_people, as_json=as_json)


def _print_people(found: list[Row]) -> None:
    lines = [(each["name"], each["facts"], each["updated_at"][:10], each["summary"]) for each in found]
    print_table(("name", "facts#", "changed", "summary"), lines)


@click.command(short_help="List facts that no longer hold, and what holds now.")
@limit_option
@json_option
@click.pass_context
def changes(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List what changed, latest last: what no longer holds, and what holds now."""
    found = with_ledgers(ctx, views.changes, limit=limit)
    print_found(found, _print_changes, as_json=as_json, otherwise="Nothing changed yet.")


def _print_changes(found: list[Row]) -> None:
    lines: list[tuple[str, ...]] = []
    for fact in sorted(found, key=lambda each: each["replaced_by"]["at"]):
        successor = fact["replaced_by"]
        how = "" if successor["how"] == "changed" else f" ({successor['how']})"
        change = f"{fact['fact']} → {successor['fact']}{how}"
        lines.append((shorten_id(fact["id"]), successor["at"][:10], change))
    print_table(("id", "when", "change"), lines)


@click.command()
@click.argument("entity")
@limit_option
@json_option
@click.pass_context
def show(ctx: click.Context, entity: str, limit: int, as_json: bool) -> None:
    """Show everything known about ENTITY: an id, name or alias."""
    found = with_ledgers(ctx, views.show, entity, limit=limit)
    if as_json:
        print_unicode_json(found)
        return
    click.echo(f"{click.style(found['name'], bold=True)}  {found['type']}")
    if found["summary"]:
        click.echo(found["summary"])
    _print_identity(found)
    if found["facts"]:
        click.echo("\nFacts")
        print_log(found["facts"])
    if found["episodes"]:
        click.echo("\nEpisodes")
        _print_episodes(found["episodes"], details=False)
    if found["together_with"]:
        click.echo("\nConnections")
        lines = [(each["name"], each["facts"], each["episodes"]) for each in found["together_with"]]
        print_table(("name", "facts#", "episodes#"), lines)


@click.command()
@click.argument("entity")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Maximum number of entries, newest kept.",
)
@json_option
@click.pass_context
def timeline(ctx: click.Context, entity: str, limit: int, as_json: bool) -> None:
    """Print ENTITY's observation log in order, with sources."""
    found = with_ledgers(ctx, views.timeline, entity, limit=limit)
    print_found(found, partial(print_log, details=True), as_json=as_json, otherwise="No observations.")


@click.command()
@click.argument("text", required=False)
@click.option("--type", "type_", help="Filter by relation type, such as WORKS_AT.")
@click.option("--details", is_flag=True, help="Also show type, confidence and how it is known.")
@limit_option
@json_option
@click.pass_context
def facts(
    ctx: click.Context, text: str | None, type_: str | None, details: bool, limit: int, as_json: bool
) -> None:
    """List the latest facts, or those with all words of TEXT.

    `nexus memory correct`, `pin`, `keep-both` and `nexus forget fact` take the ids in the first column.
    """
    found = with_ledgers(ctx, views.facts, matching=text, type_=type_, limit=limit)
    print_found(found, partial(print_log, details=details), as_json=as_json)


@click.command()
@click.argument("entity", required=False)
@click.option("--make", is_flag=True, help="Create episodes from finished conversations first.")
@limit_option
@json_option
@click.pass_context
def episodes(ctx: click.Context, entity: str | None, make: bool, limit: int, as_json: bool) -> None:
    """List the latest episodes, or those that mention ENTITY."""

    async def work(ledgers: Ledgers) -> list[Row]:
        if make:
            made = await grouping.group_events(ledgers)
            click.echo(
                f"Made {pluralize(len(made.episode_ids), 'episode')} of {pluralize(made.events, 'event')}.",
                err=True,
            )
        return await views.episodes(ledgers, entity=entity, limit=limit)

    found = with_ledgers(ctx, work)
    print_found(found, _print_episodes, as_json=as_json)


@click.command()
@json_option
@click.pass_context
def stats(ctx: click.Context, as_json: bool) -> None:
    """Count memory items by kind."""
    found = with_ledgers(ctx, views.statistics)
    if as_json:
        print_unicode_json(found)
        return
    if not found:
        click.echo("The memory is empty.")
    for what, kinds in found.items():
        listed = ", ".join(f"{count:,} {kind}" for kind, count in list(kinds.items())[:12])
        click.echo(f"{what.replace('_', ' '):<17}{sum(kinds.values()):>10,}  {listed}")


def _print_identity(found: Row) -> None:
    for alias in found["aliases"]:
        of = f"  of {alias['entity_id']}" if alias["entity_id"] != found["id"] else ""
        click.echo(f"  {alias['type']:<8} {alias['alias']}{of}")
    for contact in found["contacts"]:
        click.echo(f"  reached at {contact['identifier']} on {contact['channel']}")
    for fact in found["person_facts"]:
        click.echo(f"  {fact['fact_type']}: {fact['value']}")
    for event in found["merge_events"]:
        why = f": {event['reason']}" if event["reason"] else ""
        done = "merged into" if event["action"] == "merge" else "unmerged from"
        click.echo(
            f"  {event['created_at'][:10]} {event['source_entity_id']} {done} {event['target_entity_id']} "
            f"by {event['actor']}{why}"
        )
    for pair in found["candidates"]:
        other = "b" if pair["entity_a_id"] in {found["id"], *found["merged"]} else "a"
        click.echo(f"  may be {pair[f'name_{other}']} ({pair['score']:.2f}): {shorten_id(pair['id'])}")


def print_log(found: list[Row], *, details: bool = False) -> None:
    """Print facts in a table, with the short ids that other commands take."""
    lines: list[tuple[object, ...]] = []
    for fact in found:
        how = (fact["relation_type"], f"{fact['confidence']:.2f}", fact["source_type"]) if details else ()
        lines.append(
            (shorten_id(fact["id"]), fact["at"][:10], _describe_fact(fact), *how, _describe_origin(fact))
        )
    print_table(("id", "when", "fact", *(("type", "sure#", "how") if details else ()), "from"), lines)


def _describe_fact(fact: Row) -> str:
    successor, marks = fact["replaced_by"], " [pinned]" if fact["pinned"] else ""
    if fact["review"] == "reject":
        marks += " [rejected]"
    if successor is None:
        return f"{fact['fact']}{marks}"
    return f"{fact['fact']}{marks} [{replacement_note(successor['how'], successor['at'], successor['fact'])}]"


def _describe_origin(fact: Row) -> str:
    said = fact["said"]
    if said:
        name = said["sender_name"] or said["sender"]
        who = f"{name}, " if name else ""
        return f"{who}{said['channel']} {clock.minute(said['at'])}"
    return fact["source_event_id"] or fact["source_episode_id"] or fact["source_request_id"] or "not recorded"


def _print_episodes(found: list[Row], *, details: bool = True) -> None:
    lines: list[tuple[object, ...]] = []
    for each in found:
        times = clock.minute(each["start_time"]), clock.minute(each["end_time"]), each["channel"]
        line = (*times, each["event_count"], each["title"])
        lines.append((each["id"], *line, each["version"]) if details else line)
    names = ("from", "until", "channel", "messages#", "about")
    print_table(("id", *names, "version#") if details else names, lines)


_reason = click.option("--reason", help="Reason, kept in the audit log.")


@click.command()
@click.argument("entity", required=False)
@click.option(
    "--status",
    type=click.Choice(["pending", "accepted", "rejected", "all"]),
    default="pending",
    show_default=True,
)
@click.option("--find", "look", is_flag=True, help="Compare all entities again first.")
@limit_option
@json_option
@click.pass_context
def candidates(
    ctx: click.Context, entity: str | None, status: str, look: bool, limit: int, as_json: bool
) -> None:
    """List possible duplicates with reasons, likeliest first."""

    async def work(ledgers: Ledgers) -> list[Row]:
        if look:
            click.echo(f"{pluralize(await review(ledgers), 'pair')} to review.", err=True)
        same = await find_family(ledgers, entity) if entity else None
        wanted = None if status == "all" else status
        return await views.candidates(ledgers, status=wanted, entities=same, limit=limit)

    found = with_ledgers(ctx, work)
    print_found(found, _print_candidates, as_json=as_json)


def _print_candidates(found: list[Row]) -> None:
    lines: list[tuple[object, ...]] = []
    for pair in found:
        why = "; ".join(f"{reason['signal']} ({reason['detail']})" for reason in pair["reasons"])
        one, other = pair["name_a"], pair["name_b"]
        if one == other:  # only their ids tell them apart
            one, other = (f"{one} {pair[f'entity_{each}_id']}" for each in "ab")
        lines.append((shorten_id(pair["id"]), f"{pair['score']:.2f}", one, other, why, pair["status"]))
    print_table(("id", "score#", "one", "other", "why", "status"), lines)
    click.echo("Merge with `nexus memory merge ONE OTHER`, or keep apart with `nexus memory reject ID`.")


@click.command()
@click.argument("source")
@click.argument("target")
@_reason
@preview_option
@json_option
@click.pass_context
def merge(
    ctx: click.Context, source: str, target: str, reason: str | None, preview: bool, as_json: bool
) -> None:
    """Merge SOURCE into TARGET. No data moves, so it can be undone."""
    if preview:
        from nexus.evaluation import preview as previews

        arguments = {"source": source, "target": target, "reason": reason}
        print_preview(ctx, previews.operate("merge", arguments, person()), as_json=as_json)
        return
    answer = _write(ctx, "merge", source=source, target=target, reason=reason)
    if as_json:
        print_unicode_json(answer)
        return
    click.echo(f"{answer['merged']} is now part of {answer['root']}.")
    click.echo(f"Undo with `nexus memory unmerge {answer['merged']}`.")


@click.command()
@click.argument("entity")
@_reason
@json_option
@click.pass_context
def unmerge(ctx: click.Context, entity: str, reason: str | None, as_json: bool) -> None:
    """Undo a merge: ENTITY is separate again."""
    answer = _write(ctx, "unmerge", entity=entity, reason=reason)
    if as_json:
        print_unicode_json(answer)
    else:
        click.echo(f"{answer['entity_id']} is separate from {answer['was_merged_into']}.")


@click.command()
@click.argument("candidate")
@json_option
@click.pass_context
def reject(ctx: click.Context, candidate: str, as_json: bool) -> None:
    """Record that the two entities of CANDIDATE are different."""
    answer = _write(ctx, "reject", candidate=candidate)
    if as_json:
        print_unicode_json(answer)
    else:
        click.echo(f"Rejected {candidate}.")


def _write(ctx: click.Context, operation: str, **arguments: Any) -> dict[str, Any]:
    return with_memory(ctx, lambda memory: memory.run(operation, arguments, person()))
