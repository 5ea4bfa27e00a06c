"""`nexus skills`: Agent Skills for the agents of a home, and the memory skill for a workspace."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from nexus.cli.display import print_table
from nexus.cli.place import format_size, json_option, open_home, print_json
from nexus.errors import UsageError
from nexus.skills import folder, memory
from nexus.skills.catalog import Catalog, Entry, Reference
from nexus.skills.folder import NEW
from nexus.skills.memory_socket import OWNER
from nexus.skills.skill import Skill, Tree, is_invisible
from nexus.text import pluralize

_WHY: Final = {
    "changed": "It changed after you enabled it, so it is off.",
    "disabled": "It is off.",
    "enabled": "It is enabled.",
}
_name = click.argument("name")


@click.group()
def skills() -> None:
    """Manage Agent Skills: instructions and scripts that agents load when a task needs them.

    A skill is a folder with a SKILL.md in the open format. It gives no rights: its scripts run in the sandbox
    of the agent that uses it. NAME is a skill of the home, WORKSPACE/NAME one of an automation's workspace.
    """


@skills.command("list")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List skills, whether they are enabled, and what they may do."""
    home, settings = open_home(ctx)
    found = Catalog(home).list_entries()
    if as_json:
        print_json([_describe_entry(each) for each in found])
        return
    if not found:
        click.echo("No skills. Add one with `nexus skills add FOLDER`, or a URL or git repository.")
        return
    rows = [
        (
            reveal(str(each.reference)),
            each.state,
            _describe_abilities(each),
            each.skill.description if each.skill else "",
        )
        for each in found
    ]
    print_table(("skill", "state", "may", "description"), rows)
    # Imported here, because it takes a while.
    from nexus.pipeline import incoming

    owner = incoming.owner(settings.tools, home)
    granted = [f"{each.path}{' (writable)' * each.writable}" for each in owner.directories]
    click.echo(
        "\nSkills add no rights. Your agent's sandbox reaches "
        f"{', '.join(granted) or 'no folders'}, {'and' if owner.network else 'without'} the network."
    )
    for each in found:
        if each.problem:
            click.echo(reveal(f"{each.reference} is broken: {each.problem}"))
        elif each.state == "changed":
            click.echo(f"{each.reference} changed and is off. Review it with `nexus skills enable`.")


@skills.command()
@click.argument("source")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Add all skills found at SOURCE.")
@click.option("--replace", is_flag=True, help="Replace skills of the same name, which disables them.")
@click.pass_context
def add(ctx: click.Context, source: str, names: tuple[str, ...], everything: bool, replace: bool) -> None:
    """Add a skill from a folder, archive, URL or git repository.

    SOURCE is a folder, a .zip or .tar.gz, a URL of one, or a git repository as URL or URL#REF;
    github.com/…/tree/… works, too. The skill is shown in full and stays off until you enable it. If there
    are several, name those that you want.
    """
    from nexus.skills.sources import fetch

    home, _ = open_home(ctx)
    catalog = Catalog(home)
    found = fetch(source, names, everything=everything)
    for each in found:
        entry = catalog.install(each.skill, each.tree, each.source, replace=replace)
        if entry.state == "enabled":
            click.echo(f"{entry.reference} is already added and enabled.")
        else:
            _review(catalog, entry.reference)


@skills.command()
@_name
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show a skill in full: what agents read, and every script."""
    home, _ = open_home(ctx)
    catalog = Catalog(home)
    entry = catalog.get(Reference.parse(name))
    skill, tree = catalog.read(entry.reference)
    if as_json:
        texts = {path: tree[path].text for path in skill.files}
        print_json({**_describe_entry(entry), "contents": texts})
        return
    _print_skill(entry, skill, tree)
    click.echo(f"\n{_WHY[entry.state]}")


@skills.command()
@_name
@click.option("--sha256", metavar="HASH", help="Enable without asking exactly what has this hash.")
@click.pass_context
def enable(ctx: click.Context, name: str, sha256: str | None) -> None:
    """Show a skill in full, and enable it as it is.

    If a file of it changes, it is off until you enable it again.
    """
    home, _ = open_home(ctx)
    catalog, reference = Catalog(home), Reference.parse(name)
    entry = catalog.get(reference)
    if sha256 is not None:
        catalog.enable(reference, sha256)
        click.echo(f"Enabled {reference}.")
    elif entry.state == "enabled":
        click.echo(f"{reference} is enabled already.")
    else:
        _review(catalog, reference)


@skills.command()
@_name
@click.pass_context
def disable(ctx: click.Context, name: str) -> None:
    """Disable a skill. Runs under way can't load it any more."""
    home, _ = open_home(ctx)
    catalog = Catalog(home)
    reference = catalog.get(Reference.parse(name)).reference
    click.echo(f"Disabled {reference}." if catalog.disable(reference) else f"{reference} is not enabled.")


