"""The commands of `nexus memory` that only look."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import apsw
import click

from nexus import clock
from nexus.cli.display import print_table
from nexus.cli.memory_preview import preview_option, print_preview
from nexus.cli.place import json_option, print_unicode_json, user_name, with_ledgers
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import replacement_note, shorten_id
from nexus.memory import grouping, merging
from nexus.memory.operations import Memory
from nexus.memory.upkeep import review
from nexus.memory.views import entities as entity_views
from nexus.memory.views import episodes as episode_views
from nexus.memory.views import facts as fact_views
from nexus.memory.views.entities import Candidate, Entity, EntityLine, Neighbour
from nexus.memory.views.episodes import Episode
from nexus.memory.views.facts import Fact
from nexus.memory.views.names import find_family
from nexus.memory.writing import Provenance
from nexus.text import pluralize

T = TypeVar("T")

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
    found: Sequence[T],
    print_rows: Callable[[Sequence[T]], None],
    describe: Callable[[T], object] = lambda each: each,
    *,
    as_json: bool,
    otherwise: str = "No results.",
) -> None:
    """Print what a query found: as JSON, as rows, or that it is nothing."""
    if as_json:
        print_unicode_json([describe(each) for each in found])
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
    found, describe = with_ledgers(ctx, _load_entities, text, type_, limit)
    print_found(found, _print_entities, describe, as_json=as_json)


async def _load_entities(
    ledgers: Ledgers, text: str | None, type_: str | None, limit: int
) -> tuple[tuple[EntityLine, ...], Callable[[EntityLine], dict[str, Any]]]:
    """Load entities, and what describes one with the ids of all that was merged into it."""
    found = (await entity_views.load_page(ledgers, matching=text, type_=type_, limit=limit)).items

    def load_families(connection: apsw.Connection) -> dict[str, list[str]]:
        return {each.id: merging.family(connection, each.id)[1:] for each in found}

    merged = await ledgers.identity.read(load_families)
    return found, lambda each: asdict(each) | {"merged": merged[each.id]}


def _print_entities(found: Sequence[EntityLine]) -> None:
    lines = [(each.name, each.type, each.facts, each.merged or "", each.summary, each.id) for each in found]
    print_table(("name", "type", "facts#", "merged#", "summary", "id"), lines)


@click.command()
@click.argument("text", required=False)
@limit_option
@json_option
@click.pass_context
def people(ctx: click.Context, text: str | None, limit: int, as_json: bool) -> None:
    """List the people Nexus knows, or search names for TEXT."""
    found, describe = with_ledgers(ctx, _load_entities, text, "Person", limit)
    print_found(found, _print_people, describe, as_json=as_json)


def _print_people(found: Sequence[EntityLine]) -> None:
    lines = [(each.name, each.facts, each.updated_at[:10], each.summary) for each in found]
    print_table(("name", "facts#", "changed", "summary"), lines)


@click.command(short_help="List facts that no longer hold, and what holds now.")
@limit_option
@json_option
@click.pass_context
def changes(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List what changed, latest last: what no longer holds, and what holds now."""
    found = with_ledgers(ctx, fact_views.load_changes, limit=limit)
    print_found(found, _print_changes, describe_fact, as_json=as_json, otherwise="Nothing changed yet.")


def _print_changes(found: Sequence[Fact]) -> None:
    changed = [(each, each.replaced_by) for each in found if each.replaced_by]
    lines: list[tuple[str, ...]] = []
    for fact, successor in sorted(changed, key=lambda each: each[1].at):
        how = "" if successor.how == "changed" else f" ({successor.how})"
        change = f"{fact.fact} → {successor.fact}{how}"
        lines.append((shorten_id(fact.id), successor.at[:10], change))
    print_table(("id", "when", "change"), lines)


