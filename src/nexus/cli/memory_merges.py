"""The commands of `nexus memory` that say who is who."""

import getpass
from typing import Any

import click

from nexus.cli.memory_views import as_json_option, limit_option, print_json, with_ledgers
from nexus.cli.place import counted
from nexus.cli.tables import print_table
from nexus.ledgers import Ledgers
from nexus.memory import views
from nexus.memory.operations import Memory
from nexus.memory.provenance import Provenance
from nexus.memory.review import review

_reason = click.option("--reason", help="Why; it stays in the audit.")


@click.command()
@click.argument("entity", required=False)
@click.option(
    "--status",
    type=click.Choice(["pending", "accepted", "rejected", "all"]),
    default="pending",
    show_default=True,
)
@click.option("--find", "look", is_flag=True, help="First compare all entities again, by their company too.")
@limit_option
@as_json_option
@click.pass_context
def candidates(
    ctx: click.Context, entity: str | None, status: str, look: bool, limit: int, as_json: bool
) -> None:
    """List pairs of entities that may be one, the likeliest first, with why."""

    async def work(ledgers: Ledgers) -> list[dict[str, Any]]:
        if look:
            click.echo(f"{counted(await review(ledgers), 'pair')} waiting for a decision.", err=True)
        same = await views.find(ledgers, entity) if entity else None
        wanted = None if status == "all" else status
        return await views.candidates(ledgers, status=wanted, entities=same, limit=limit)

    found = with_ledgers(ctx, work)
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("There are none.")
        return
    print_table(("id", "score#", "one", "other", "why", "status"), [_line(pair) for pair in found])
    click.echo("`nexus memory merge ONE OTHER` makes them one; `nexus memory reject ID` keeps them apart.")


@click.command()
@click.argument("source")
@click.argument("target")
@_reason
@as_json_option
@click.pass_context
def merge(ctx: click.Context, source: str, target: str, reason: str | None, as_json: bool) -> None:
    """Let TARGET stand for SOURCE from now on. Nothing is moved, so it can be taken back."""
    answer = _write(ctx, "merge", source=source, target=target, reason=reason)
    if as_json:
        print_json(answer)
        return
    click.echo(f"{answer['merged']} is now part of {answer['root']}.")
    click.echo(f"Take it back with `nexus memory unmerge {answer['merged']}`.")


@click.command()
@click.argument("entity")
@_reason
@as_json_option
@click.pass_context
def unmerge(ctx: click.Context, entity: str, reason: str | None, as_json: bool) -> None:
    """Take a merge back: ENTITY stands for itself again, with all that it had."""
    answer = _write(ctx, "unmerge", entity=entity, reason=reason)
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{answer['entity_id']} stands for itself again, apart from {answer['was_merged_into']}.")


@click.command()
@click.argument("candidate")
@as_json_option
@click.pass_context
def reject(ctx: click.Context, candidate: str, as_json: bool) -> None:
    """Say that the two entities of CANDIDATE are not one; the pair is not proposed again."""
    answer = _write(ctx, "reject", candidate=candidate)
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{candidate} is rejected.")


def _write(ctx: click.Context, operation: str, **arguments: Any) -> dict[str, Any]:
    provenance = Provenance(actor=f"person:{getpass.getuser()}", kind="owner")
    return with_ledgers(ctx, lambda ledgers: Memory(ledgers).run(operation, arguments, provenance))


def _line(pair: dict[str, Any]) -> tuple[object, ...]:
    why = "; ".join(f"{reason['signal']} ({reason['detail']})" for reason in pair["reasons"])
    one, other = (f"{pair[f'name_{each}']} {pair[f'entity_{each}_id']}" for each in "ab")
    return (pair["id"], f"{pair['score']:.2f}", one, other, why, pair["status"])
