"""The commands of `nexus memory` about conclusions from facts: observations, mental models, the profile."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nexus import clock, config
from nexus.cli.display import print_table
from nexus.cli.memory_views import limit_option, print_found
from nexus.cli.place import (
    json_option,
    open_answering_home,
    open_home,
    print_unicode_json,
    with_ledgers,
)
from nexus.errors import UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.conclusions import mental_models
from nexus.memory.conclusions import observations as stored
from nexus.memory.profile import OwnerProfile, Version, versions
from nexus.memory.views.names import find_family
from nexus.text import pluralize

if TYPE_CHECKING:
    from nexus.results import Reflection


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the batches without calling a model.")
@click.option("--again", is_flag=True, help="Also retry facts that were set aside.")
@json_option
@click.pass_context
def consolidate(ctx: click.Context, dry_run: bool, again: bool, as_json: bool) -> None:
    """Turn pending facts into observations now.

    A served home does this twice an hour for facts older than ten minutes. [memory] in config.toml sets
    limits per run and per day.
    """
    if dry_run:
        _print_plan(ctx, as_json)
        return
    home, settings = open_answering_home(ctx, "", "consolidation")
    report = asyncio.run(_consolidate(home, settings, again=again))
    if as_json:
        print_unicode_json(report)
        return
    click.echo(_describe_consolidation(report))


def _describe_consolidation(report: dict[str, Any]) -> str:
    lines = [
        f"{pluralize(report['facts'], 'fact')}: {pluralize(report['added'], 'new observation')}, "
        f"{report['revised']} revised, {report['confirmed']} confirmed."
    ]
    if report.get("refused"):
        lines.append(
            f"{pluralize(report['refused'], 'observation')} refused: not supported by the facts it cites."
        )
    if report["set_aside"]:
        lines.append(f"{pluralize(report['set_aside'], 'fact')} set aside: `--dry-run` shows why.")
    if report["stopped"]:
        lines.append(f"Stopped early: {report['stopped']}.")
    return "\n".join(lines)


async def _consolidate(home: Home, settings: config.Config, *, again: bool) -> dict[str, Any]:
    # Imported here, because the libraries behind it take longer than `nexus memory --help` may.
    from nexus.app import App

    async with App(home, settings) as app:
        report: dict[str, Any] = await (await app.conclusions.consolidate(again=again)).result()
        return report


def _print_plan(ctx: click.Context, as_json: bool) -> None:
    from nexus.roles.consolidation import plan_next_run

    _, settings = open_home(ctx)
    plan = with_ledgers(ctx, plan_next_run, settings)
    if as_json:
        print_unicode_json(plan)
        return
    waiting = "1 fact pending" if plan["waiting"] == 1 else f"{pluralize(plan['waiting'], 'fact')} pending"
    click.echo(f"{waiting}. Off: {plan['off']}." if plan["off"] else f"{waiting}.")
    if plan["batches"]:
        print_table(
            ("facts#", "shown with", "tokens#", "billed to"),
            [
                (
                    len(each["fact_ids"]),
                    f"{pluralize(len(each['observation_ids']), 'observation')}, "
                    f"{pluralize(len(each['known_ids']), 'known fact')}",
                    each["tokens"],
                    each["root_request_id"] or "its own request",
                )
                for each in plan["batches"]
            ],
        )
    if plan["facts_set_aside"]:
        click.echo("\nSet aside")
        lines = [(each["id"], each["fact"], each["reason"]) for each in plan["facts_set_aside"]]
        print_table(("id", "fact", "why"), lines)


@click.command()
@click.argument("what", required=False)
@click.option("--stale", is_flag=True, help="Only stale ones.")
@limit_option
@json_option
@click.pass_context
def observations(ctx: click.Context, what: str | None, stale: bool, limit: int, as_json: bool) -> None:
    """List observations, newest first.

    WHAT is an entity, to list observations about it, or an observation id, to show its facts and versions.
    """
    if what and what.startswith("obs_"):
        _print_observation(ctx, what, as_json)
        return

    async def work(ledgers: Ledgers) -> tuple[list[dict[str, Any]], dict[str, int]]:
        same = await find_family(ledgers, what) if what else None
        found = await stored.list_observations(ledgers, entities=same, stale=stale, limit=limit)
        return found, await stored.count_facts(ledgers)

    found, counts = with_ledgers(ctx, work)
    print_found(found, _print_observations, as_json=as_json)
    if as_json:
        return
    if counts["waiting"] or counts["set_aside"]:
        click.echo(
            f"{pluralize(counts['waiting'], 'fact')} not consolidated yet, {counts['set_aside']} set aside: "
            "see `nexus memory consolidate --dry-run`.",
            err=True,
        )


def _print_observation(ctx: click.Context, id_: str, as_json: bool) -> None:
    found = with_ledgers(ctx, stored.load_observation, id_)
    if found is None:
        raise UsageError(f"Unknown observation {id_}", hint="List them with `nexus memory observations`.")
    if as_json:
        print_unicode_json(found)
        return
    stale = f"  stale since {found['stale_at'][:10]}" if found["stale_at"] else ""
    click.echo(f"{click.style(found['subject'] or 'no subject', bold=True)}  {found['id']}{stale}")
    click.echo(found["content"])
    click.echo("\nSupported by")
    lines = [(fact["at"][:10], fact["fact"], fact["id"]) for fact in found["evidence"]]
    print_table(("when", "fact", "id"), lines)
    if found["versions"][1:]:
        click.echo("\nBefore")
        _print_observations(found["versions"][1:])


def _print_observations(found: Sequence[dict[str, Any]]) -> None:
    print_table(
        ("id", "about", "observation", "facts#", "version#", "made", "stale since"),
        [
            (
                each["id"],
                each["subject"],
                each["content"],
                each["facts"],
                each["version"],
                each["created_at"][:10],
                (each["stale_at"] or "")[:10],
            )
            for each in found
        ],
    )


@click.command("mental-models")
@click.argument("words", metavar="[NAME]", nargs=-1)
@click.option("--stale", is_flag=True, help="Only stale ones.")
@limit_option
@json_option
@click.pass_context
def models(ctx: click.Context, words: tuple[str, ...], stale: bool, limit: int, as_json: bool) -> None:
    """List mental models, newest first, or show one with its sources and versions.

    NAME is its name, or the id of any of its versions.
    """
    if not words:
        print_models(ctx, as_json, stale=stale, limit=limit)
        return
    try:
        found = with_ledgers(ctx, mental_models.describe, " ".join(words))
    except UsageError as error:
        # As memory-models.sh ends where the home runs.
        click.echo(str(error), err=True)
        ctx.exit(2)
    if as_json:
        print_unicode_json(found)
        return
    since = f"  stale since {found['stale_at'][:10]}" if found["stale_at"] else ""
    click.echo(f"{click.style(found['name'], bold=True)}  {found['id']}{since}")
    click.echo(f"{found['content']}\n")
    click.echo(f"Answers: {found['question']}  Concluded by {found['author']} on {found['created_at'][:10]}.")
    click.echo("\nRests on")
    lines = [
        (each["at"][:10], each["text"], each["id"], "stale" if each["stale_since"] else "")
        for each in found["sources"]
    ]
    print_table(("when", "what", "id", ""), lines)
    if found["versions"][1:]:
        click.echo("\nBefore")
        _print_model_table(found["versions"][1:])


def print_models(ctx: click.Context, as_json: bool, *, stale: bool = False, limit: int = 50) -> None:
    """Print the mental models in their newest versions."""
    listed = with_ledgers(ctx, mental_models.list_models, stale=stale, limit=limit)
    found = [each.to_json() for each in listed]
    print_found(found, _print_model_table, as_json=as_json)


def _print_model_table(found: Sequence[dict[str, Any]]) -> None:
    print_table(
        ("id", "name", "answers", "by", "version#", "made", "stale since"),
        [
            (
                each["id"],
                each["name"],
                each["question"],
                each["author"],
                each["version"],
                each["created_at"][:10],
                (each["stale_at"] or "")[:10],
            )
            for each in found
        ],
    )


@click.command()
@click.option("--edit", is_flag=True, help="Edit it in your editor.")
@click.option("--set", "text", metavar="TEXT", help="Replace it with TEXT; `-` reads standard input.")
@click.option("--reset", is_flag=True, help="Drop your edit and build it from facts again.")
@click.option("--versions", "all_versions", is_flag=True, help="List its versions.")
@json_option
@click.pass_context
def profile(
    ctx: click.Context, edit: bool, text: str | None, reset: bool, all_versions: bool, as_json: bool
) -> None:
    """Show or edit your profile, which is part of every prompt.

    Nexus builds it from facts, with sources, in at most 300 tokens. Your edits are kept word for word; later
    versions only add new facts. Guests never get it.
    """
    if sum((edit, text is not None, reset, all_versions)) > 1:
        raise UsageError("Use one of --edit, --set, --reset and --versions")
    if edit:
        text = _edit_profile(with_ledgers(ctx, _load_profile))
    if text is not None:
        written = sys.stdin.read() if text == "-" else text
        _print_profile(ctx, with_ledgers(ctx, _revise_profile, written), as_json)
    elif reset:
        _print_profile(ctx, with_ledgers(ctx, _revise_profile, None), as_json)
    elif all_versions:
        _print_versions(with_ledgers(ctx, versions.list_versions), as_json)
    else:
        _print_profile(ctx, with_ledgers(ctx, _load_profile), as_json)


async def _load_profile(ledgers: Ledgers) -> Version | None:
    return await versions.newest(ledgers) or await OwnerProfile(ledgers).refresh()


async def _revise_profile(ledgers: Ledgers, text: str | None) -> Version | None:
    """Save the owner's text as the profile; without one, derive it from the memory again."""
    profile = OwnerProfile(ledgers)
    return await (profile.reset() if text is None else profile.write(text))