@click.command()
@click.argument("entity")
@limit_option
@json_option
@click.pass_context
def show(ctx: click.Context, entity: str, limit: int, as_json: bool) -> None:
    """Show everything known about ENTITY: an id, name or alias."""

    async def load(
        ledgers: Ledgers,
    ) -> tuple[Entity, Any, list[Fact], list[Episode], tuple[Neighbour, ...], tuple[Candidate, ...]]:
        found = await entity_views.get(ledgers, entity)
        return (
            found,
            await ledgers.identity.read(sql.row, sql.queries("identity")["entity"], (found.id,)),
            await fact_views.load_log(ledgers, entity, limit=limit),
            await episode_views.load_newest(ledgers, entity=entity, limit=limit),
            await entity_views.load_company(ledgers, found.same, limit=limit),
            await entity_views.load_candidates(ledgers, entity_ids=found.same, limit=limit),
        )

    found, row, log, listed, company, pairs = with_ledgers(ctx, load)
    if as_json:
        whole = asdict(found)
        taken = ("id", "type", "name", "summary", "source_event_id", "created_at", "updated_at")
        lists = ("aliases", "contacts", "person_facts", "merge_events")
        print_unicode_json(
            {name: whole[name] for name in taken}
            | {"merged_into": None, "metadata": json.loads(row[6]), "merged": list(found.same[1:])}
            | {name: whole[name] for name in lists}
            | {
                "facts": [describe_fact(each) for each in log],
                "episodes": [_describe_episode(each) for each in listed],
                "together_with": [asdict(each) for each in company],
                "candidates": [asdict(each) for each in pairs],
            }
        )
        return
    click.echo(f"{click.style(found.name, bold=True)}  {found.type}")
    if found.summary:
        click.echo(found.summary)
    _print_identity(found, pairs)
    if log:
        click.echo("\nFacts")
        print_log(log)
    if listed:
        click.echo("\nEpisodes")
        _print_episodes(listed, details=False)
    if company:
        click.echo("\nConnections")
        lines = [(each.name, each.facts, each.episodes) for each in company]
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
    found = with_ledgers(ctx, fact_views.load_log, entity, limit=limit)
    print_log_found = partial(print_log, details=True)
    print_found(found, print_log_found, describe_fact, as_json=as_json, otherwise="No observations.")


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
    found = with_ledgers(ctx, fact_views.load_newest, matching=text, type_=type_, limit=limit)
    print_found(found, partial(print_log, details=details), describe_fact, as_json=as_json)


@click.command()
@click.argument("entity", required=False)
@click.option("--make", is_flag=True, help="Create episodes from finished conversations first.")
@limit_option
@json_option
@click.pass_context
def episodes(ctx: click.Context, entity: str | None, make: bool, limit: int, as_json: bool) -> None:
    """List the latest episodes, or those that mention ENTITY."""

    async def work(ledgers: Ledgers) -> list[Episode]:
        if make:
            made = await grouping.group_events(ledgers)
            click.echo(
                f"Made {pluralize(len(made.episode_ids), 'episode')} of {pluralize(made.events, 'event')}.",
                err=True,
            )
        return await episode_views.load_newest(ledgers, entity=entity, limit=limit)

    found = with_ledgers(ctx, work)
    print_found(found, _print_episodes, _describe_episode, as_json=as_json)


@click.command()
@json_option
@click.pass_context
def stats(ctx: click.Context, as_json: bool) -> None:
    """Count memory items by kind."""
    found = with_ledgers(ctx, _count_kinds)
    if as_json:
        print_unicode_json(found)
        return
    if not found:
        click.echo("The memory is empty.")
    for what, kinds in found.items():
        listed = ", ".join(f"{count:,} {kind}" for kind, count in list(kinds.items())[:12])
        click.echo(f"{what.replace('_', ' '):<17}{sum(kinds.values()):>10,}  {listed}")


async def _count_kinds(ledgers: Ledgers) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for database in (ledgers.identity, ledgers.memory):
        query = sql.queries(database.ledger)["statistics"]
        for what, kind, count in await database.read(sql.rows, query):
            counted.setdefault(what, {})[kind] = count
    return {what: dict(sorted(kinds.items(), key=lambda item: -item[1])) for what, kinds in counted.items()}


def _print_identity(found: Entity, pairs: Sequence[Candidate]) -> None:
    for alias in found.aliases:
        of = f"  of {alias.entity_id}" if alias.entity_id != found.id else ""
        click.echo(f"  {alias.type:<8} {alias.alias}{of}")
    for contact in found.contacts:
        click.echo(f"  reached at {contact.identifier} on {contact.channel}")
    for fact in found.person_facts:
        click.echo(f"  {fact.fact_type}: {fact.value}")
    for event in found.merge_events:
        why = f": {event.reason}" if event.reason else ""
        done = "merged into" if event.action == "merge" else "unmerged from"
        click.echo(
            f"  {event.created_at[:10]} {event.source_entity_id} {done} {event.target_entity_id} "
            f"by {event.actor}{why}"
        )
    for pair in pairs:
        other = pair.name_b if pair.entity_a_id in found.same else pair.name_a
        click.echo(f"  may be {other} ({pair.score:.2f}): {shorten_id(pair.id)}")


