"""Whose work a database holds, and which process does it.

One process works on a database: the one that holds the kernel's lock on a file beside it, on Postgres in the
home. Others record and watch work, and stand by to take over. The lock goes with its process, however that
ends. A frozen process keeps it: it is waited for or ended, never overtaken, so nobody has done its work when
it wakes up.
"""

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass

from nexus import clock, ids
from nexus.engine.database import Database
from nexus.engine.errors import EngineOwnerError
from nexus.engine.settings import Settings
from nexus.home import PRIVATE_FILE, Home

_LOOKS = 1_000
_LOOK_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that works on a database."""

    executor_id: str = ""
    host: str = ""
    pid: int = 0
    version: str = ""
    started_at: str = ""


class Ownership:
    """The right of this process to work on a database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._descriptor = -1
        self.executor_id = ""
        """The name under which work is recorded as running; empty while another process owns the database."""

    def take(self) -> bool:
        """Become the owner. False: another process is."""
        descriptor = os.open(self._settings.owner_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        if not _lock(descriptor):
            os.close(descriptor)
            return False
        owner = Owner(
            executor_id=ids.new("exr"),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._settings.version,
            started_at=clock.timestamp(clock.now()),
        )
        text = json.dumps(asdict(owner)).encode()
        try:
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self.executor_id = descriptor, owner.executor_id
        return True

    def release(self) -> None:
        self.executor_id = ""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(descriptor: int) -> bool:
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            try:
                # It can be shared with those who only look, which they do for a moment.
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_LOOK_S)
        else:
            return True
    return False


def find_owner(settings: Settings) -> Owner | None:
    """The process that works on a database at this moment."""
    try:
        descriptor = os.open(settings.owner_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            return Owner(**json.loads(os.pread(descriptor, 4096, 0)))
        except (ValueError, TypeError):
            return Owner()  # it is being written
    else:
        return None
    finally:
        os.close(descriptor)


def claim_for_home(database: Database, home: Home | None) -> None:
    """Take an empty database for a home; refuse one that another home has taken."""
    if home is None:
        return
    owner = home.identity()
    take = database.sql(
        "INSERT INTO {t}nexus_owner (id, owner) VALUES (1, :owner) ON CONFLICT (id) DO NOTHING"
    )
    with database.write() as connection:
        connection.execute(take, {"owner": owner})
        found = connection.execute(database.sql("SELECT owner FROM {t}nexus_owner")).scalar_one()
    if found != owner:
        raise EngineOwnerError(
            "The database in [engine] database belongs to another home",
            hint="Create one per home with `createdb NAME`, then change the URL.",
        )
