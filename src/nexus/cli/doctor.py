"""`nexus doctor`: find what is wrong with the home, and mend it."""

import json

import click

from nexus.cli.checks import examine
from nexus.cli.ledger_checks import Finding
from nexus.cli.place import chosen_home
from nexus.errors import NexusError

_MOST_MENDED = 100
_SIGNS = {
    "ok": click.style("ok     ", fg="green"),
    "off": click.style("off    ", dim=True),
    "warning": click.style("warning", fg="yellow"),
    "error": click.style("error  ", fg="red"),
}


@click.command()
@click.option("--fix", is_flag=True, help="Repair what needs no decision.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also check every page, and that no work is lost, stuck or duplicated. May take minutes.",
)
@click.option(
    "--create-empty",
    is_flag=True,
    help="With --fix: replace a missing or damaged ledger without a known backup by an empty one. "
    "What was in it is lost.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(ctx: click.Context, fix: bool, deep: bool, create_empty: bool, as_json: bool) -> None:
    """Diagnose and repair problems with files, permissions, databases, models and programs.

    A ledger that is missing or damaged is restored from the newest backup that was made of this home here.
    Each finding says what to do. The exit code is 0 if there are no errors (warnings are fine).
    """
    home = chosen_home(ctx)
    findings = list(examine(home, thorough=deep, creates_empty=create_empty))
    mended: list[Finding] = []
    # Behind what was mended, such as a folder that could not be entered, there may be more.
    while fix and len(mended) < _MOST_MENDED and (done := _mend(findings)):
        mended += done
        findings = list(examine(home, thorough=deep, creates_empty=create_empty))
    healthy = all(finding.level != "error" for finding in findings)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "home": str(home.root),
                    "ok": healthy,
                    "fixed": [_told(f) for f in mended],
                    "findings": [_plain(f) for f in findings],
                },
                indent=2,
            )
        )
    else:
        _print(findings, mended)
    ctx.exit(0 if healthy else 1)


def _mend(findings: list[Finding]) -> list[Finding]:
    """Mend what can be; returns what was. What refuses is told, and stays among the findings."""
    mended: list[Finding] = []
    for finding in findings:
        if finding.fix is None or finding.level == "ok":
            continue
        try:
            finding.fix()
        except (NexusError, OSError) as error:
            click.echo(f"nexus: Could not fix: {finding.message}\n  {error}", err=True)
        else:
            mended.append(finding)
    return mended


def _told(mended: Finding) -> str:
    return f"{mended.message}; {mended.fixed}" if mended.fixed else mended.message


def _plain(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "fixable": finding.fix is not None,
    }


def _print(findings: list[Finding], mended: list[Finding]) -> None:
    for finding in mended:
        click.echo(f"{click.style('fixed  ', fg='cyan')}  {finding.check:<12} {_told(finding)}")
    for finding in findings:
        click.echo(f"{_SIGNS[finding.level]}  {finding.check:<12} {finding.message}")
        if finding.remedy:
            click.echo(f"{'':24}{finding.remedy}")
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    if errors or warnings:
        click.echo(f"\n{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}.")
    else:
        click.echo("\nNo problems found.")
