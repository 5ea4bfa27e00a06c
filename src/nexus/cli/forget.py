"""`nexus forget`: permanently delete an entity, fact, thread, time range or import."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import apsw
import click

from nexus import clock, hosted
from nexus.cli.memory_preview import preview_option, print_preview
from nexus.cli.place import (
    json_option,
    locate_home,
    open_home,
    print_json,
    user_name,
    with_ledgers,
)
from nexus.errors import UsageError
from nexus.ledgers import Ledgers, backup, forgetting
from nexus.ledgers.forgetting import Beside, Folder, Plan, Receipt, Report, Target
from nexus.serving import Serving
from nexus.text import pluralize

_MENTIONS_SHOWN = 12


def _print_step(step: str) -> None:
    """Tell a person at a terminal which step has begun."""
    if sys.stderr.isatty():
        click.echo(f"{step} …", err=True)


def _print_plan(plan: Plan, *, err: bool) -> None:
    """Print what would be deleted, and the names it was found by."""
    if plan.is_empty:
        click.echo(f"Nothing found for {_describe_target(plan.target)}.", err=err)
        return
    click.echo(f"Would delete {_describe_target(plan.target)}:", err=err)
    _print_counts(plan.removed, plan.emptied, plan.files, err=err)
    if plan.first_event:
        last = plan.last_event or plan.first_event
        click.echo(f"Events from {clock.minute(plan.first_event)} to {clock.minute(last)}.", err=err)
    if plan.mentions:
        click.echo("Matches in events and facts, by name:", err=err)
        commonest = sorted(plan.mentions.items(), key=lambda entry: -entry[1])
        for name, count in commonest[:_MENTIONS_SHOWN]:
            click.echo(f"  {count:>9,}  {name}", err=err)
        if len(commonest) > _MENTIONS_SHOWN:
            click.echo(f"  … and {len(commonest) - _MENTIONS_SHOWN} rarer names", err=err)
        click.echo("If a name is a common word, skip it with --without-name.", err=err)
    _print_kept(plan.kept, err=err)


def _print_report(report: Report) -> None:
    """Print what was deleted, how long it took, and what was kept."""
    click.echo(f"Deleted {_describe_target(report.target)}:")
    _print_counts(report.counts.removed, report.counts.emptied, report.counts.files, err=False)
    spent = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in report.seconds.items())
    click.echo(f"It took {sum(report.seconds.values()):.1f} s ({spent}). Recorded as {report.forget_id}.")
    _print_kept(report.kept, err=False)
    if report.named_in:
        click.echo("These files in the home still mention it:")
        for path in report.named_in:
            click.echo(f"  {path}")
    _print_receipt(report)


_PLACES: Final = {
    "rows": "rows",
    "indexes": "indexes",
    "free_pages": "free pages",
    "wal": "WAL",
    "derived": "observations",
    "vectors": "vectors",
    "attachments": "attachments",
    "recordings": "recordings",
    "engine": "engine",
    "files": "other files",
    "copies": "the host's copies",
}
_STATES: Final = {
    "clean": "Clean",
    "kept": "The same words stay in",
    "found": "Not clean",
    "unsearched": "Not searched",
}


def _print_receipt(report: Report) -> None:
    """Print what was found in each place afterwards, and where the receipt is."""
    places = report.receipt.places
    for status, title in _STATES.items():
        names = [name for key, name in _PLACES.items() if key in places and places[key].status == status]
        if names:
            click.echo(f"{title}: {', '.join(names)}.")
    if sources := places["rows"].counts.get("sources_kept"):
        messages = f"{pluralize(sources, 'message')} it was learned from"
        click.echo(f"Kept: {messages}. `nexus forget thread` or `range` deletes messages.")
    for each in report.receipt.backups:
        if each.status != "clean":
            click.echo(f"{_describe_backup(each.created_at, '')} {_BACKUP_STATES[each.status](each.rows)}.")
    click.echo(f"Receipt: {report.file}")
    click.echo("Exports, and backups that Nexus doesn't know of, were not searched.")


_BACKUP_STATES: Final[dict[str, Callable[[int], str]]] = {
    "clean": lambda _: "is clean",
    "found": lambda rows: f"still has it: {pluralize(rows, 'row')}. Restoring it removes them again",
    "missing": lambda _: "is not where it was made, so it was not searched",
    "unreadable": lambda _: "could not be read",
}


def _describe_backup(created_at: str, place: str) -> str:
    """Name a backup by its day, with its place where that helps."""
    day = created_at[:10]
    name = f"The backup of {day}" if day else "A backup"
    return f"{name} ({place})" if place else name


def _document(subject: Plan | Report) -> dict[str, Any]:
    """Turn a plan or a report into JSON's types."""
    target = {"kind": subject.target.kind, "target": subject.target.value}
    if isinstance(subject, Plan):
        return {
            **target,
            "removed": subject.removed,
            "emptied": subject.emptied,
            "files": subject.files,
            "kept": subject.kept,
            "first_event": subject.first_event,
            "last_event": subject.last_event,
        }
    return {
        "id": subject.forget_id,
        **target,
        "removed": subject.counts.removed,
        "emptied": subject.counts.emptied,
        "files": subject.counts.files,
        "kept": subject.kept,
        "seconds": {phase: round(seconds, 3) for phase, seconds in subject.seconds.items()},
        "named_in": [str(path) for path in subject.named_in],
        "receipt": str(subject.file),
        "places": {name: asdict(place) for name, place in subject.receipt.places.items()},
        "backups": [asdict(each) for each in subject.receipt.backups],
    }


