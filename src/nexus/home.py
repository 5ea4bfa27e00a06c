"""Everything below ~/.nexus: where things are, how a home is made, and who holds it.

A home is the unit of everything. Nothing in the program assumes that a process serves only one.
"""

import fcntl
import os
import secrets
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from nexus import ids
from nexus.errors import HomeBusyError, HomeError, HomeMissingError

LEDGERS: Final = ("events", "agents", "identity", "memory", "embeddings", "runtime")
PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600
_TOKEN_BYTES: Final = 32
# SQLite takes paths of 512 bytes, and what lies in a home adds to its own.
_LONGEST_ROOT_BYTES: Final = 400
_creating: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Home:
    """The paths of one home. Making this object touches nothing on disk."""

    root: Path
    cgroup: Path | None = field(default=None, compare=False)
    """What its sandboxes run in, if its host has a cgroup for it."""
    is_copied: bool = field(default=False, compare=False)
    """Whether its host has Litestream copy it, which then is the one to write its WALs back."""

    @property
    def config_file(self) -> Path:
        return self.root / "config.toml"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def meeseeks(self) -> Path:
        return self.state / "meeseeks"

    @property
    def scripts(self) -> Path:
        return self.state / "hooks" / "scripts"

    @property
    def skills(self) -> Path:
        """Agent Skills of the home, a folder each. Those of a workspace are in its own `skills` folder."""
        return self.state / "skills"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """What serving needs and a backup does not: the socket, answers being streamed, who is logged in."""
        return self.root / "run"

    @property
    def lock_file(self) -> Path:
        return self.root / "home.lock"

    @property
    def token_file(self) -> Path:
        """What proves to the gateway that a program speaks for the owner. No backup holds it."""
        return self.root / "token"

    @property
    def browsers_file(self) -> Path:
        """Which browsers are logged in, as digests."""
        return self.run / "browsers.json"

    @property
    def backups_file(self) -> Path:
        """Where backups of this home were put, a folder in each line. No backup holds it."""
        return self.root / "backups.txt"

    @property
    def secrets(self) -> Path:
        """Keys that were typed into `nexus init` on a machine without a keyring. No backup holds it."""
        return self.root / "secrets"

    @property
    def directories(self) -> tuple[Path, ...]:
        """Every directory of a home, parents first."""
        return (
            self.root,
            self.data,
            self.state,
            self.meeseeks,
            self.state / "hooks",
            self.scripts,
            self.logs,
            self.run,
        )

    def identity(self) -> str:
        """A name that stays with the home when it is moved, backed up and restored; made when first asked."""
        file = self.state / "home-id"
        write_new(file, ids.new("hom"))
        return file.read_text(encoding="utf-8").strip()

    def token(self) -> str:
        """The secret in `token_file`, made when first asked; an error where it cannot be trusted."""
        write_new(self.token_file, secrets.token_urlsafe(_TOKEN_BYTES))
        token = self.token_file.read_text(encoding="utf-8").strip()
        if self.token_file.stat().st_mode & 0o077:
            raise HomeError(
                f"Other users can read the API token in {self.token_file}",
                hint=f"Run `rm '{self.token_file}'` to create a new one.",
            )
        if len(token) < _TOKEN_BYTES:
            raise HomeError(
                f"The API token in {self.token_file} is too short",
                hint=f"Run `rm '{self.token_file}'` to create a new one.",
            )
        return token

    def ledger(self, name: str) -> Path:
        return self.data / f"{name}.db"

    @property
    def engine_file(self) -> Path:
        """Where the engine keeps its work, unless it is told to use a Postgres."""
        return self.data / "engine.db"

    @property
    def exists(self) -> bool:
        return self.data.is_dir()

    def require(self) -> Self:
        """This home, or an error that says how to make it."""
        if not self.exists:
            hint = "Run `nexus init` to create one."
            if self.root != locate().root:
                chosen = shlex.quote(str(self.root))
                hint = f"Check the path, or run `nexus --home {chosen} init` to create one."
            raise HomeMissingError(f"No Nexus home at {self.root}", hint=hint)
        return self

    def create(self) -> list[Path]:
        """Make what a complete home lacks, files and ledgers, as `nexus init` does; return what was made.

        What exists is not touched.
        """
        # This is the one import that points up: a home that others can open needs its ledgers.
        from nexus import ledgers
        from nexus.ledgers import attach

        with _creating:
            made = self.create_files()
            made += [self.ledger(name) for name in ledgers.create(self)]
            return made + attach.ensure(self)

    def create_files(self) -> list[Path]:
        """Make the folders and files that are missing, but no ledger, and return them."""
        length = len(os.fsencode(self.root))
        if length > _LONGEST_ROOT_BYTES:
            raise HomeError(
                f"The path of the home is too long: {length} bytes (maximum {_LONGEST_ROOT_BYTES})",
                hint="Choose a shorter one with `--home PATH` or NEXUS_HOME.",
            )
        try:
            return self._create()
        except OSError as error:
            raise HomeError(
                f"Can't create a home at {self.root}: {error.strerror}",
                hint="Choose another place with `--home PATH` or NEXUS_HOME.",
            ) from error

    def _create(self) -> list[Path]:
        made: list[Path] = []
        for directory in self.directories:
            if not directory.is_dir():
                # Another process may be making it too.
                directory.mkdir(mode=PRIVATE_DIRECTORY, parents=directory == self.root, exist_ok=True)
                directory.chmod(PRIVATE_DIRECTORY)
                made.append(directory)
        from nexus import config  # to describe every setting takes a while

        contents = {
            self.config_file: config.template(),
            self.lock_file: "",
            self.token_file: secrets.token_urlsafe(_TOKEN_BYTES),
        }
        for file, content in contents.items():
            if write_new(file, content):
                made.append(file)
        return made


