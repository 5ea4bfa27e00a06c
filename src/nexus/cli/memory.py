"""`nexus memory`: add, correct and review facts; run the memory skill's scripts."""

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from nexus import clock
from nexus.cli import memory_conclusions, memory_exam, memory_views
from nexus.cli.memory_preview import preview_option, preview_settings, print_preview, without
from nexus.cli.memory_views import describe_fact, limit_option, person, print_found, print_log, with_memory
from nexus.cli.place import json_option, open_home, print_json, print_unicode_json, with_ledgers
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.ledgers.memory import shorten_id
from nexus.ledgers.memory.reviews import Decision
from nexus.memory.operations import Memory
from nexus.memory.views import facts as fact_views
from nexus.memory.views.facts import WHOLE
from nexus.text import pluralize

# Models and recall are imported where they are used: most of these commands need neither.
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nexus.config import Config
    from nexus.home import Home
    from nexus.memory.embedding import Vectors
    from nexus.memory.recall.recall import Recall
    from nexus.skills.commands import Commands


@click.group(short_help="Duplicates, episodes, conclusions, scripts.")
def advanced() -> None:
    """Everything else: duplicates, episodes, conclusions, indexes and scripts.

    These also work without `advanced`, as in `nexus memory write`.
    """


class _MemoryGroup(click.Group):
    """The everyday commands. The advanced ones work here too, as in `nexus memory write`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or advanced.get_command(ctx, cmd_name)


@click.group(cls=_MemoryGroup)
def memory() -> None:
    """See and correct what Nexus knows: facts, people, changes."""


@memory.command()
@click.argument("statement")
@click.option("--about", metavar="ENTITY", help="Subject: id or name.")
@json_option
@click.pass_context
def add(ctx: click.Context, statement: str, about: str | None, as_json: bool) -> None:
    """Add a fact in your own words."""
    arguments = {"fact": statement, **({"about": about} if about else {})}
    answer = with_memory(ctx, lambda memory: memory.add(arguments, person()))
    print_unicode_json(answer) if as_json else click.echo(f"Added {shorten_id(answer['id'])}.")


@memory.command()
@click.argument("fact_id", metavar="ID")
@click.argument("statement")
@click.option(
    "--how",
    type=click.Choice(["corrected", "changed", "cancelled"]),
    help="It was never true, was true until now, or was called off.",
)
@preview_option
@json_option
@click.pass_context
def correct(
    ctx: click.Context, fact_id: str, statement: str, how: str | None, preview: bool, as_json: bool
) -> None:
    """Replace the fact ID by STATEMENT. Both stay in the log."""
    if preview:
        from nexus.evaluation import preview as previews

        print_preview(ctx, previews.correct(fact_id, statement, person(), how=how), as_json=as_json)
        return
    answer = with_memory(ctx, lambda memory: memory.correct(fact_id, statement, person(), how=how))
    done = f"{shorten_id(fact_id)} is replaced by {shorten_id(answer['id'])}: {statement}"
    print_unicode_json(answer) if as_json else click.echo(done)


@memory.command("keep-both")
@click.argument("fact_id", metavar="ID")
@click.argument("other_id", metavar="[OTHER]", required=False)
@json_option
@click.pass_context
def keep_both(ctx: click.Context, fact_id: str, other_id: str | None, as_json: bool) -> None:
    """Keep two facts as both true.

    ID and the fact that replaced it, or OTHER, are no longer linked, and never again.
    """
    answer = with_memory(ctx, lambda memory: memory.keep_both(fact_id, other_id, person()))
    done = f"Both are true: {shorten_id(fact_id)} and {shorten_id(answer['distinct_from'])}."
    print_unicode_json(answer) if as_json else click.echo(done)


@memory.command()
@click.argument("fact_id", metavar="ID")
@json_option
@click.pass_context
def pin(ctx: click.Context, fact_id: str, as_json: bool) -> None:
    """Always consider a fact when its subject comes up."""
    _decide(ctx, fact_id, "pin", f"Pinned {fact_id}.", as_json=as_json)


@memory.command()
@click.argument("fact_id", metavar="ID")
@json_option
@click.pass_context
def unpin(ctx: click.Context, fact_id: str, as_json: bool) -> None:
    """Unpin a fact."""
    _decide(ctx, fact_id, "unpin", f"Unpinned {fact_id}.", as_json=as_json)


@memory.command()
@click.option("--days", type=click.IntRange(1), default=7, show_default=True, help="How far to look back.")
@click.option("--accept", metavar="ID", help="Accept a fact.")
@click.option("--reject", metavar="ID", help="Reject a fact: it stays in the log and is no longer used.")
@click.option("--undo", metavar="ID", help="Take back an accept or a reject.")
@preview_option
@limit_option
@json_option
@click.pass_context
def review(
    ctx: click.Context,
    days: int,
    accept: str | None,
    reject: str | None,
    undo: str | None,
    preview: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List facts that nobody has reviewed, or decide about one."""
    decisions: tuple[tuple[str | None, Decision, str], ...] = (
        (accept, "accept", "Accepted"),
        (reject, "reject", "Rejected"),
        (undo, "reopen", "Reopened"),
    )
    for fact_id, decision, done in decisions:
        if fact_id and preview:
            from nexus.evaluation import preview as previews

            print_preview(ctx, previews.decide(fact_id, decision, person()), as_json=as_json)
            return
        if fact_id:
            _decide(ctx, fact_id, decision, f"{done} {fact_id}.", as_json=as_json)
            return
    if preview:
        raise UsageError("Nothing to preview", hint="Pass --accept, --reject or --undo with it.")
    since = clock.timestamp(clock.now() - timedelta(days=days))
    found = with_ledgers(ctx, fact_views.load_to_review, since=since, limit=limit, characters=WHOLE).items
    print_found(found, print_log, describe_fact, as_json=as_json, otherwise="Nothing to review.")