def _describe_target(target: Target) -> str:
    if target.range is None:
        return f"{target.kind} {target.value}"
    return f"the time from {target.range[0]} to {target.range[1]}"


def _print_counts(removed: Mapping[str, int], emptied: Mapping[str, int], files: int, *, err: bool) -> None:
    for ledger in dict.fromkeys(path.partition(".")[0] for path in (*removed, *emptied)):
        rows = _list_counts(removed, ledger)
        if rows:
            click.echo(f"  {ledger:<11}{', '.join(rows)}", err=err)
        texts = _list_counts(emptied, ledger)
        if texts:
            click.echo(f"  {ledger if not rows else '':<11}emptied: {', '.join(texts)}", err=err)
    if files:
        click.echo(f"  {'files':<11}attachments {files:,}", err=err)


def _list_counts(counts: Mapping[str, int], ledger: str) -> list[str]:
    """List the counts of one ledger, whose keys are `ledger.table`."""
    start = f"{ledger}."
    return [f"{path[len(start) :]} {count:,}" for path, count in counts.items() if path.startswith(start)]


def _print_kept(kept: Mapping[str, int], *, err: bool) -> None:
    """Print what was kept: others of the same name, and settings that use it."""
    if kept:
        places = ", ".join(f"{count:,} {path}" for path, count in kept.items())
        click.echo(f"Kept, though they match too: {places}.", err=err)


Resolve = Callable[[apsw.Connection], Target]


def _forget_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every kind of forgetting has."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        preview_option,
        click.option("--dry-run", is_flag=True, help="Show what would be deleted, without deleting it."),
        click.option("--yes", "-y", is_flag=True, help="Skip the confirmation."),
    ):
        command = option(command)
    return command


@click.group()
def forget() -> None:
    """Permanently delete an entity, fact, thread, time range or import, and everything learned from it.

    Shows a preview and asks first. Data is removed from all databases, indexes and file contents. Usage and a
    record with counts stay.
    """


@forget.command()
@click.argument("id_or_name")
@click.option("--keep-mentions", is_flag=True, help="Keep other people's texts that only mention it.")
@click.option(
    "--without-name",
    multiple=True,
    metavar="NAME",
    help="Skip this name (a common word) when searching texts. Repeatable.",
)
@_forget_options
@click.pass_context
def entity(
    ctx: click.Context, id_or_name: str, keep_mentions: bool, without_name: tuple[str, ...], **choices: bool
) -> None:
    """Delete an entity under all its names.

    Removes what it said, what was said to it alone, facts about it, and every text that mentions it unless
    you keep those.
    """
    erase(
        ctx,
        lambda connection: forgetting.entity(
            connection, id_or_name, mentions=not keep_mentions, without=without_name
        ),
        **choices,
    )


