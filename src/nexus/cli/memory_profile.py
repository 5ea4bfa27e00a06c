"""`nexus memory profile`: what every agent of yours knows about you."""

import sys

import click

from nexus.cli.memory_views import as_json_option, print_json, with_ledgers
from nexus.cli.tables import print_table
from nexus.errors import UsageError
from nexus.ledgers import Ledgers
from nexus.memory.profile import OwnerProfile, Version, versions


@click.command()
@click.option("--edit", is_flag=True, help="Edit it in your editor.")
@click.option("--set", "text", metavar="TEXT", help="Replace it with TEXT; `-` reads standard input.")
@click.option("--reset", is_flag=True, help="Drop your edit and build it from facts again.")
@click.option("--versions", "all_versions", is_flag=True, help="List its versions.")
@as_json_option
@click.pass_context
def profile(
    ctx: click.Context, edit: bool, text: str | None, reset: bool, all_versions: bool, as_json: bool
) -> None:
    """Show or edit the summary of you that is part of every prompt.

    Nexus keeps it up to date from facts, with the sources of each line, in at most 300 tokens. What you write
    yourself is kept word for word; later versions only add what is learned afterwards. Guests never get it.
    """
    if sum((edit, text is not None, reset, all_versions)) > 1:
        raise UsageError("Use one of --edit, --set, --reset and --versions")
    if edit:
        text = _edited(with_ledgers(ctx, _current))
    if text is not None:
        written = sys.stdin.read() if text == "-" else text
        _print(ctx, with_ledgers(ctx, lambda ledgers: OwnerProfile(ledgers).write(written)), as_json)
    elif reset:
        _print(ctx, with_ledgers(ctx, lambda ledgers: OwnerProfile(ledgers).reset()), as_json)
    elif all_versions:
        _print_versions(with_ledgers(ctx, versions.listed), as_json)
    else:
        _print(ctx, with_ledgers(ctx, _current), as_json)


async def _current(ledgers: Ledgers) -> Version | None:
    return await versions.newest(ledgers) or await OwnerProfile(ledgers).refresh()


def _edited(version: Version | None) -> str | None:
    before = "" if version is None else version.content
    after = click.edit(before, extension=".md")
    if after is None or after.strip() == before.strip():
        click.echo("Nothing changed.", err=True)
        return None
    return after


def _print(ctx: click.Context, version: Version | None, as_json: bool) -> None:
    if version is None:
        click.echo("{}" if as_json else "Nothing is known about you yet. Write it yourself with --edit.")
        return
    cited = with_ledgers(ctx, lambda ledgers: versions.citations(ledgers, version.id))
    if as_json:
        facts = [{"line": each.line, "fact_id": each.fact_id, "fact": each.fact} for each in cited]
        print_json({**_json(version), "citations": facts})
        return
    for number, line in enumerate(version.content.splitlines(), start=1):
        sources = [each.fact_id for each in cited if each.line == number]
        click.echo(f"{line}  {click.style(' '.join(sources), dim=True)}".rstrip())
    click.echo(f"\nVersion {version.version}, {_by(version)}, {version.created_at[:10]}.", err=True)


def _print_versions(found: list[Version], as_json: bool) -> None:
    if as_json:
        print_json([_json(each) for each in found])
        return
    lines = [
        (each.version, each.created_at[:16].replace("T", " "), _by(each), each.content.replace("\n", " "))
        for each in found
    ]
    print_table(("version#", "made", "by", "profile"), lines)


def _by(version: Version) -> str:
    made = {"facts": "built from facts", "consolidation": "written by consolidation", "owner": "your edit"}
    merged = version.written is not None and version.origin != "owner"
    return f"{made[version.origin]} around your edit" if merged else made[version.origin]


def _json(version: Version) -> dict[str, object]:
    return {
        "id": version.id,
        "version": version.version,
        "content": version.content,
        "origin": version.origin,
        "written": version.written,
        "created_at": version.created_at,
    }