def _decide(ctx: click.Context, fact_id: str, decision: Decision, done: str, *, as_json: bool) -> None:
    state = with_memory(ctx, lambda memory: memory.decide(fact_id, decision, person()))
    print_unicode_json({"id": fact_id, **asdict(state)}) if as_json else click.echo(done)


# Flags belong to the operation: the code that parses them on the socket parses them here too.
_UNPARSED: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}
_arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)


@advanced.command(context_settings=_UNPARSED)
@_arguments
@click.pass_context
def write(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Write to the memory, like memory-write.sh.

    Operations: entity, alias, relationship, fact, episode, merge, unmerge and more. `batch` reads one JSON
    object per line from stdin. The result is JSON.
    """

    async def run(commands: "Commands") -> dict[str, Any]:
        if arguments[:1] == ("batch",):
            return await commands.batch(sys.stdin.buffer.read())
        return await commands.write(list(arguments))

    _print_answer(ctx, run)


@advanced.command(context_settings=_UNPARSED)
@_arguments
@click.pass_context
def search(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Search like memory-search.sh, with JSON output."""
    _print_answer(ctx, lambda commands: commands.search(list(arguments)))


@advanced.command()
@click.option("--accept", is_flag=True, help="Accept the facts as they are and reseal them.")
@click.pass_context
def seals(ctx: click.Context, accept: bool) -> None:
    """Check that no fact was changed or removed outside Nexus.

    Prints the latest seal, a hash over all facts. Store it elsewhere to compare later.
    """
    from contextlib import closing

    from nexus.ledgers.connection import connect
    from nexus.ledgers.memory import seals as made

    home, settings = open_home(ctx)
    ledger = home.ledger("memory")
    with closing(
        connect(ledger, "memory", settings.ledgers, writes=True, checkpoints=not home.is_copied)
    ) as connection:
        if accept:
            with connection:
                click.echo(f"Accepted {pluralize(made.accept(connection), 'changed fact')}.")
        while made.count_unsealed(connection):
            with connection:
                made.seal(connection)
        broken = list(made.breaks(connection))
        for each in broken:
            click.echo(f"Fact number {each.seq} was {each.what}.")
        if broken:
            click.echo("If the facts are correct, pass --accept.", err=True)
            ctx.exit(1)
        click.echo(f"All facts match their seals. Last seal: {made.head(connection) or 'none yet'}")


@advanced.command()
@click.option("--check", is_flag=True, help="Check everything and embed what is missing.")
@json_option
@click.pass_context
def embeddings(ctx: click.Context, check: bool, as_json: bool) -> None:
    """Show embedding progress."""
    home, config = open_home(ctx)
    progress = asyncio.run(_embed(home, config, check=check))
    if as_json:
        print_json(progress)
    else:
        _print_embeddings(progress)


@advanced.command()
@click.option("--rebuild", is_flag=True, help="Discard the derived links and derive them again from the log.")
@json_option
@click.pass_context
def successions(ctx: click.Context, rebuild: bool, as_json: bool) -> None:
    """Update and count links from facts to their replacements."""
    home, config = open_home(ctx)
    counts = asyncio.run(_derive_successions(home, config, rebuild=rebuild))
    if as_json:
        print_json(counts)
        return
    replaced = pluralize(counts["stated"] + counts["judged"], "fact")
    click.echo(f"{replaced} replaced: {counts['stated']} stated, {counts['judged']} derived.")


async def _derive_successions(home: "Home", config: "Config", *, rebuild: bool) -> dict[str, Any]:
    from nexus.memory import succession
    from nexus.memory.embedding import embed_new, open_vectors

    async with Ledgers(home, config.ledgers) as ledgers:
        vectors = await open_vectors(ledgers, config.memory)
        await embed_new(ledgers, vectors)
        derive = succession.rebuild if rebuild else succession.derive
        changed = await derive(ledgers, vectors)
        return {**asdict(await succession.state(ledgers, vectors.embedder.model_id)), "changed": changed}


def _print_answer(ctx: click.Context, run: "Callable[[Commands], Awaitable[dict[str, Any]]]") -> None:
    """Run a command of the skill's scripts and print its answer; a usage error ends with exit code 2."""
    from nexus.memory.writing import Provenance
    from nexus.skills.commands import Commands

    home, config = open_home(ctx)
    provenance = Provenance(actor="command-line", kind="owner", channel="cli")

    async def answer() -> dict[str, Any]:
        async with Ledgers(home, config.ledgers) as ledgers:
            memory = Memory(
                ledgers, phone_region=config.memory.phone_region, keeps_codes=config.memory.keep_codes
            )
            return await run(Commands(memory, lambda: _open_recall(ledgers, config), provenance))

    try:
        click.echo(json.dumps(asyncio.run(answer()), ensure_ascii=False))
    except UsageError as error:
        click.echo(str(error), err=True)
        ctx.exit(2)


async def _open_recall(ledgers: Ledgers, config: "Config") -> "Recall":
    from nexus.cli.recall import open_current_vectors
    from nexus.errors import ModelFileError
    from nexus.memory.recall.recall import Recall
    from nexus.memory.recall.reranker import installed_reranker

    vectors: Vectors | None = None
    try:
        vectors = await open_current_vectors(ledgers, config.memory)
    except ModelFileError as error:
        click.echo(f"Searching by words only: {error.message}", err=True)
    return Recall(ledgers, vectors, reranker=await asyncio.to_thread(installed_reranker))


async def _embed(home: "Home", config: "Config", *, check: bool) -> dict[str, Any]:
    from nexus.ledgers import sql
    from nexus.memory.embedding import backlog, choose_model_id, open_vectors
    from nexus.memory.embedding.job import Pass

    async with Ledgers(home, config.ledgers) as ledgers:
        made: dict[str, int] = {}
        if check:
            vectors = await open_vectors(ledgers, config.memory)
            made["made"] = await Pass(ledgers=ledgers, vectors=vectors, whole=True).run()
            await vectors.serve()
        found = await backlog(ledgers, choose_model_id(config.memory))
        failed = await ledgers.embeddings.read(sql.value, sql.queries("embeddings")["failed"])
        lag_ms = found.lag_ms(clock.now())
        return {**asdict(found), "depth": found.depth, "lag_ms": lag_ms, "failed": failed, **made}


def _print_embeddings(progress: dict[str, Any]) -> None:
    click.echo(f"model    {progress['model_id']}")
    serving = progress["serving_model_id"]
    if serving not in {None, progress["model_id"]}:
        click.echo(f"serving  {serving}, until the new model is complete")
    for kind in progress["kinds"]:
        since = f", oldest from {kind['oldest_at']}" if kind["waiting"] else ""
        name = kind["kind"].replace("_", " ")
        click.echo(f"  {name:<13} {kind['embedded']} of {kind['total']}, {kind['waiting']} waiting{since}")
    if "made" in progress:
        click.echo(f"Made {pluralize(progress['made'], 'vector')}.")
    if progress["failed"]:
        click.echo(f"{pluralize(progress['failed'], 'text')} could not be embedded.")
    click.echo(
        f"{pluralize(progress['depth'], 'item')} pending." if progress["depth"] else "Nothing pending."
    )


for _command in (
    memory_views.facts,
    memory_views.people,
    memory_views.changes,
    memory_views.show,
    memory_conclusions.profile,
    memory_exam.exam,
    without,
    preview_settings,
    advanced,
):
    memory.add_command(_command)

for _command in (
    memory_views.entities,
    memory_views.timeline,
    memory_views.episodes,
    memory_conclusions.observations,
    memory_conclusions.models,
    memory_conclusions.consolidate,
    memory_views.candidates,
    memory_views.merge,
    memory_views.unmerge,
    memory_views.reject,
    memory_views.stats,
):
    advanced.add_command(_command)
