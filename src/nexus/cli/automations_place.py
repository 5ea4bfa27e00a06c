"""The automations of a home, open for a command."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import apsw
import click

from nexus.automations import registration
from nexus.automations.condition import Surroundings, used_up
from nexus.automations.loading import load
from nexus.cli.place import opened_home
from nexus.config import Config
from nexus.home import Home, HomeLock
from nexus.ledgers.connection import connect
from nexus.ledgers.database import Work
from nexus.ledgers.failures import translated
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation
from nexus.roles.bundled import bundled

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(kw_only=True)
class Place:
    """A home, and its runtime ledger."""

    home: Home
    config: Config
    connection: apsw.Connection
    problems: list[str] = field(default_factory=list[str])
    off: Mapping[str, str] = field(default_factory=dict[str, str])
    """Code that would not run here, by its script path, and why."""

    def write(self, work: Work[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query in its own transaction."""
        with translated("runtime", self.home.ledger("runtime")):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(self.connection, *args, **kwargs)
            except BaseException:
                self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
            return result

    def surroundings(self) -> Surroundings:
        """What decides how every automation here fares."""
        spent = self.write(used_up, limits=self.config.budgets)
        return Surroundings(off=self.off, settings=self.config.automations, used_up=spent)

    def row(self, name: str) -> Automation | None:
        return self.write(automations.get, name=name)

    def found(self, name: str) -> Automation:
        """The automation of that name, or an error that says where to look."""
        row = self.row(name)
        if row is None:
            raise registration.unknown(name)
        return row

    def versions(self, name: str) -> list[Automation]:
        found = self.write(automations.versions, name=name)
        if not found:
            raise registration.unknown(name)
        return found


@contextmanager
def opened(ctx: click.Context) -> Generator[Place]:
    """The automations of the chosen home, with what lies there and is installed loaded into the table."""
    home, config = opened_home(ctx)
    with HomeLock(home, "shared"):
        connection = connect(home.ledger("runtime"), "runtime", config.ledgers, writes=True)
        try:
            place = Place(home=home, config=config, connection=connection)
            loaded = load(home, place.write, bundled(config=config))
            place.problems, place.off = loaded.problems, loaded.off
            yield place
        finally:
            connection.close()
