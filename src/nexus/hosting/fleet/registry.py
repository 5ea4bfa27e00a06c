"""The homes of a fleet in its Postgres: the same table that one host has in a file, and who owns what.

All times are Postgres's: hosts need not agree about the time. Every method waits for the network: call it on
a thread.
"""

import json
import math
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import sqlalchemy as sa
from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from nexus import __version__, clock, ids
from nexus.errors import HomeError, UsageError
from nexus.home import LEDGERS
from nexus.hosting.fleet.records import (
    FleetHost,
    FleetUnreachableError,
    Holding,
    HomeElsewhereError,
    Load,
    Owner,
    Successor,
)
from nexus.hosting.limits import Limits
from nexus.hosting.registry import (
    Grant,
    HostedHome,
    Registry,
    TokenScope,
    check_name,
    derive_key,
    digest_token,
    make_secret,
    name_taken_error,
)
from nexus.ledgers import migrate, sql

_HERE: Final = Path(__file__).parent
_VERSION: Final = 1
_SCHEMA: Final = "nexus_fleet"
_LOCK: Final = 0x6E657875735F666C  # of nobody else: the first bytes of "nexus_fleet"
_CONNECTIONS: Final = 4
_MORE_CONNECTIONS: Final = 12
_WAIT_S: Final = 5
# What most requests ask for: a change made on another host is seen after that.
_REMEMBERED_S: Final = 1.0
_REMEMBERED: Final = 4_096


