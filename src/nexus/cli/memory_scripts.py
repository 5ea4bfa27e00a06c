"""`nexus memory write`, `search` and what is derived from the log: `embeddings`, `successions`, `seals`."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from nexus.cli.place import counted, opened_home
from nexus.errors import UsageError

# The rest is imported where it is used: the other commands of `nexus memory` need no model and no recall.
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nexus.config import Config
    from nexus.home import Home
    from nexus.ledgers import Ledgers
    from nexus.memory.embedding import Vectors
    from nexus.memory.recall.recall import Recall
    from nexus.skills.commands import Commands

# Flags belong to the operation, and are read by what reads them on the socket too.
_AS_GIVEN: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "allow_interspersed_args": False,
    "help_option_names": ["-h", "--help"],
}
_arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)


@click.command(context_settings=_AS_GIVEN)
@_arguments
@click.pass_context
def write(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Write to the memory, like memory-write.sh.

    Operations: entity, alias, relationship, fact, episode, merge, unmerge and more. `batch` reads one JSON
    object per line from stdin. The result is JSON.
    """

    async def asked(commands: "Commands") -> dict[str, Any]:
        if arguments[:1] == ("batch",):
            return await commands.batch(sys.stdin.buffer.read())
        return await commands.write(list(arguments))

    _answer(ctx, asked)


@click.command(context_settings=_AS_GIVEN)
@_arguments
@click.pass_context
def search(ctx: click.Context, arguments: tuple[str, ...]) -> None:
    """Search like memory-search.sh, with JSON output."""
    _answer(ctx, lambda commands: commands.search(list(arguments)))


@click.command()
@click.option("--accept", is_flag=True, help="Accept the facts as they are and reseal them.")
@click.pass_context
def seals(ctx: click.Context, accept: bool) -> None:
    """Check that no fact was changed or removed outside Nexus.

    Prints the latest seal, a hash over all facts. Store it elsewhere to compare later.
    """
    from contextlib import closing

    from nexus.ledgers.connection import connect
    from nexus.ledgers.memory import seals as made

    home, settings = opened_home(ctx)
    opened = connect(
        home.ledger("memory"), "memory", settings.ledgers, writes=True, checkpoints=not home.is_copied
    )
    with closing(opened) as connection:
        if accept:
            with connection:
                click.echo(f"Accepted {counted(made.accept(connection), 'changed fact')}.")
        while made.unsealed(connection):
            with connection:
                made.seal(connection)
        broken = list(made.breaks(connection))
        for each in broken:
            click.echo(f"Fact number {each.seq} was {each.what}.")
        if broken:
            click.echo("If the facts are correct, pass --accept.", err=True)
            ctx.exit(1)
        click.echo(f"All facts match their seals. Last seal: {made.head(connection) or 'none yet'}")


@click.command()
@click.option("--check", is_flag=True, help="Check everything and embed what is missing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def embeddings(ctx: click.Context, check: bool, as_json: bool) -> None:
    """Show embedding progress."""
    home, config = opened_home(ctx)
    picture = asyncio.run(_look(home, config, check=check))
    if as_json:
        click.echo(json.dumps(picture, indent=2))
    else:
        _print(picture)


@click.command()
@click.option("--rebuild", is_flag=True, help="Discard the derived links and derive them again from the log.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def successions(ctx: click.Context, rebuild: bool, as_json: bool) -> None:
    """Update and count links from facts to their replacements."""
    home, config = opened_home(ctx)
    picture = asyncio.run(_successions(home, config, rebuild=rebuild))
    if as_json:
        click.echo(json.dumps(picture, indent=2))
        return
    replaced = counted(picture["stated"] + picture["judged"], "fact")
    click.echo(f"{replaced} replaced: {picture['stated']} stated, {picture['judged']} derived.")


async def _successions(home: "Home", config: "Config", *, rebuild: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from nexus.ledgers import Ledgers
    from nexus.memory import succession
    from nexus.memory.embedding import embed_new, open_vectors

    async with Ledgers(home, config.ledgers) as ledgers:
        vectors = await open_vectors(ledgers, config.memory)
        await embed_new(ledgers, vectors)
        derive = succession.rebuild if rebuild else succession.derive
        changed = await derive(ledgers, vectors)
        return {**asdict(await succession.state(ledgers, vectors.embedder.model_id)), "changed": changed}


def _answer(ctx: click.Context, asked: "Callable[[Commands], Awaitable[dict[str, Any]]]") -> None:
    home, config = opened_home(ctx)
    try:
        click.echo(json.dumps(asyncio.run(_run(home, config, asked)), ensure_ascii=False))
    except UsageError as error:
        click.echo(str(error), err=True)
        ctx.exit(2)


async def _run(
    home: "Home", config: "Config", asked: "Callable[[Commands], Awaitable[dict[str, Any]]]"
) -> dict[str, Any]:
    from nexus.ledgers import Ledgers
    from nexus.memory.operations import Memory
    from nexus.memory.writing import Provenance
    from nexus.skills.commands import Commands

    async with Ledgers(home, config.ledgers) as ledgers:
        provenance = Provenance(actor="command-line", kind="owner", channel="cli")
        memory = Memory(
            ledgers, phone_region=config.memory.phone_region, keeps_codes=config.memory.keep_codes
        )
        return await asked(Commands(memory, lambda: _recall(ledgers, config), provenance))


async def _recall(ledgers: "Ledgers", config: "Config") -> "Recall":
    from nexus.errors import ModelFileError
    from nexus.memory.embedding import embed_new, open_vectors
    from nexus.memory.recall.recall import Recall
    from nexus.memory.recall.reranker import installed_reranker
    from nexus.memory.succession import derive

    vectors: Vectors | None = None
    try:
        vectors = await open_vectors(ledgers, config.memory)
        await embed_new(ledgers, vectors)
        await derive(ledgers, vectors)
    except ModelFileError as error:
        click.echo(f"Searching by words only: {error.message}", err=True)
    return Recall(ledgers, vectors, reranker=await asyncio.to_thread(installed_reranker))


async def _look(home: "Home", config: "Config", *, check: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from nexus import clock
    from nexus.ledgers import Ledgers, sql
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


def _print(picture: dict[str, Any]) -> None:
    click.echo(f"model    {picture['model_id']}")
    serving = picture["serving_model_id"]
    if serving not in {None, picture["model_id"]}:
        click.echo(f"serving  {serving}, until the new model is complete")
    for kind in picture["kinds"]:
        since = f", oldest from {kind['oldest_at']}" if kind["waiting"] else ""
        name = kind["kind"].replace("_", " ")
        click.echo(f"  {name:<13} {kind['embedded']} of {kind['total']}, {kind['waiting']} waiting{since}")
    if "made" in picture:
        click.echo(f"Made {counted(picture['made'], 'vector')}.")
    if picture["failed"]:
        click.echo(f"{counted(picture['failed'], 'text')} could not be embedded.")
    click.echo(f"{counted(picture['depth'], 'item')} pending." if picture["depth"] else "Nothing pending.")
