"""The automations of a home, opened for a command, and how they are printed."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import apsw
import click

from nexus.automations import registration
from nexus.automations.condition import Condition, Surroundings, find_used_up
from nexus.automations.loading import load
from nexus.automations.scripts.script import SANDBOX
from nexus.cli.place import open_home, tell_if_stopped
from nexus.config import Config
from nexus.home import Home, HomeLock
from nexus.ledgers.connection import connect
from nexus.ledgers.database import Work
from nexus.ledgers.failures import translate_errors
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.roles.bundled import bundled_plugins

_SHOWN_CHARACTERS = 160
P = ParamSpec("P")
T = TypeVar("T")


def print_list(found: list[tuple[Automation, str]]) -> None:
    """Print one line for each automation with its state."""
    if not found:
        click.echo("No automations. Create one with `nexus automations new NAME`.")
        return
    rows = [("NAME", "HOOK POINT", "MODE", "VERSION", "RUNS", "STATE")]
    rows += [
        (
            each.name,
            each.hook_point,
            "blocking" if each.blocking else "async",
            str(each.version),
            str(each.trigger_count),
            f"{state}, sandboxed" if each.config.get(SANDBOX) else state,
        )
        for each, state in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        click.echo("  ".join([*cells, row[5]]).rstrip())


def print_automation(automation: Automation, state: Condition) -> None:
    """Print every setting of an automation, and its state."""
    rows = {**automation.to_json(), "status": state.text, "remedy": state.remedy}
    for name, value in rows.items():
        if value not in (None, {}, [], (), ""):
            text = json.dumps(value) if isinstance(value, dict | list | tuple) else str(value)
            click.echo(f"{name:<20} {text}")


def print_invocation(invocation: Invocation) -> None:
    """Print the result of an invocation, and what it printed itself."""
    took = "" if invocation.duration_ms is None else f"  {invocation.duration_ms:.0f} ms"
    about = f"{invocation.id}  version {invocation.automation_version}  {invocation.request_id or ''}"
    click.echo(f"{invocation.created_at}  {invocation.status:<8}{took}  {about}")
    if invocation.result is not None:
        click.echo(f"    returned {_shorten(json.dumps(invocation.result, ensure_ascii=False))}")
    if invocation.error:
        label = "flagged" if invocation.status == "flagged" else "error"
        click.echo(f"    {label}: {_shorten(invocation.error)}")
    if invocation.retry_at is not None:
        attempts = f"attempt {invocation.attempts + 1} of {invocation.attempts + invocation.retries_left + 1}"
        click.echo(f"    {attempts} at {invocation.retry_at}")
    for line in (invocation.output or "").splitlines():
        click.echo(f"    | {line}")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


@dataclass(kw_only=True)
class Place:
    """A home, and its runtime ledger."""

    home: Home
    config: Config
    connection: apsw.Connection
    problems: list[str] = field(default_factory=list[str])
    off: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why code doesn't run here, by its script path."""

    def write(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query in a transaction."""
        with translate_errors("runtime", self.home.ledger("runtime")):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self.connection, *args, **kwargs)
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
            return result

    def load_surroundings(self) -> Surroundings:
        """Load what the state of every automation depends on."""
        spent = self.write(find_used_up, limits=self.config.budgets)
        return Surroundings(off=self.off, settings=self.config.automations, used_up=spent)

    def get(self, name: str) -> Automation:
        """Load the automation of that name; raise an error that lists how to find it if there is none."""
        row = self.write(automations.get, name=name)
        if row is None:
            raise registration.unknown_automation(name)
        return row

    def load_versions(self, name: str) -> list[Automation]:
        """Load every version of an automation, newest first; raise an error if there is none."""
        found = self.write(automations.versions, name=name)
        if not found:
            raise registration.unknown_automation(name)
        return found


@contextmanager
def open_automations(ctx: click.Context) -> Generator[Place]:
    """Open the automations of the chosen home, after loading those in its folders and installed plugins."""
    home, config = open_home(ctx)
    with tell_if_stopped(home), HomeLock(home, "shared"):
        connection = connect(
            home.ledger("runtime"), "runtime", config.ledgers, writes=True, checkpoints=not home.is_copied
        )
        try:
            place = Place(home=home, config=config, connection=connection)
            loaded = load(home, place.write, bundled_plugins(config=config))
            place.problems, place.off = loaded.problems, loaded.off
            yield place
        finally:
            connection.close()