class FleetRegistry(Registry):
    """The table of a fleet's homes, as one host or a command sees it."""

    is_shared = True

    def __init__(self, root: Path, url: str, name: str = "") -> None:
        self.root = root
        self.name = name
        self.incarnation = ""
        self._url = url
        self._engine: sa.Engine | None = None
        self._known = _Cache()
        self._secret = ""

    def __enter__(self) -> Self:
        self._engine = connect(self._url)
        try:
            with self._transaction() as connection:
                # Hosts that start together would make the same tables.
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"))
                connection.exec_driver_sql((_HERE / "schema.sql").read_text(encoding="utf-8"))
                _rows(connection, "found", version=_VERSION, secret=make_secret())
                self._secret = _rows(connection, "secret")[0][0]
        except BaseException:
            self._engine.dispose()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # As the registry of one host.

    def add(self, name: str, settings: str | None = None) -> HostedHome:
        check_name(name)
        if not self._run("add", id=ids.new("hom"), name=name, settings=settings):
            raise name_taken_error(name)
        self._known.clear()
        return self.get_named(name)

    def remove(self, id_: str) -> None:
        self._run("remove", id=id_)
        self._known.clear()

    def get(self, id_: str) -> HostedHome | None:
        return next(map(_read_home, self._run("by_id", id=id_)), None)

    def find(self, name: str) -> HostedHome | None:
        found = self._known.get(
            ("home", name), lambda: [_read_home(row) for row in self._run("by_name", name=name)]
        )
        return next(iter(found), None)

    def list_homes(self, after: str = "", limit: int = 100) -> list[HostedHome]:
        return [_read_home(row) for row in self._run("listed", after=after, limit=limit)]

    def count(self) -> int:
        return int(self._run("count")[0][0])

    def find_left_open(self) -> list[str]:
        return [row[0] for row in self._run("left_open", me=self.name)]

    def load_concurrency(self) -> dict[str, int]:
        return {row[0]: Limits.of_json(row[1]).concurrency for row in self._run("limited")}

    def set_limits(self, id_: str, limits: Limits) -> None:
        self._run("set_limits", id=id_, limits=limits.to_json())
        self._known.clear()

    def note_opening(self, id_: str) -> None:
        self._run("opened", id=id_, me=self.name)

    def note_opened(self, id_: str, *, keeps_open: bool) -> None:
        self._run("settled", id=id_, keeps_open=keeps_open, me=self.name)

    def note_closed(self, id_: str, next_wake: datetime | None = None, *, is_copied: bool = False) -> None:
        self._run("closed", id=id_, me=self.name, next_wake=next_wake, is_copied=is_copied)

    def find_cold(self, hours: float, limit: int) -> list[HostedHome]:
        return [_read_home(row) for row in self._run("cold", me=self.name, seconds=hours * 3600, limit=limit)]

    def note_evicted(self, id_: str) -> bool:
        return bool(self._run("evicted", id=id_, me=self.name))

    def note_failure(self, id_: str, problem: str) -> None:
        self._run("failed", id=id_, problem=problem, me=self.name)

    def new_token(self, home_id: str | None, scope: TokenScope, *, rotate: bool = False) -> str:
        token = make_secret()
        with self._transaction() as connection:
            if rotate:
                _rows(connection, "revoke", home=home_id)
            _rows(connection, "add_token", digest=digest_token(token), home=home_id, scope=scope)
        self._known.clear()
        return token

    def grant(self, token: str) -> Grant | None:
        key = ("token", digest_token(token))
        found = self._known.get(
            key, lambda: [Grant(home_id=row[0], scope=row[1]) for row in self._run("token", digest=key[1])]
        )
        return next(iter(found), None)

    def key(self, home_id: str) -> str:
        return derive_key(self._secret, home_id)

    # Hosts.

    def authorization(self, name: str) -> str:
        """What hosts of the fleet show to the one of that name, and what opens no other."""
        return f"Bearer {derive_key(self._secret, name, of='requests to')}"

    def host_key(self, name: str) -> str:
        """What names a host of this fleet in requests that others pass on to it."""
        return derive_key(self._secret, name, of="host")

    def hosts(self) -> list[FleetHost]:
        return [
            FleetHost(
                name=row[0],
                url=row[1],
                version=row[2],
                schema=row[3],
                started_at=_format_time(row[4]),
                lease_until=_format_time(row[5]),
                is_alive=row[6],
                is_draining=row[7],
                load=Load.of(row[8]),
                homes=row[9],
            )
            for row in self._run("hosts")
        ]

    def host_named(self, name: str) -> FleetHost:
        found = next((each for each in self.hosts() if each.name == name), None)
        if found is None:
            raise HomeError(f"No host named {name}", hint="See `nexus host hosts`.")
        return found

    def set_draining(self, host: str, is_draining: bool = True) -> None:
        if not self._run("set_draining", host=host, is_draining=is_draining):
            raise HomeError(f"No host named {host}", hint="See `nexus host hosts`.")

    def join(self, *, url: str, folder_id: str, lease_s: float) -> bool:
        """Take a lease under our name. False: another process has one, in another folder."""
        incarnation = secrets.token_hex(8)
        values = {"url": url, "version": __version__, "schema": known_schema(), "folder_id": folder_id}
        joined = self._run("join", me=self.name, incarnation=incarnation, lease_s=lease_s, **values)
        if joined:
            self.incarnation = incarnation
        return bool(joined)

    def renew(self, lease_s: float, load: Load) -> bool:
        """Go on with our lease. False: it has ended, and nothing that we had is ours."""
        values = {"me": self.name, "incarnation": self.incarnation}
        return bool(self._run("renew", lease_s=lease_s, load=json.dumps(asdict(load)), **values))

    def leave(self) -> None:
        """End our lease: our homes are closed."""
        self._run("leave", me=self.name, incarnation=self.incarnation)

    # Owners.

    def owner_of(self, home_id: str) -> Owner | None:
        """Who owns a home; None: it was never used, or there is no such home."""
        for host, url, is_alive in self._run("owner", id=home_id):
            return Owner(host=host, url=url, is_alive=is_alive)
        return None

    def placements(self, host: str, after: str = "", limit: int = 100) -> list[HostedHome]:
        """The homes on a host, by name."""
        return [_read_home(row) for row in self._run("placements", host=host, after=after, limit=limit)]

    def acquire(self, home_id: str, local_epoch: int | None) -> Holding | None:
        """Own a home from now on, unless a host that is alive does. None: there is no such home.

        Its epoch rises, unless it was ours and the folder here is of its epoch, or this process failed to
        open it and wrote nothing.
        """
        with self._transaction() as connection:
            found = _rows(connection, "lock_home", id=home_id)
            if not found:
                return None
            host, epoch, schema, settings = found[0]
            if host not in (None, self.name):
                _refuse_alive(connection, host)
            ours = _rows(connection, "is_member", me=self.name, incarnation=self.incarnation)
            if not ours:
                raise FleetUnreachableError("This host is not in its fleet", hint="Try again in a moment.")
            if schema > ours[0][0]:
                raise HomeError(
                    "The home was written by a newer Nexus than this host has", hint="Upgrade the host."
                )
            is_local = host == self.name and epoch == local_epoch
            attempt = {"id": home_id, "epoch": epoch, "incarnation": self.incarnation}
            if not is_local and not (host == self.name and _rows(connection, "is_unbegun", **attempt)):
                epoch += 1
                _rows(connection, "begin_epoch", **{**attempt, "epoch": epoch}, me=self.name)
            _rows(connection, "take", id=home_id, epoch=epoch, me=self.name)
            copies = tuple(row[0] for row in _rows(connection, "copies", id=home_id))
        self._known.clear()
        return Holding(epoch=epoch, is_local=is_local, copies=copies, settings=settings)

    def copies(self, home_id: str) -> list[int]:
        """The epochs that a home can be brought back from, the best first."""
        return [row[0] for row in self._run("copies", id=home_id)]

    def settings(self, home_id: str) -> str | None:
        """The config.toml that a home begins with; None: the usual one."""
        return next((row[0] for row in self._run("settings", id=home_id)), None)

    def note_epoch(self, home_id: str, epoch: int, events_seq: int, base: int | None) -> None:
        """An epoch begins with the events up to that one, from the copy of an older epoch."""
        self._run("begun", id=home_id, epoch=epoch, events_seq=events_seq, base=base)

    def note_copied(self, home_id: str, epoch: int) -> bool:
        """Record that the copy of an epoch is complete; returns whether it was read back before.

        HomeAwayError where the home is not ours in that epoch.
        """
        values = {"id": home_id, "epoch": epoch}
        with self._transaction() as connection:
            _rows(connection, "lock_home", id=home_id)
            _rows(connection, "pass_over", **values)
            if not _rows(connection, "copied", **values, me=self.name, schema=known_schema()):
                raise FleetUnreachableError("The home has another owner", hint="Try again in a moment.")
            return _rows(connection, "complete", **values)[0][0] == "checked"

    def note_checked(self, home_id: str, epoch: int) -> None:
        """Record that the copy of an epoch was read back, and is whole."""
        if not self._run("checked", id=home_id, epoch=epoch, me=self.name):
            raise FleetUnreachableError("The home has another owner", hint="Try again in a moment.")

    def find_superseded(self, home_id: str, epoch: int) -> list[tuple[int, bool]]:
        """Older epochs with copies, and whether those may have messages. None until ours was read back."""
        return [(row[0], row[1]) for row in self._run("superseded", id=home_id, epoch=epoch)]

    def note_dropping(self, home_id: str, epoch: int) -> None:
        """Record that the copy of an epoch is about to be deleted: a newer one has what it had."""
        self._run("dropping", id=home_id, epoch=epoch)

    def note_dropped(self, home_id: str, epoch: int) -> None:
        """Record that the copy of an epoch was deleted."""
        self._run("dropped", id=home_id, epoch=epoch)

    def place(self, home_id: str, host: str) -> None:
        """Have a home on a host: now where its owner is gone, and otherwise as soon as that lets go of it."""
        target = self.host_named(host)
        if not target.is_alive:
            raise UsageError(f"{host} is not alive", hint="See `nexus host hosts`.")
        with self._transaction() as connection:
            found = _rows(connection, "lock_home", id=home_id)
            if not found:
                raise HomeError("There is no such home", hint="See `nexus host list`.")
            if found[0][2] > target.schema:
                raise UsageError(
                    f"The home was written by a newer Nexus than {host} has",
                    hint="Upgrade that host, or choose another one.",
                )
            try:
                _refuse_alive(connection, found[0][0])
            except HomeElsewhereError:
                _rows(connection, "wish", id=home_id, host=None if host == found[0][0] else host)
            else:
                _rows(connection, "place", id=home_id, host=host)
        self._known.clear()

    def find_moving(self, limit: int) -> list[str]:
        """Homes of ours that another host is to have."""
        return [row[0] for row in self._run("wishes", me=self.name, limit=limit)]

    def hand_over(self, home_id: str) -> str | None:
        """Give a home of ours to the host that is to have it; returns that host. Its copy is complete."""
        found = self._run("hand_over", id=home_id, me=self.name, incarnation=self.incarnation)
        self._known.clear()
        return found[0][0] if found else None

    def find_orphans(self, limit: int) -> list[str]:
        """Homes with work whose owner is gone."""
        return [row[0] for row in self._run("orphans", me=self.name, schema=known_schema(), limit=limit)]

    def epochs_of(self, names: list[str]) -> dict[str, tuple[str, str | None, int]]:
        """Of homes by name: the id, the owner and the epoch."""
        return {row[0]: (row[1], row[2], row[3]) for row in self._run("current", names=names)}

    def successor(self, home_id: str, epoch: int) -> Successor:
        [(current, events_seq, is_replaced)] = self._run("successor", id=home_id, epoch=epoch)
        return Successor(epoch=current, events_seq=events_seq, is_replaced=is_replaced)

    def _run(self, statement: str, /, **values: Any) -> list[Any]:
        with self._transaction() as connection:
            return _rows(connection, statement, **values)

    @contextmanager
    def _transaction(self) -> Generator[sa.Connection]:
        assert self._engine is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            with self._engine.begin() as connection:
                yield connection
        # InternalError: Postgres ended the transaction of a process that was frozen meanwhile.
        except (OperationalError, InterfaceError, InternalError, PoolTimeoutError) as error:
            raise FleetUnreachableError(
                "The fleet's Postgres does not answer", hint="Try again in a moment."
            ) from error