def _edit_profile(version: Version | None) -> str | None:
    before = "" if version is None else version.content
    after = click.edit(before, extension=".md")
    if after is None or after.strip() == before.strip():
        click.echo("Nothing changed.", err=True)
        return None
    return after


def _print_profile(ctx: click.Context, version: Version | None, as_json: bool) -> None:
    if version is None:
        click.echo("{}" if as_json else "The profile is empty. Write it yourself with --edit.")
        return
    cited = with_ledgers(ctx, versions.citations, version.id)
    if as_json:
        facts = [{"line": each.line, "fact_id": each.fact_id, "fact": each.fact} for each in cited]
        print_unicode_json({**_version_document(version), "citations": facts})
        return
    for number, line in enumerate(version.content.splitlines(), start=1):
        sources = [each.fact_id for each in cited if each.line == number]
        click.echo(f"{line}  {click.style(' '.join(sources), dim=True)}".rstrip())
    click.echo(
        f"\nVersion {version.version}, {_describe_origin(version)}, {version.created_at[:10]}.", err=True
    )


def _print_versions(found: list[Version], as_json: bool) -> None:
    if as_json:
        print_unicode_json([_version_document(each) for each in found])
        return
    lines = [
        (
            each.version,
            clock.minute(each.created_at),
            _describe_origin(each),
            each.content.replace("\n", " "),
        )
        for each in found
    ]
    print_table(("version#", "made", "by", "profile"), lines)