def print_log(found: Sequence[Fact], *, details: bool = False) -> None:
    """Print facts in a table, with the short ids that other commands take."""
    lines: list[tuple[object, ...]] = []
    for fact in found:
        how = (fact.relation_type, f"{fact.confidence:.2f}", fact.source_type) if details else ()
        lines.append((shorten_id(fact.id), fact.at[:10], _mark_fact(fact), *how, _describe_origin(fact)))
    print_table(("id", "when", "fact", *(("type", "sure#", "how") if details else ()), "from"), lines)


def describe_fact(fact: Fact) -> dict[str, Any]:
    """Describe a fact for `--json`, with the message that it came from and what the owner decided."""
    plain = asdict(fact)
    for name in ("state", "said", "written", "source_name", "target_name"):
        del plain[name]
    origin: dict[str, Any] | None = None
    if (said := fact.said) is not None:
        origin = {
            "event_id": said.id,
            "channel": said.channel,
            "sender": said.sender,
            "sender_name": said.sender_name,
            "at": said.occurred_at,
            "text": said.content,
        }
    elif (written := fact.written) is not None:
        origin = {
            "event_id": None,
            "channel": written.channel,
            "sender": written.by,
            "sender_name": None,
            "at": written.at,
            "text": fact.fact,
        }
    return plain | {
        "review": fact.state.verdict,
        "pinned": fact.state.is_pinned,
        "source_name": fact.source_name,
        "target_name": fact.target_name,
        "said": origin,
    }


def _mark_fact(fact: Fact) -> str:
    """Return the text of a fact with what the owner decided, and what replaced it."""
    successor, marks = fact.replaced_by, " [pinned]" if fact.state.is_pinned else ""
    if fact.state.verdict == "reject":
        marks += " [rejected]"
    if successor is None:
        return f"{fact.fact}{marks}"
    return f"{fact.fact}{marks} [{replacement_note(successor.how, successor.at, successor.fact)}]"


def _describe_origin(fact: Fact) -> str:
    if fact.said is not None:
        name = fact.said.sender_name or fact.said.sender
        where, at = fact.said.channel, fact.said.occurred_at
    elif fact.written is not None:
        name, where, at = fact.written.by, fact.written.channel, fact.written.at
    else:
        sources = (fact.source_event_id, fact.source_episode_id, fact.source_request_id)
        return next(filter(None, sources), "not recorded")
    return f"{f'{name}, ' if name else ''}{where} {clock.minute(at)}"


def _describe_episode(episode: Episode) -> dict[str, Any]:
    unlike = ("previous_version_id", "source_request_id")
    return {name: value for name, value in asdict(episode).items() if name not in unlike}


def _print_episodes(found: Sequence[Episode], *, details: bool = True) -> None:
    lines: list[tuple[object, ...]] = []
    for each in found:
        times = clock.minute(each.start_time), clock.minute(each.end_time), each.channel
        line = (*times, each.event_count, each.title)
        lines.append((each.id, *line, each.version) if details else line)
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

    async def work(ledgers: Ledgers) -> tuple[Candidate, ...]:
        if look:
            click.echo(f"{pluralize(await review(ledgers), 'pair')} to review.", err=True)
        same = await find_family(ledgers, entity) if entity else None
        wanted = None if status == "all" else status
        return await entity_views.load_candidates(ledgers, status=wanted, entity_ids=same, limit=limit)

    found = with_ledgers(ctx, work)
    print_found(found, _print_candidates, asdict, as_json=as_json)


def _print_candidates(found: Sequence[Candidate]) -> None:
    lines: list[tuple[object, ...]] = []
    for pair in found:
        why = "; ".join(f"{reason.signal} ({reason.detail})" for reason in pair.reasons)
        one, other = pair.name_a, pair.name_b
        if one == other:  # only their ids tell them apart
            one, other = f"{one} {pair.entity_a_id}", f"{other} {pair.entity_b_id}"
        lines.append((shorten_id(pair.id), f"{pair.score:.2f}", one, other, why, pair.status))
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
