"""`nexus automations`: register, inspect, test and roll back what runs at hook points."""

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast, get_args

import click
import tomlkit

from nexus import config_file
from nexus.automations import changes, hook_points, registration, registry, workspace
from nexus.automations import improvement as waiting
from nexus.automations.changes import AutomationRequest, Changes
from nexus.automations.condition import assess
from nexus.automations.workspace import History
from nexus.cli.automations_place import (
    Place,
    open_automations,
    print_automation,
    print_invocation,
    print_list,
)
from nexus.cli.place import json_option, print_json, printable
from nexus.errors import AutomationError, ConfigError, NexusError, UsageError
from nexus.home import Home
from nexus.ledgers import quarantine
from nexus.ledgers.runtime import automations as rows
from nexus.ledgers.runtime import invocations
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.text import pluralize

_limit = click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of results."
)
_name = click.argument("name")


@click.group()
def automations() -> None:
    """Register, test and inspect automations."""


@automations.command()
@click.argument("script_or_name", metavar="SCRIPT")
@click.option("--name", help="Name. Default: the file name.")
@click.option("--hook-point", help="Hook point. Default: runAutomations.")
@click.option(
    "--blocking/--async", "blocking", default=None, help="Whether the request waits. Default: blocking."
)
@click.option("--workspace", is_flag=True, default=None, help="Create a workspace for it.")
@click.option("--role", type=click.Path(path_type=Path), help="File to copy to the workspace's ROLE.md.")
@click.option(
    "--peer", "peers", multiple=True, help="Automation whose workspace it may read and write. Repeatable."
)
@click.option(
    "--self-improvement", is_flag=True, default=None, help="Reflect after successful runs and save lessons."
)
@click.option("--timeout", "timeout_ms", type=click.IntRange(1), help="Timeout in milliseconds.")
@click.option(
    "--retries",
    type=click.IntRange(0, registration.MOST_RETRIES),
    help="Retries of a failed async invocation. Default: 0.",
)
@click.option("--priority", type=int, help="Order; lower runs first. Default: 100.")
@click.option("--description", help="Description.")
@click.option("--schedule", "cron", metavar="CRON", help="Cron schedule, such as `0 8 * * *`.")
@click.option("--zone", help="Time zone of the schedule. Default: UTC.")
@click.option("--once", "mode", flag_value="once", help="Run only once.")
@click.option(
    "--trigger",
    "trigger",
    multiple=True,
    metavar="KEY=VALUE",
    help="Condition, such as contains=tea. Repeatable.",
)
@click.option(
    "--config", "config_json", metavar="JSON", help="Settings as a JSON object; other settings are kept."
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME", help="Environment variable it may read. Repeatable."
)
@click.option(
    "--sandbox/--no-sandbox",
    default=None,
    help="Run it in the sandbox: no network, no files except its workspace.",
)
@click.option(
    "--ledgers/--no-ledgers", default=None, help="Let its agents read the ledgers. Needs a workspace."
)
@json_option
@click.pass_context
def register(ctx: click.Context, script_or_name: str, as_json: bool, **options: Any) -> None:
    """Register SCRIPT: a Python file, a program or a HOOK.md folder.

    The home runs its own copy. Registering a changed script creates a new version. Pass the name of an
    automation to register the home's edited copy, or another `--name` to register the same code again with
    other settings.
    """
    name, wanted = options.pop("name"), _read_changes(options)
    with open_automations(ctx) as place:
        registered = changes.register(place.home, place.write, script_or_name, wanted, name=name)
    for each in registered:
        if each.replaced_role:
            old = f"`nexus automations history {each.automation.name}`"
            click.echo(f"Replaced ROLE.md. The old one is in {old}.", err=True)
    if as_json:
        documents = [{**each.automation.to_json(), "new_version": each.is_new} for each in registered]
        print_json(documents if len(documents) > 1 else documents[0])
        return
    for each in registered:
        made = each.automation
        if each.is_new:
            click.echo(f"Registered {made.name}, version {made.version}, at {made.hook_point}.")
        else:
            click.echo(f"{made.name} is unchanged: version {made.version}.")