@forget.command(short_help="Delete a fact and what was concluded from it.")
@click.argument("fact_id", metavar="ID")
@_forget_options
@click.pass_context
def fact(ctx: click.Context, fact_id: str, **choices: bool) -> None:
    """Delete a fact and what was concluded from it.

    The message it came from stays. To keep the fact but stop using it, run `nexus memory review --reject ID`.
    """
    erase(ctx, lambda connection: forgetting.fact(connection, fact_id), **choices)


@forget.command(short_help="Delete a thread and what was learned from it.")
@click.argument("thread_id", metavar="ID")
@_forget_options
@click.pass_context
def thread(ctx: click.Context, thread_id: str, **choices: bool) -> None:
    """Delete a thread: its events, its sessions, and what was learned from it."""
    erase(ctx, lambda connection: forgetting.thread(connection, thread_id), **choices)


@forget.command(name="range", short_help="Delete a time range and what was learned in it.")
@click.argument("start")
@click.argument("end")
@_forget_options
@click.pass_context
def range_(ctx: click.Context, start: str, end: str, **choices: bool) -> None:
    """Delete what was said from START until just before END, and what was learned from it.

    Times look like 2026-02-13 (midnight UTC) or 2026-02-13T10:00:00+01:00.
    """
    target = forgetting.time_range(start, end)
    erase(ctx, lambda _: target, **choices)


@forget.command(
    name="import", short_help="Undo an import: forget what it brought, and what was learned from it."
)
@click.argument("import_id", metavar="ID")
@_forget_options
@click.pass_context
def import_(ctx: click.Context, import_id: str, **choices: bool) -> None:
    """Undo an import: forget the messages that it recorded, and what was learned from them.

    `nexus import --list` shows the ids. The export itself isn't touched; you can import it again.
    """
    erase(ctx, lambda connection: forgetting.import_(connection, import_id), **choices)


