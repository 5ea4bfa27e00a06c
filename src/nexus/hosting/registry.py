"""The homes of a host and who may use them, in `host.db`. Commands change it while the host runs.

Every method waits for the disk: call it on a thread.
"""

import hashlib
import re
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, cast

import apsw

from nexus import clock, ids
from nexus.errors import HomeError, UsageError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.hosting.limits import Limits
from nexus.ledgers import sql

TokenScope = Literal["full", "read", "admin"]
"""`read` changes nothing. `admin` manages homes, and reads none."""
_HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TOKEN_BYTES: Final = 32
_BUSY_MS: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedHome:
    """A home of the host."""

    id: str
    name: str
    added_at: str
    limits: Limits
    is_open: bool
    keeps_open: bool
    problem: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What a token is good for."""

    home_id: str | None
    scope: TokenScope


class Registry:
    """The table of homes below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._using = threading.Lock()
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> Self:
        if not self.root.is_dir():
            self.root.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
        connection = apsw.Connection(str(self.root / "host.db"))
        (self.root / "host.db").chmod(0o600)
        connection.set_busy_timeout(_BUSY_MS)
        connection.pragma("journal_mode", "wal")
        connection.pragma("foreign_keys", True)
        connection.execute((_HERE / "schema.sql").read_text(encoding="utf-8")).fetchall()
        self._connection = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def home(self, name: str) -> Home:
        """The folder of a home."""
        return Home(self.root / "homes" / name)

    def add(self, name: str) -> HostedHome:
        """Take a name for a new home. Its folder is made by `hosting.homes`."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} can't be the name of a home",
                hint="Use lower-case letters, digits and hyphens, at most 63: it is a part of a host name.",
            )
        try:
            self._run("add", id=ids.new("hom"), name=name, now=clock.timestamp(clock.now()))
        except apsw.ConstraintError:
            raise HomeError(f"There is a home named {name}", hint="Choose another name.") from None
        return self.named(name)

    def remove(self, id_: str) -> None:
        """Forget a home and its tokens."""
        self._run("remove", id=id_)

    def get(self, id_: str) -> HostedHome | None:
        return next(map(_home, self._run("by_id", id=id_)), None)

    def find(self, name: str) -> HostedHome | None:
        return next(map(_home, self._run("by_name", name=name)), None)

    def named(self, name: str) -> HostedHome:
        """The home of that name, or an error that says how to see them all."""
        found = self.find(name)
        if found is None:
            raise HomeError(f"No home named {name}", hint="See `nexus host list`.")
        return found

    def listed(self, after: str = "", limit: int = 100) -> list[HostedHome]:
        return [_home(row) for row in self._run("listed", after=after, limit=limit)]

    def count(self) -> int:
        return int(self._run("count")[0][0])

    def left_open(self) -> list[str]:
        """What was open when its host was killed, or is kept open."""
        return [row[0] for row in self._run("left_open")]

    def concurrency(self) -> dict[str, int]:
        """The homes whose concurrency is not the usual one."""
        return {row[0]: Limits.of_json(row[1]).concurrency for row in self._run("limited")}

    def set_limits(self, id_: str, limits: Limits) -> None:
        self._run("set_limits", id=id_, limits=limits.to_json())

    def opened(self, id_: str) -> None:
        """A home is about to be opened; recorded before anything is accepted for it."""
        self._run("opened", id=id_, now=clock.timestamp(clock.now()))

    def settled(self, id_: str, *, keeps_open: bool) -> None:
        """A home was opened."""
        self._run("settled", id=id_, keeps_open=int(keeps_open))

    def closed(self, id_: str) -> None:
        """A home was closed, and everything that it accepted is the engine's."""
        self._run("closed", id=id_)

    def failed(self, id_: str, problem: str) -> None:
        """A home could not be opened."""
        self._run("failed", id=id_, problem=problem)

    def new_token(self, home_id: str | None, scope: TokenScope, *, rotate: bool = False) -> str:
        """A new token; with `rotate`, those of the same home (or of the host) from before end."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        now = clock.timestamp(clock.now())
        with self._using, self._open:
            if rotate:
                self._execute("revoke", home=home_id)
            self._execute("add_token", digest=_digest(token), home=home_id, scope=scope, now=now)
        return token

    def grant(self, token: str) -> Grant | None:
        """What a token is good for; nothing where it is not known."""
        found = self._run("token", digest=_digest(token))
        return Grant(home_id=found[0][0], scope=found[0][1]) if found else None

    @property
    def _open(self) -> apsw.Connection:
        assert self._connection is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return self._connection

    def _run(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        with self._using:
            return self._execute(statement, **values)

    def _execute(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        text = sql.named(_HERE / "queries.sql")[statement]
        return cast("list[tuple[Any, ...]]", self._open.execute(text, values).fetchall())


def _home(row: tuple[Any, ...]) -> HostedHome:
    return HostedHome(
        id=row[0],
        name=row[1],
        added_at=row[2],
        limits=Limits.of_json(row[3]),
        is_open=bool(row[4]),
        keeps_open=bool(row[5]),
        problem=row[6],
    )


def _digest(token: str) -> bytes:
    # A token has 256 random bits: nobody guesses one from a digest that is quick to make.
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
