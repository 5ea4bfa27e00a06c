"""What an engine is told at its start: its database, its lanes, who works on it."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from nexus import hosted, secrets
from nexus.config import EngineConfig
from nexus.errors import ConfigError
from nexus.home import Home

SEPARATOR: Final = "/"
"""Stands between a home's id and what is the home's own, in a database that many homes share."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A queue of its own. Order and exclusion hold within a lane; priority counts only between lanes."""

    name: str
    limit: int
    """The most executions of this lane that one process runs at a time."""
    priority: int = 100
    """The lane with the lower number is served first."""


DEFAULT_LANES = (
    Lane(name="chat", limit=200, priority=0),
    # Apart, so that messages of channels that wait for their turn don't take the places of chats.
    Lane(name="channels", limit=100, priority=25),
    Lane(name="workers", limit=16, priority=50),
    # Apart, because workers that wait for workers of their own keep their places.
    Lane(name="subworkers", limit=8, priority=60),
    # Apart, because runs that wait for a reflection keep their places.
    Lane(name="reflections", limit=8, priority=65),
    # Apart from the background, where the runs are that automations wait for.
    Lane(name="automations", limit=16, priority=75),
    Lane(name="background", limit=16, priority=100),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything an engine needs to know. One process has one engine."""

    database: Path | str
    """The path of an SQLite file, or the url of a Postgres database (`postgresql://…`)."""
    home: Home | None = None
    """Postgres only: whose work it is. A database that does another home's work is refused."""
    lanes: tuple[Lane, ...] = DEFAULT_LANES
    host_limit: int = 256
    """The most executions that one process runs at a time, over all lanes."""
    lease_ms: int = 10_000
    """Postgres only: how long a process that is frozen in a transaction keeps what that has locked."""
    poll_ms: int = 10_000
    """How long a wake-up that was missed can go unnoticed."""
    stop_grace_ms: int = 5_000
    """How long running work may take to finish when the engine stops."""
    version: str = "1"
    """Raise it when recorded steps of waiting work no longer fit the code."""
    synchronous: Literal["full", "normal"] = "full"
    """SQLite only. `full`: what was acknowledged survives a power cut. `normal`: it survives a crash."""
    retention_days: int = 30
    """How long finished work stays visible. Dead letters stay until a person deals with them."""
    scope: str = ""
    """The home whose part of a shared database this is; empty: the database is one home's."""
    scope_limit: int = 0
    """Many homes share the database: the most executions of one home at a time in each lane. 0: one home."""

    def __post_init__(self) -> None:
        if isinstance(self.database, str) and "://" in self.database and not self.is_postgres:
            raise ConfigError(
                f"`{self.database.partition(':')[0]}` is not a supported database",
                hint="Set [engine] database in config.toml to `postgresql://…`, or leave it empty.",
            )
        names = [lane.name for lane in self.lanes]
        if len(set(names)) != len(names) or not names:
            raise ConfigError("Engine lanes need distinct names", hint="Rename one of them.")
        for lane in self.lanes:
            below = sum(other.limit for other in self.lanes if other.priority > lane.priority)
            if below >= self.host_limit:
                raise ConfigError(
                    f"The lanes behind `{lane.name}` may take all {self.host_limit} places and starve it",
                    hint="Lower their limits, or raise the engine's host limit.",
                )

    def lane(self, name: str) -> Lane:
        """The lane of that name, or an error that lists those there are."""
        for lane in self.lanes:
            if lane.name == name:
                return lane
        known = ", ".join(lane.name for lane in self.lanes)
        raise ConfigError(f"Unknown lane `{name}`", hint=f"Lanes: {known}.")

    @classmethod
    def of_home(cls, home: Home, config: EngineConfig) -> Self:
        """The settings of one home's engine; of a hosted home, its part of the host's."""
        place = hosted.place(home)
        return cls(
            database=place.engine if place else secrets.address(config.database).url or home.engine_file,
            home=home if place is None else None,
            scope="" if place is None else place.id,
            host_limit=config.host_limit,
            lease_ms=config.lease_ms,
            synchronous=config.synchronous,
            retention_days=config.retention_days,
        )

    @property
    def prefix(self) -> str:
        """What the ids, keys and names of this home begin with in the database."""
        return f"{self.scope}{SEPARATOR}" if self.scope else ""

    @property
    def owner_file(self) -> Path:
        """The file whose lock the process holds that works on the database."""
        if self.file is not None:
            return Path(f"{self.file}.owner")
        if self.home is not None:
            return self.home.run / "engine.owner"  # The database belongs to one home, however its URL reads.
        return (
            Path(tempfile.gettempdir())
            / f"engine-{hashlib.sha256(str(self.database).encode()).hexdigest()[:16]}.owner"
        )

    @property
    def is_postgres(self) -> bool:
        return isinstance(self.database, str) and self.database.startswith(("postgres://", "postgresql"))

    @property
    def file(self) -> Path | None:
        """The SQLite file; None: the database is a Postgres."""
        return None if self.is_postgres else Path(self.database)

    @property
    def exists(self) -> bool:
        """Whether there may be something in the database: an SQLite file is made when it is first opened."""
        return self.file is None or self.file.is_file()