@forget.command(short_help="Check a receipt, and look for what it names.")
@click.argument("receipt", metavar="RECEIPT")
@click.option(
    "--on",
    "place",
    type=click.Path(path_type=Path),
    metavar="PLACE",
    help="Look in this backup, home or export instead.",
)
@click.option("--public-key", metavar="KEY", help="Only check that the holder of this key signed it.")
@click.option(
    "--identity",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The private key of an encrypted backup.",
)
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    receipt: str,
    place: Path | None,
    public_key: str | None,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Check a receipt's signature, and whether what it names is back.

    RECEIPT is a file, or the id of a receipt of this home. Looks in the home and in its known backups, or in
    the PLACE. Exits with 1 if any of it is there. With --public-key no home is needed.
    """
    home = locate_home(ctx)
    path = Path(receipt)
    if not path.exists() and receipt.startswith("fgt_"):
        path = Folder.of(home).file(receipt)
    if public_key is not None:
        found = Receipt.read(path)
        if found.public_key != public_key:
            raise UsageError(
                f"The receipt was signed with another key: {found.public_key}",
                hint="Ask the home's owner for the key: `nexus forget key` prints it.",
            )
        if as_json:
            print_json({"id": found.id, "signature": "valid", "public_key": public_key})
        else:
            click.echo(f"{_describe_receipt(found)}: the signature is valid.")
        return
    if place is not None and identity is not None:
        with backup.open_backup(place, home, identity) as readable:
            checks = forgetting.verify(home.require(), path, place=readable)
    else:
        checks = forgetting.verify(home.require(), path, place=place)
    if as_json:
        print_json(
            {
                "id": checks.receipt.id,
                "signature": "valid" if checks.receipt.signature else None,
                "clean": checks.is_clean,
                "places": [each.to_json() for each in checks.places],
            }
        )
    else:
        how = "the signature is valid" if checks.receipt.signature else "this home wrote it"
        click.echo(f"{_describe_receipt(checks.receipt)}: {how}.")
        for each in checks.places:
            _print_check(each)
    if not checks.is_clean:
        ctx.exit(1)


def _describe_receipt(receipt: Receipt) -> str:
    rows = pluralize(sum(receipt.removed.values()), "row")
    return f"Receipt {receipt.id} of {receipt.completed_at}, {rows}"


def _print_check(check: forgetting.Check) -> None:
    if check.kind == "home":
        name = "This home"
    elif check.kind == "backup":
        name = _describe_backup(check.created_at, str(check.path))
    else:
        name = str(check.path)
    if check.problem:
        click.echo(f"{name} could not be searched: {check.problem}")
        return
    if check.found.is_clean:
        click.echo(f"{name} is clean.")
        return
    parts: list[str] = []
    if check.found.rows:
        rows = ", ".join(f"{count:,} {path}" for path, count in check.found.rows.items())
        parts.append(f"{pluralize(sum(check.found.rows.values()), 'row')} ({rows})")
    if check.found.ids:
        ids = ", ".join(f"{count:,} in {path}" for path, count in check.found.ids.items())
        parts.append(f"ids of rows outside of any row ({ids})")
    click.echo(f"{name} still has it: {'; '.join(parts)}.")


@forget.command(short_help="Print the public key of this home's receipts.")
@click.pass_context
def key(ctx: click.Context) -> None:
    """Print the public key that this home's receipts are signed with.

    Give it to whoever shall check a receipt: `nexus forget verify --public-key KEY RECEIPT`.
    """
    click.echo(forgetting.public_key(locate_home(ctx).require()))


@forget.command()
@json_option
@click.pass_context
def resume(ctx: click.Context, as_json: bool) -> None:
    """Finish an interrupted deletion."""
    beside = _engine_data(ctx)
    with _hold_copied_home(ctx):
        reports = with_ledgers(ctx, forgetting.resume, tell=_print_step, beside=beside)
    if as_json:
        print_json([_document(report) for report in reports])
        return
    if not reports:
        click.echo("Nothing to resume.")
    for report in reports:
        _print_report(report)


def erase(
    ctx: click.Context,
    resolve: Resolve,
    *,
    yes: bool,
    dry_run: bool,
    preview: bool = False,
    as_json: bool,
) -> None:
    """Delete what a target resolves to, after showing it, and say what remains elsewhere."""
    if preview:
        from nexus.evaluation import preview as previews

        print_preview(ctx, previews.forget(resolve), as_json=as_json)
        return
    target = with_ledgers(ctx, forgetting.find, resolve)
    if dry_run or not yes:
        plan = with_ledgers(ctx, forgetting.preview, target)
        if dry_run and as_json:
            print_json(_document(plan))
            return
        _print_plan(plan, err=as_json)
        if dry_run or plan.is_empty:
            return
        if not sys.stdin.isatty():
            raise UsageError("Nothing deleted: no terminal to confirm", hint="Pass --yes to skip the prompt.")
        click.confirm("Delete permanently?", abort=True)
    beside = _engine_data(ctx)
    with _hold_copied_home(ctx):
        report = with_ledgers(ctx, _carry_out, target, beside)
    if as_json:
        print_json(None if report is None else _document(report))
    elif report is None:
        click.echo("Nothing to delete.")
    else:
        _print_report(report)
    _print_remaining(ctx, err=as_json)


def _print_remaining(ctx: click.Context, *, err: bool) -> None:
    """Say which events of calendars were forgotten here and are on their servers still."""
    home, config = open_home(ctx)
    if not config.calendar:
        return
    from nexus.memory.operations import Memory
    from nexus.roles.calendar.calendars import Calendars

    async def list_remaining(ledgers: Ledgers) -> list[str]:
        return await Calendars(home, config, ledgers, Memory(ledgers)).list_remaining()

    for line in with_ledgers(ctx, list_remaining):
        click.echo(line, err=err)


async def _carry_out(ledgers: Ledgers, target: Target, beside: Beside) -> forgetting.Report | None:
    for report in await forgetting.resume(ledgers, tell=_print_step, beside=beside):
        click.echo(f"Finished {report.forget_id}.", err=True)
    return await forgetting.forget(ledgers, target, actor=user_name(), tell=_print_step, beside=beside)


def _hold_copied_home(ctx: click.Context) -> AbstractContextManager[object]:
    """Keep the host from opening a home that it copies: copied WALs must not be emptied meanwhile."""
    home, _ = open_home(ctx)
    return Serving(home) if hosted.has_copies(home) else nullcontext()


def _engine_data(ctx: click.Context) -> Beside:
    """Return what forgets in the engine's database, if there is one."""
    home, settings = open_home(ctx)
    if not settings.engine.database and not home.engine_file.is_file():
        return forgetting.Nothing()
    from nexus.engine.forgetting import Forgetting
    from nexus.engine.settings import Settings

    return Forgetting(Settings.of_home(home, settings.engine))