class _Cache:
    """Answers of the last moment."""

    def __init__(self) -> None:
        self._found: dict[object, tuple[float, list[Any]]] = {}

    def get(self, key: object, load: Callable[[], list[Any]]) -> list[Any]:
        """The last answer while it is fresh; while Postgres is away an older one, as the lease ends soon."""
        at, known = self._found.get(key, (-math.inf, None))
        if known is not None and time.monotonic() - at < _REMEMBERED_S:
            return known
        try:
            found = load()
        except FleetUnreachableError:
            if known is None:
                raise
            found = known
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[key] = (time.monotonic(), found)
        return found

    def clear(self) -> None:
        self._found.clear()


def known_schema() -> int:
    """The newest ledgers that this program can open, as one number: each only ever rises."""
    return sum(map(migrate.latest, LEDGERS))


def connect(url: str, connections: int = _CONNECTIONS) -> sa.Engine:
    """Connections to a fleet's Postgres."""
    try:
        address = sa.make_url(url)
    except SQLAlchemyError:
        raise UsageError(
            "That is not the URL of a Postgres", hint="Use postgresql://user@host/name."
        ) from None
    # A host that freezes in the middle of a change would hold its locks until it wakes.
    limits = f"-c statement_timeout={_WAIT_S}s -c idle_in_transaction_session_timeout={_WAIT_S}s"
    return sa.create_engine(
        address.set(drivername="postgresql+psycopg"),
        pool_size=connections,
        max_overflow=_MORE_CONNECTIONS,
        pool_timeout=_WAIT_S,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": _WAIT_S,
            "tcp_user_timeout": _WAIT_S * 1000,
            "options": f"-c search_path={_SCHEMA} {limits}",
        },
    )


def _refuse_alive(connection: sa.Connection, host: str | None) -> None:
    """Raise HomeElsewhereError where a home's owner is alive; it can't join until the transaction ends."""
    for url, is_alive in _rows(connection, "lock_host", host=host):
        if is_alive:
            raise HomeElsewhereError(Owner(host=cast("str", host), url=url, is_alive=True))


def _rows(connection: sa.Connection, statement: str, /, **values: Any) -> list[Any]:
    result = connection.execute(_text(statement), values)
    return list(result) if result.returns_rows else []


@cache
def _text(statement: str) -> sa.TextClause:
    return sa.text(sql.load_statements(_HERE / "queries.sql")[statement])


def _read_home(row: Any) -> HostedHome:
    return HostedHome(
        id=row[0],
        name=row[1],
        added_at=_format_time(row[2]),
        limits=Limits.of_json(row[3]),
        is_open=row[4],
        keeps_open=row[5],
        problem=row[6],
        host=row[7],
        moving_to=row[8],
        schema=row[9],
    )


def _format_time(value: datetime) -> str:
    return clock.timestamp(value.astimezone(UTC))