@automations.command("list")
@click.option("--hook-point", help="Filter by hook point.")
@json_option
@click.pass_context
def list_(ctx: click.Context, hook_point: str | None, as_json: bool) -> None:
    """List automations in execution order."""
    with open_automations(ctx) as place:
        around = place.load_surroundings()
        found = [
            (each, assess(place.home, each, around))
            for each in place.write(rows.list_current)
            if hook_point in {None, each.hook_point}
        ]
        problems, dead = place.problems, place.write(invocations.count_dead)
    if as_json:
        print_json([{**each.to_json(), **state.to_json()} for each, state in found])
        return
    print_list([(each, state.text) for each, state in found])
    if dead:
        click.echo(f"\n{pluralize(dead, 'invocation')} failed. List and retry: `nexus automations retry`.")
    for problem in problems:
        click.echo(f"not loaded: {problem}", err=True)


@automations.command()
@_name
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show settings, state and last error of an automation."""
    with open_automations(ctx) as place:
        found = place.get(name)
        state = assess(place.home, found, place.load_surroundings())
        pending = [lesson.id for lesson in waiting.load_pending(place.home, name)]
    if as_json:
        print_json({**found.to_json(), **state.to_json(), "lessons": pending})
        return
    print_automation(found, state)
    if pending:
        click.echo(f"{'lessons':<20} {len(pending)} waiting for approval: nexus automations lessons {name}")


@automations.command()
@_name
@click.option("--approve", "approved", metavar="LESSON", help="Apply this lesson.")
@click.option("--discard", "discarded", metavar="LESSON", help="Delete this lesson.")
@json_option
@click.pass_context
def lessons(
    ctx: click.Context, name: str, approved: str | None, discarded: str | None, as_json: bool
) -> None:
    """Show a diff of each lesson waiting for approval.

    A lesson waits if its run saw anything the owner didn't write, such as tool results, memories or other
    people's messages.
    """
    if approved and discarded:
        raise UsageError("Pass either --approve or --discard, not both")
    with open_automations(ctx) as place:
        found = place.get(name)
        if approved:
            lesson = waiting.approve(place.home, found, approved)
            click.echo(f"Approved: {name} changed {', '.join(edit.file for edit in lesson.edits)}.")
            return
        if discarded:
            click.echo(f"Discarded {waiting.discard(place.home, name, discarded).id}.")
            return
        pending = [
            (lesson, waiting.diff_lesson(place.home, found, lesson))
            for lesson in waiting.load_pending(place.home, name)
        ]
    if as_json:
        print_json([{**lesson.to_json(), "diff": diff} for lesson, diff in pending])
        return
    for lesson, diff in pending:
        click.echo(f"{lesson.id}  {lesson.at}  {lesson.reason}\n\n{diff or lesson.answer}")
    if pending:
        click.echo(f"Approve with `nexus automations lessons {name} --approve LESSON`.")
    else:
        click.echo(f"No lessons of {name} are waiting for approval.")


@automations.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--settings", is_flag=True, help="Approve the imported settings.")
@click.option("--all", "everything", is_flag=True, help="Approve everything that is waiting.")
@click.option("--trust", is_flag=True, help="Run scripts outside the sandbox, with your rights.")
@json_option
@click.pass_context
def approve(
    ctx: click.Context, names: tuple[str, ...], settings: bool, everything: bool, trust: bool, as_json: bool
) -> None:
    """Approve proposed, imported or restored code. Without a NAME, list it with a diff.

    A script is enabled only if its hash still matches. It runs in the sandbox, without network or your
    files, unless you pass --trust. Remove a proposal to discard it.
    """
    with open_automations(ctx) as place:
        listed = place.write(rows.list_current)
        waiting = {
            each.name: each
            for each in listed
            if changes.is_proposal(each)
            or (each.status == "disabled" and each.disabled_reason == rows.IMPORTED)
        }
        imported = _load_waiting_settings(place.home)
        if not names and not settings and not everything:
            _print_waiting(place, list(waiting.values()), imported, as_json=as_json)
            return
        for name in waiting if everything else names:
            if name not in waiting:
                raise NexusError(
                    f"`{name}` isn't waiting for approval", hint="`nexus automations approve` lists what is."
                )
            row = waiting[name]
            if changes.is_proposal(row):
                row = changes.approve(place.home, place.write, row, trust=trust)
            else:
                registration.approve(place.home, place.write, row, trust=trust)
            click.echo(f"Approved {row.name}: it runs at {row.hook_point}.")
        if imported and (settings or everything):
            _approve_settings(place.home)
            click.echo("Approved the imported settings. Restart Nexus to apply them.")


def _load_waiting_settings(home: Home) -> dict[str, dict[str, Any]]:
    """Load the imported settings that wait for approval, by section."""
    file = quarantine.imported_settings(home)
    if not file.is_file():
        return {}
    return cast("dict[str, dict[str, Any]]", tomllib.loads(file.read_text(encoding="utf-8")))


def _approve_settings(home: Home) -> None:
    """Write the imported settings to config.toml."""
    waiting = _load_waiting_settings(home)
    text = home.config_file.read_text(encoding="utf-8")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    wanted = tomllib.loads(text)
    for section, table in waiting.items():
        for place in (document, wanted):
            place.setdefault(section, {}).update(table)
    approved = tomlkit.dumps(cast("Any", document))
    if tomllib.loads(approved) != wanted:
        file = quarantine.imported_settings(home)
        raise ConfigError("config.toml can't be edited automatically", hint=f"Copy the settings from {file}.")
    config_file.write(home.config_file, approved)
    quarantine.imported_settings(home).unlink(missing_ok=True)


def _print_waiting(
    place: Place, waiting: list[Automation], settings: dict[str, dict[str, Any]], *, as_json: bool
) -> None:
    diffs = {
        each.name: changes.difference(place.home, place.write, each)
        for each in waiting
        if changes.is_proposal(each)
    }
    if as_json:
        listed = [
            each.to_json() | ({"diff": diffs[each.name]} if each.name in diffs else {}) for each in waiting
        ]
        print_json({"automations": listed, "settings": settings})
        return
    for each in waiting:
        click.echo(f"{each.name}  at {each.hook_point}  sha256 {(each.script_hash or '')[:12]}")
        click.echo(f"  {each.script_path}")
        if each.name in diffs:
            click.echo(f"\n{printable(diffs[each.name])}\n")
    for section, table in settings.items():
        for key, value in table.items():
            click.echo(f"[{section}] {key} = {value!r}")
    if waiting or settings:
        click.echo("Approve with `nexus automations approve NAME`, `--settings` or `--all`.")
    else:
        click.echo("Nothing is waiting for approval.")


@automations.command()
@_name
@click.pass_context
def enable(ctx: click.Context, name: str) -> None:
    """Enable an automation and close its circuit breaker."""
    with open_automations(ctx) as place:
        found = place.get(name)
        registration.check_approved(found)
        place.write(rows.enable, automation_id=found.id)
        registry.touch(place.home)
    click.echo(f"Enabled {name}.")


@automations.command()
@_name
@click.option("--reason", help="Reason, shown by `show`.")
@click.pass_context
def disable(ctx: click.Context, name: str, reason: str | None) -> None:
    """Disable an automation."""
    with open_automations(ctx) as place:
        place.write(rows.disable, automation_id=place.get(name).id, reason=reason or "by hand")
        registry.touch(place.home)
    click.echo(f"Disabled {name}.")


@automations.command()
@_name
@click.pass_context
def remove(ctx: click.Context, name: str) -> None:
    """Remove an automation. Its history, script and workspace are kept."""
    with open_automations(ctx) as place:
        place.get(name)
        place.write(rows.remove, name=name)
        registry.touch(place.home)
    click.echo(f"Removed {name}. Undo with `nexus automations rollback {name}`.")


@automations.command()
@_name
@_limit
@click.option("--status", type=click.Choice(get_args(invocations.Status)))
@json_option
@click.pass_context
def logs(ctx: click.Context, name: str, limit: int, status: str | None, as_json: bool) -> None:
    """Show recent invocations with result, duration and output."""
    with open_automations(ctx) as place:
        place.load_versions(name)
        found = place.write(invocations.of_automation, name=name, status=status, limit=limit)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    for each in reversed(found):
        print_invocation(each)
    if not found:
        click.echo(f"{name} has not run yet.")


@automations.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Retry every failed invocation.")
@click.option("--dismiss", is_flag=True, help="Don't retry: delete the input and take it off the list.")
@_limit
@json_option
@click.pass_context
def retry(
    ctx: click.Context, ids: tuple[str, ...], everything: bool, dismiss: bool, limit: int, as_json: bool
) -> None:
    """Retry async invocations that failed every attempt. Without an ID, list them.

    A running Nexus picks them up within 30 seconds; otherwise they run at the next start.
    """
    with open_automations(ctx) as place:
        if not ids and not everything:
            if dismiss:
                raise UsageError("--dismiss needs an ID or --all")
            _print_dead(place.write(invocations.list_dead, limit=limit), as_json=as_json)
            return
        if everything:
            found = place.write(invocations.list_dead, limit=-1)
            ids = tuple(each.id for _, each in reversed(found))
        for id_ in ids:
            change = invocations.dismiss if dismiss else invocations.retry
            if not place.write(change, invocation_id=id_):
                raise AutomationError(
                    f"{id_} is not a failed async invocation",
                    hint="List them with `nexus automations retry`.",
                )
    if as_json:
        print_json(list(ids))
    else:
        click.echo(f"{'Dismissed' if dismiss else 'Retrying'} {pluralize(len(ids), 'invocation')}.")


def _print_dead(found: list[tuple[str, Invocation]], *, as_json: bool) -> None:
    if as_json:
        rows_ = [{"automation": name, **asdict(each)} for name, each in found]
        print_json(rows_)
        return
    for name, each in reversed(found):
        click.echo(name)
        print_invocation(each)
    if found:
        click.echo("Retry with `nexus automations retry ID` or `--all`; add `--dismiss` to give up on them.")
    else:
        click.echo("No failed invocations.")


@automations.command()
@_name
@_limit
@json_option
@click.pass_context
def history(ctx: click.Context, name: str, limit: int, as_json: bool) -> None:
    """Show the versions of an automation and changes to its workspace."""
    with open_automations(ctx) as place:
        versions = place.load_versions(name)[:limit]
        newest = versions[0]
        commits = (
            History(workspace.locate(place.home.meeseeks, newest.workspace_dir)).changes(limit)
            if newest.workspace_dir
            else []
        )
    if as_json:
        document = {
            "versions": [each.to_json() for each in versions],
            "workspace": [{"commit": c.commit, "at": c.at, "message": c.message} for c in commits],
        }
        print_json(document)
        return
    for each in versions:
        hash_ = (each.script_hash or "")[:12]
        click.echo(f"version {each.version:<4} {each.status:<11} {each.created_at}  {hash_}")
    for change in commits:
        click.echo(f"workspace {change.commit}  {change.at}  {change.message}")


@automations.command()
@_name
@click.option("--to", "version", type=click.IntRange(1), help="Version. Default: the previous one.")
@click.option("--workspace", "is_workspace", is_flag=True, help="Undo a change of the workspace instead.")
@click.option("--change", "commit", help="Which one, with --workspace. Default: the latest.")
@click.pass_context
def rollback(
    ctx: click.Context, name: str, version: int | None, is_workspace: bool, commit: str | None
) -> None:
    """Restore an older script and settings as a new version.

    With --workspace, undo a change of the workspace, such as a lesson, and show what was taken back.
    `nexus automations history` lists both.
    """
    if (is_workspace and version is not None) or (commit and not is_workspace):
        raise UsageError("--to is for versions, --workspace and --change are for the workspace")
    with open_automations(ctx) as place:
        if is_workspace:
            found = place.load_versions(name)[0]
            if not found.workspace_dir:
                raise UsageError(f"{name} has no workspace")
            history = History(workspace.locate(place.home.meeseeks, found.workspace_dir))
            undone = history.undo(commit)
            click.echo(history.difference("HEAD"))
            click.echo(f"Undid {undone.commit} of {name}: {undone.message}")
            return
        made = registration.roll_back(place.home, place.write, name, version)
    click.echo(f"Rolled back {name}. It is now version {made.version}.")


@automations.command()
@_name
@click.option("--hook-point", default="runAutomations", show_default=True, help="Hook point.")
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Output folder."
)
def new(name: str, hook_point: str, folder: Path) -> None:
    """Write a starter script NAME.py and a test."""
    point = hook_points.get(hook_point)
    test_name = f"test_{name.replace('-', '_')}.py"
    for file, text in (
        (f"{name}.py", changes.script_text(name, point)),
        (test_name, changes.test_text(name, point)),
    ):
        path = folder / file
        if path.exists():
            raise UsageError(f"{path} exists already", hint="Choose another name.")
        path.write_text(text, encoding="utf-8")
        click.echo(f"Wrote {path}")
    click.echo(f"Next: `nexus automations test {name}.py`, then")
    click.echo(f"  `nexus automations register {name}.py --hook-point {hook_point}`.")


@automations.command()
@_name
@click.option(
    "--role",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="File with its instructions; becomes ROLE.md in its workspace.",
)
@click.option("--hook-point", help="Where it runs. Default: after:runAgent, or schedule with --schedule.")
@click.option(
    "--blocking/--async", "blocking", default=False, show_default=True, help="Whether the request waits."
)
@click.option(
    "--peer", "peers", multiple=True, help="Automation whose workspace it may read and write. Repeatable."
)
@click.option("--description", help="Description.")
@click.option(
    "--result",
    type=click.Choice(get_args(changes.Result)),
    help="Where its answer goes: before the agent (`context`), to people (`reply`), to the memory "
    "(`remember`), or into NOTES.md of its workspace (`file`). Default: `context` where an agent waits, "
    "`reply` on a schedule, `file` elsewhere.",
)
@click.option("--schedule", "cron", metavar="CRON", help="Cron schedule, such as `0 8 * * *`.")
@click.option("--zone", help="Time zone of the schedule. Default: UTC.")
@click.option("--timeout", "timeout_ms", type=click.IntRange(1), help="Timeout in milliseconds.")
@click.option("--self-improvement", is_flag=True, help="Let it reflect after a run, once a day by default.")
@click.option("--ledgers", is_flag=True, help="Let it read the ledgers.")
@json_option
@click.pass_context
def create(ctx: click.Context, name: str, role: Path, as_json: bool, **options: Any) -> None:
    """Create an agent from a role, with script and workspace."""
    usual = hook_points.SCHEDULE if options["cron"] else "after:runAgent"
    options |= {"hook_point": options["hook_point"] or usual, "result": options["result"] or ""}
    wish = AutomationRequest(name=name, role=role.read_text(encoding="utf-8"), **options)
    with open_automations(ctx) as place:
        made = changes.create(place.home, place.write, wish).automation
    if as_json:
        print_json(made.to_json())
        return
    click.echo(f"Created {made.name}. It runs at {made.hook_point}.")
    click.echo(f"Workspace: {made.workspace_dir}")


@automations.command()
@click.argument("script_path", metavar="SCRIPT", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def test(script_path: Path) -> None:
    """Run the tests of SCRIPT, in test_NAME.py next to it."""
    from nexus.cli.automations_trial import run_tests  # its libraries take longer than `--help` may

    run_tests(script_path)


@automations.command()
@_name
@click.option("--request", "request_id", metavar="ID", help="Request. Default: the latest ones.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of requests, without --request.",
)
@click.option(
    "--script",
    "file",
    type=click.Path(path_type=Path, exists=True),
    help="Use this script instead of the registered one.",
)
@json_option
@click.pass_context
def replay(
    ctx: click.Context, name: str, request_id: str | None, limit: int, file: Path | None, as_json: bool
) -> None:
    """Try an automation on recorded requests, without effects.

    Shows what it would return. It runs in a sandbox on a copy of its workspace, and no agent runs.
    """
    from nexus.cli.automations_trial import replay_requests  # its libraries take longer than `--help` may

    replay_requests(ctx, name, request_id, limit, file, as_json=as_json)


@automations.command()
@_name
@click.option("--content", default="", help="Text of the message.")
@json_option
@click.pass_context
def run(ctx: click.Context, name: str, content: str, as_json: bool) -> None:
    """Run an automation now, for real, with your own message."""
    from nexus.cli.automations_trial import run_now  # its libraries take longer than `--help` may

    run_now(ctx, name, content, as_json=as_json)


def _read_changes(options: dict[str, Any]) -> Changes:
    """Read the options of `register`."""
    role, trigger, config_json = (options.pop(key) for key in ("role", "trigger", "config_json"))
    return Changes(
        **options,
        role=None if role is None else role.read_text(encoding="utf-8"),
        triggers=_read_triggers(trigger) if trigger else None,
        config=None if config_json is None else _read_config(config_json),
    )


def _read_triggers(conditions: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in conditions:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"`{each}` is not KEY=VALUE", hint="For example `--trigger contains=tea`.")
        found.setdefault(key, []).append(value)
    return found


def _read_config(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--config is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("--config must be a JSON object")
    return cast("dict[str, Any]", value)
