"""What `nexus forget` prints: the plan before, the report after. Neither holds content."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from nexus.ledgers.forgetting import Plan, Report, Target

_MENTIONS_SHOWN = 12


def progress(step: str) -> None:
    """One line for each step, for people who wait."""
    if sys.stderr.isatty():
        click.echo(f"{step} …", err=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def show_plan(plan: Plan, *, err: bool) -> None:
    """What would go, and by which names it was found."""
    if plan.is_empty:
        click.echo(f"Nothing belongs to {_described(plan.target)}.", err=err)
        return
    click.echo(f"With {_described(plan.target)} would go:", err=err)
    _show_counts(plan.removed, plan.emptied, plan.files, err=err)
    if plan.first_event:
        click.echo(f"Events from {plan.first_event} to {plan.last_event}.", err=err)
    if plan.mentions:
        click.echo("Events and facts found by each of its names:", err=err)
        commonest = sorted(plan.mentions.items(), key=lambda entry: -entry[1])
        for name, count in commonest[:_MENTIONS_SHOWN]:
            click.echo(f"  {count:>9,}  {name}", err=err)
        if len(commonest) > _MENTIONS_SHOWN:
            click.echo(f"  … and {len(commonest) - _MENTIONS_SHOWN} rarer names", err=err)
        click.echo("A name that is a common word finds too much: leave it out with --without-name.", err=err)
    _show_kept(plan.kept, err=err)


def show(report: Report) -> None:
    """What went, how long it took, and what could not be reached."""
    click.echo(f"Forgot {_described(report.target)}:")
    _show_counts(report.counts.removed, report.counts.emptied, report.counts.files, err=False)
    spent = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in report.seconds.items())
    click.echo(f"It took {sum(report.seconds.values()):.1f} s ({spent}). Recorded as {report.forget_id}.")
    _show_kept(report.kept, err=False)
    if report.named_in:
        click.echo("These files of the home still name it:")
        for path in report.named_in:
            click.echo(f"  {path}")
    if not report.target.names.all:
        click.echo("Files under state/ and logs/ were not searched: there is no name to look for.")
    click.echo("Not reached: backups and exports that were made before.")


def record(subject: Plan | Report) -> dict[str, Any]:
    """A plan or a report for a program to read."""
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
    }


def _described(target: Target) -> str:
    if target.range is None:
        return f"{target.kind} {target.value}"
    return f"the time from {target.range[0]} to {target.range[1]}"


def _show_counts(removed: Mapping[str, int], emptied: Mapping[str, int], files: int, *, err: bool) -> None:
    for ledger in dict.fromkeys(path.partition(".")[0] for path in (*removed, *emptied)):
        rows = [f"{count:,} {path.partition('.')[2]}" for path, count in removed.items() if _in(ledger, path)]
        if rows:
            click.echo(f"  {ledger:<11}{', '.join(rows)}", err=err)
        texts = [
            f"{count:,} {path.partition('.')[2]}" for path, count in emptied.items() if _in(ledger, path)
        ]
        if texts:
            click.echo(f"  {ledger if not rows else '':<11}emptied: {', '.join(texts)}", err=err)
    if files:
        click.echo(f"  {'files':<11}{files:,} attachments", err=err)


def _in(ledger: str, path: str) -> bool:
    return path.partition(".")[0] == ledger


def _show_kept(kept: Mapping[str, int], *, err: bool) -> None:
    """Others that bear the name, and settings that use it, are not its own."""
    if kept:
        places = ", ".join(f"{count:,} {path}" for path, count in kept.items())
        click.echo(f"Kept, though named so too: {places}.", err=err)