def locate(given: Path | None = None, environ: Mapping[str, str] = os.environ) -> Home:
    """Locate the home: the given path, NEXUS_HOME, or ~/.nexus."""
    chosen = given or Path(environ.get("NEXUS_HOME") or "~/.nexus")
    try:
        return Home(chosen.expanduser().absolute())
    except FileNotFoundError:
        raise HomeError(
            f"{chosen} not found: the current folder was deleted",
            hint="Change to another folder with `cd`, or pass an absolute path.",
        ) from None


class HomeLock:
    """Who holds a home. Any number of processes share it; restore and import need it alone.

    It is an advisory lock of the operating system, so a killed process leaves nothing behind.
    """

    def __init__(self, home: Home, mode: Literal["shared", "alone"]) -> None:
        self._home = home
        self._mode = mode
        self._descriptor = -1

    def __enter__(self) -> Self:
        descriptor = os.open(self._home.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        operation = fcntl.LOCK_SH if self._mode == "shared" else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            by = ", ".join(str(holder) for holder in holders(self._home)) or "another process"
            raise HomeBusyError(
                f"The home at {self._home.root} is in use by {by}",
                hint="Stop it or wait, then try again.",
            ) from None
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a home or one of its databases open."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


def holders(home: Home) -> list[Holder]:
    """List other processes that use a home, including `sqlite3` shells; none if the system doesn't tell."""
    files = [home.lock_file, *home.data.glob("*.db*")]
    inodes = {str(file.stat().st_ino) for file in files if file.exists()}
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return []
    # A line ends in `PID MAJOR:MINOR:INODE FIRST LAST`; one that waits has `->` in front.
    pids = {int(lock[-4]) for lock in locks if lock[-3].rpartition(":")[2] in inodes}
    return [Holder(pid, _read_command(pid)) for pid in sorted(pids - {os.getpid()}) if pid > 0]


def is_alone(home: Home) -> bool:
    """Return whether only this process has the home open, and once; False if the system doesn't tell."""
    try:
        inode = str(home.lock_file.stat().st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    held = [lock for line in lines if (lock := line.split())[-3].rpartition(":")[2] == inode]
    return len(held) == 1 and held[0][-4] == str(os.getpid())


def _read_command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "unknown"
    return " ".join([Path(words[0]).name, *words[1:]]).strip()[:120]


def write_new(file: Path, content: str) -> bool:
    """Create a file atomically that others can't read. False if it exists already."""
    if file.exists():
        return False
    building = file.with_name(f".{file.name}.{ids.new('new')}")
    try:
        descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(content)
        file.hardlink_to(building)
    except FileExistsError:
        return False
    finally:
        building.unlink(missing_ok=True)
    return True
