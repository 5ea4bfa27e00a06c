"""The homes of one host, in `host.db`."""

import threading
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import apsw

from nexus import clock, ids
from nexus.home import PRIVATE_DIRECTORY
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
from nexus.ledgers import sql

_HERE: Final = Path(__file__).parent
_BUSY_MS: Final = 10_000


class LocalRegistry(Registry):
    """The table of homes below a folder.

    A host without copies opens it with `checkpoints`; otherwise Litestream is the one to write its WAL back.
    """

    is_shared = False

    def __init__(self, root: Path, *, checkpoints: bool = False) -> None:
        self.root = root
        self._checkpoints = checkpoints
        self._using = threading.Lock()
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> Self:
        if not self.root.is_dir():
            self.root.mkdir(mode=PRIVATE_DIRECTORY, parents=True)
        connection = apsw.Connection(str(self.root / "host.db"))
        (self.root / "host.db").chmod(0o600)
        connection.set_busy_timeout(_BUSY_MS)
        connection.pragma("journal_mode", "wal")
        if not self._checkpoints:
            connection.wal_autocheckpoint(0)
        connection.pragma("foreign_keys", True)
        connection.execute((_HERE / "local_schema.sql").read_text(encoding="utf-8")).fetchall()
        self._connection = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def add(self, name: str, settings: str | None = None) -> HostedHome:
        check_name(name)
        try:
            self._run("add", id=ids.new("hom"), name=name, now=clock.timestamp(clock.now()))
        except apsw.ConstraintError:
            raise name_taken_error(name) from None
        return self.get_named(name)

    def remove(self, id_: str) -> None:
        self._run("remove", id=id_)

    def get(self, id_: str) -> HostedHome | None:
        return next(map(_read_home, self._run("by_id", id=id_)), None)

    def find(self, name: str) -> HostedHome | None:
        return next(map(_read_home, self._run("by_name", name=name)), None)

    def list_homes(self, after: str = "", limit: int = 100) -> list[HostedHome]:
        return [_read_home(row) for row in self._run("listed", after=after, limit=limit)]

    def count(self) -> int:
        return int(self._run("count")[0][0])

    def find_left_open(self) -> list[str]:
        return [row[0] for row in self._run("left_open")]

    def load_concurrency(self) -> dict[str, int]:
        return {row[0]: Limits.of_json(row[1]).concurrency for row in self._run("limited")}

    def set_limits(self, id_: str, limits: Limits) -> None:
        self._run("set_limits", id=id_, limits=limits.to_json())

    def note_opening(self, id_: str) -> None:
        self._run("opened", id=id_, now=clock.timestamp(clock.now()))

    def note_opened(self, id_: str, *, keeps_open: bool) -> None:
        self._run("settled", id=id_, keeps_open=int(keeps_open))

    def note_closed(self, id_: str, next_wake: datetime | None = None, *, is_copied: bool = False) -> None:
        self._run("closed", id=id_, copied_at=clock.timestamp(clock.now()) if is_copied else None)

    def find_cold(self, hours: float, limit: int) -> list[HostedHome]:
        before = clock.timestamp(clock.now() - timedelta(hours=hours))
        return [_read_home(row) for row in self._run("cold", before=before, limit=limit)]

    def note_evicted(self, id_: str) -> bool:
        return bool(self._run("evicted", id=id_))

    def note_failure(self, id_: str, problem: str) -> None:
        self._run("failed", id=id_, problem=problem)

    def new_token(self, home_id: str | None, scope: TokenScope, *, rotate: bool = False) -> str:
        token = make_secret()
        now = clock.timestamp(clock.now())
        with self._using, self._open:
            if rotate:
                self._execute("revoke", home=home_id)
            self._execute("add_token", digest=digest_token(token), home=home_id, scope=scope, now=now)
        return token

    def grant(self, token: str) -> Grant | None:
        found = self._run("token", digest=digest_token(token))
        return Grant(home_id=found[0][0], scope=found[0][1]) if found else None

    def key(self, home_id: str) -> str:
        self._run("make_key", key=make_secret())
        return derive_key(self._run("key")[0][0], home_id)

    @property
    def _open(self) -> apsw.Connection:
        assert self._connection is not None  # noqa: S101 - an invariant, for the reader and the type checker
        return self._connection

    def _run(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        with self._using:
            return self._execute(statement, **values)

    def _execute(self, statement: str, /, **values: Any) -> list[tuple[Any, ...]]:
        text = sql.load_statements(_HERE / "local.sql")[statement]
        return cast("list[tuple[Any, ...]]", self._open.execute(text, values).fetchall())


def _read_home(row: tuple[Any, ...]) -> HostedHome:
    return HostedHome(
        id=row[0],
        name=row[1],
        added_at=row[2],
        limits=Limits.of_json(row[3]),
        is_open=bool(row[4]),
        keeps_open=bool(row[5]),
        problem=row[6],
    )