def _describe_origin(version: Version) -> str:
    made = {"facts": "built from facts", "consolidation": "written by consolidation", "owner": "your edit"}
    merged = version.written is not None and version.origin != "owner"
    return f"{made[version.origin]} around your edit" if merged else made[version.origin]


def _version_document(version: Version) -> dict[str, object]:
    return {
        "id": version.id,
        "version": version.version,
        "content": version.content,
        "origin": version.origin,
        "written": version.written,
        "created_at": version.created_at,
    }


@click.command()
@click.argument("question", nargs=-1)
@click.option("--save", "save_as", metavar="NAME", help="Save the answer as a mental model.")
@click.option("--refresh", metavar="ID", help="Answer a saved question again: id or name.")
@click.option("--list", "listing", is_flag=True, help="List saved mental models.")
@click.option("--model", metavar="PROVIDER/MODEL", default="", help="Model to use instead of [models].")
@json_option
@click.pass_context
def reflect(
    ctx: click.Context, question: tuple[str, ...], *, listing: bool, as_json: bool, **options: Any
) -> None:
    """Answer QUESTION from the memory, with sources.

    The model must search before it answers. Citations it didn't find are removed and reported.
    """
    text = " ".join(question).strip()
    if listing:
        print_models(ctx, as_json)
        return
    if bool(text) == bool(options["refresh"]):
        raise UsageError(
            "Pass a question, or --refresh with a mental model",
            hint='For example: `nexus reflect "What changed?"`.',
        )
    home, settings = open_answering_home(ctx, options["model"], "reflection")
    found = asyncio.run(_reflect(home, settings, text, **options))
    if as_json:
        print_unicode_json(found.to_json())
    else:
        _print_answer(found)


async def _reflect(
    home: Home,
    settings: config.Config,
    question: str,
    *,
    save_as: str | None,
    refresh: str | None,
    model: str,
) -> "Reflection":
    # Imported here, because the libraries behind it take longer than `nexus reflect --help` may.
    from nexus.app import App

    async with App(home, settings) as app:
        if refresh:
            return await app.refresh(refresh, model=model)
        return await app.reflect(question, save_as=save_as, model=model)


def _print_answer(found: "Reflection") -> None:
    click.echo(found.answer)
    if found.sources:
        click.echo("\nSources")
        lines = [
            (source.at[:10], source.text, source.id, "stale" if source.stale_since else "")
            for source in found.sources
        ]
        print_table(("when", "what", "id", ""), lines)
    if found.removed:
        click.echo(
            f"{pluralize(len(found.removed), 'source')} cited without a match, removed: "
            f"{', '.join(found.removed)}",
            err=True,
        )
    if found.mental_model_id:
        click.echo(f"Saved as {found.mental_model_id}.", err=True)