@skills.command()
@_name
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> None:
    """Delete a skill and its files."""
    home, _ = open_home(ctx)
    catalog = Catalog(home)
    entry = catalog.get(Reference.parse(name))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Nothing deleted: no terminal to confirm", hint="Pass --yes to skip the prompt.")
        if not click.confirm(f"Delete {entry.folder}?", default=False):
            click.echo("Nothing changed.")
            return
    catalog.remove(entry.reference)
    click.echo(f"Deleted {entry.reference}.")


@skills.command()
@click.argument("workspace", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def seed(ctx: click.Context, workspace: Path, as_json: bool) -> None:
    """Install or update the memory skills in WORKSPACE.

    Files changed by you or an agent are kept; the new version is written as NAME.new.
    """
    home, _ = open_home(ctx)
    if not workspace.is_dir():
        raise UsageError(f"Folder not found: {workspace}", hint=f"Create it with `mkdir -p {workspace}`.")
    done = [
        memory.install(home, workspace.absolute(), home.run / OWNER),
        *folder.install_pages(workspace.absolute()),
    ]
    if as_json:
        print_json([{**asdict(each), "folder": str(each.folder)} for each in done])
        return
    for each in done:
        changed = len(each.laid) + len(each.replaced)
        click.echo(
            f"{each.folder}: {pluralize(changed, 'file')} installed"
            if changed
            else f"{each.folder} is up to date"
        )
        for name in each.edited:
            click.echo(f"  {name} was edited and kept; see {name}{NEW}")


def _review(catalog: Catalog, reference: Reference) -> None:
    """Show a skill, and enable what was shown if the owner says so."""
    skill, tree = catalog.read(reference)
    _print_skill(catalog.get(reference), skill, tree)
    click.echo()
    if not sys.stdin.isatty():
        click.echo(f"It is off. Enable it as shown: nexus skills enable {reference} --sha256 {skill.sha256}")
    elif click.confirm(f"Enable {reference}?", default=False):
        catalog.enable(reference, skill.sha256)
        click.echo(f"Enabled {reference}.")
    else:
        click.echo(f"It stays off. Enable it later with `nexus skills enable {reference}`.")


def _print_skill(entry: Entry, skill: Skill, tree: Tree) -> None:
    click.secho(str(entry.reference), bold=True)
    told = {
        "folder": str(entry.folder),
        "from": entry.source,
        "sha256": skill.sha256,
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "may": _describe_abilities(entry),
        **{f"metadata {key}": value for key, value in skill.metadata.items()},
    }
    for key, value in told.items():
        if value:
            click.echo(f"  {reveal(key)}: {reveal(value)}")
    for path in skill.files:
        file = tree[path]
        kind = ", program" * file.is_program
        click.secho(f"\n--- {reveal(path)} ({format_size(len(file.content))}{kind})", bold=True)
        text = file.text
        if text is None:
            click.echo(f"[not text; sha256 {file.sha256}]")
        else:
            click.echo("".join(f"  | {line}\n" for line in reveal(text).split("\n")), nl=False)


def _describe_abilities(entry: Entry) -> str:
    """What a skill may do, in a few words."""
    skill = entry.skill
    if skill is None:
        return "nothing: it is broken"
    parts = ["instruct agents"]
    if skill.scripts:
        parts.append(f"have them run {pluralize(len(skill.scripts), 'script')} in their sandbox")
    if skill.allowed_tools:
        parts.append(f"asks for {skill.allowed_tools}, which it doesn't get")
    return "; ".join(parts)


def reveal(text: str) -> str:
    """Spell out every character that a person would not see, such as `<U+202E>`."""
    return "".join(
        f"<U+{ord(each):04X}>" if each not in "\n\t" and is_invisible(each) else each
        for each in text.replace("\r\n", "\n")
    )


def _describe_entry(entry: Entry) -> dict[str, Any]:
    skill = None if entry.skill is None else asdict(entry.skill)
    return {
        "name": str(entry.reference),
        "state": entry.state,
        "folder": str(entry.folder),
        "source": entry.source,
        "problem": entry.problem,
        "skill": skill,
    }
