"""The workspace of an automation as its code sees it: its own files, and those of its peers."""

import json
import os
import stat
from collections.abc import Generator, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from nexus import ids
from nexus.errors import WorkspaceError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

MOST_BYTES = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe in the place of a file must not keep its reader waiting.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Its settings can make git run programs: what an agent writes must not become one.
_NEVER = frozenset({".git"})
SKILLS = "SKILLS.md"
PATTERNS = "PATTERNS.md"
ERRORS = "ERRORS.md"
ROLE = "ROLE.md"
SKILL_FOLDER = "skills"
_SEEDS = {
    SKILLS: "# Skills\n",
    PATTERNS: "# Patterns\n",
    ERRORS: "# Errors\n",
}


class Folder:
    """Read, write, remove and list. Names are relative, with `/` between directories."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> str:
        """The text of a file."""
        with self._open_parent(name) as (parent, last), self._explain_errors(name):
            descriptor = os.open(last, _FILE, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as stream:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise WorkspaceError(f"`{name}` is not a file")
                content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise WorkspaceError(f"`{name}` is larger than {MOST_BYTES // 1024} KiB")
        return content.decode("utf-8", "replace")

    def write(self, name: str, content: str) -> None:
        """Make a file or replace it, with the directories above it."""
        data = content.encode("utf-8", "replace")
        if len(data) > MOST_BYTES:
            raise WorkspaceError(f"`{name}` would be larger than {MOST_BYTES // 1024} KiB")
        with self._open_parent(name, make=True) as (parent, last), self._explain_errors(name):
            building = _write_temporary(parent, data)
            try:
                os.replace(building, last, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(building, dir_fd=parent)
                raise

    def write_new(self, name: str, content: str) -> bool:
        """Make a file that is not there yet. False: something of that name is."""
        with self._open_parent(name, make=True) as (parent, last), self._explain_errors(name):
            building = _write_temporary(parent, content.encode("utf-8", "replace"))
            try:
                os.link(building, last, src_dir_fd=parent, dst_dir_fd=parent)
            except FileExistsError:
                return False
            finally:
                os.unlink(building, dir_fd=parent)
        return True

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._open_parent(name) as (parent, last), self._explain_errors(name):
            os.unlink(last, dir_fd=parent)

    def files(self) -> dict[str, tuple[int, int]]:
        """Every plain file by name, with its size and when it was changed."""
        with self._explain_errors("."), self._open_root() as root:
            return dict(_walk_files(root))

    @contextmanager
    def _open_root(self) -> Generator[int]:
        # Links above the directory are the person's own business; the directory itself may not be one.
        above = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            root = os.open(self.path.name, _DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
        try:
            yield root
        finally:
            os.close(root)

    @contextmanager
    def _open_parent(self, name: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The directory that holds the last part of a name, open, and that part."""
        *above, last = _split_name(name)
        with self._explain_errors(name), self._open_root() as root:
            held = os.dup(root)
            try:
                for part in above:
                    inner = _descend(held, part, make=make)
                    os.close(held)
                    held = inner
                yield held, last
            finally:
                os.close(held)

    @contextmanager
    def _explain_errors(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise WorkspaceError(
                f"`{name}` cannot be reached in {self.path.name}: {reason}",
                hint="Only plain files of the workspace can be; symbolic links are not followed.",
            ) from error


def _split_name(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in {"", ".", ".."} or part.casefold() in _NEVER or "\0" in part for part in parts):
        raise WorkspaceError(
            f"{name!r} does not name a file of a workspace",
            hint="Give a relative path such as `SKILLS.md` or `skills/tea/NOTES.md`.",
        )
    return parts


def _descend(parent: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another writer made it first
        os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=parent)
    return os.open(part, _DIRECTORY, dir_fd=parent)


def _write_temporary(parent: int, data: bytes) -> str:
    """A complete new file under a passing name."""
    name = f".{ids.new('new')}"
    with os.fdopen(os.open(name, _NEW_FILE, PRIVATE_FILE, dir_fd=parent), "wb") as stream:
        stream.write(data)
    return name


def _walk_files(root: int) -> Iterator[tuple[str, tuple[int, int]]]:
    for place, directories, names, here in os.fwalk(".", dir_fd=root, follow_symlinks=False):
        directories[:] = [each for each in directories if each.casefold() not in _NEVER]
        for name in (each for each in names if each.casefold() not in _NEVER):
            with suppress(FileNotFoundError):  # gone since its name was read
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield Path(place, name).as_posix(), (found.st_size, found.st_mtime_ns)


class Files:
    """The files of a workspace. Names are relative, and none leads out of it."""

    folder: Folder

    def read_file(self, filename: str, default: str | None = None) -> str:
        """The text of a file; where there is none, the default, if one is given."""
        try:
            return self.folder.read(filename)
        except WorkspaceError as error:
            if default is None or not isinstance(error.__cause__, FileNotFoundError):
                raise
            return default

    def write_file(self, filename: str, content: str) -> None:
        self.folder.write(filename, content)

    def remove_file(self, filename: str) -> None:
        self.folder.remove(filename)

    def list_files(self, below: str = "") -> list[str]:
        """The names of its files, in order; with `below`, those in one directory and all under it."""
        start = f"{below.rstrip('/')}/" if below else ""
        return sorted(name for name in self.folder.files() if name.startswith(start))

    def load(self, filename: str) -> dict[str, Any]:
        """What `store` put there; an empty object where there is none, or none that can be read."""
        try:
            value: object = json.loads(self.read_file(filename, "{}"))
        except ValueError:
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def store(self, filename: str, value: dict[str, Any]) -> None:
        """Keep an object as JSON, for the next invocation."""
        self.write_file(filename, json.dumps(value, indent=1, ensure_ascii=False))


@dataclass(frozen=True)
class Peer(Files):
    """The workspace of another automation, which this one may read and write."""

    name: str
    folder: Folder

    @property
    def dir(self) -> Path:
        return self.folder.path


class Peers:
    """The peers of an automation: a loop goes over them, and each is found by its name."""

    def __init__(self, peers: Iterable[Peer] = ()) -> None:
        self._by_name = {peer.name: peer for peer in peers}

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Peer:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Peer | None:
        return self._by_name.get(name)

    def keys(self) -> KeysView[str]:
        return self._by_name.keys()

    def values(self) -> ValuesView[Peer]:
        return self._by_name.values()

    def items(self) -> ItemsView[str, Peer]:
        return self._by_name.items()


@dataclass(frozen=True)
class Workspace(Files):
    """One automation's workspace, and its peers'."""

    folder: Folder
    peers: Peers = field(default_factory=Peers)

    @property
    def home(self) -> Path:
        """Where it lies."""
        return self.folder.path

    @property
    def role(self) -> str:
        return self.folder.read(ROLE)

    @property
    def skills(self) -> str:
        return self.folder.read(SKILLS)

    @property
    def patterns(self) -> str:
        return self.folder.read(PATTERNS)

    @property
    def errors(self) -> str:
        return self.folder.read(ERRORS)

    @classmethod
    def at(cls, path: Path, peers: Mapping[str, Path]) -> "Workspace":
        return cls(Folder(path), Peers(Peer(name, Folder(where)) for name, where in peers.items()))


def locate(meeseeks: Path, recorded: str) -> Path:
    """Where a workspace lies that the ledger records under a path.

    Its last part counts: all workspaces lie side by side, and a home that was moved takes them along.
    """
    name = PurePosixPath(recorded.rstrip("/")).name
    if name in {"", ".", ".."} or name.startswith(".") or "\0" in name:
        raise WorkspaceError(f"{recorded!r} does not name a workspace")
    return meeseeks / name


def notes_for(name: str) -> str:
    """The file of its own workspace in which an automation leaves word for a peer."""
    return f"NOTES_FOR_{name.rpartition('-')[2].upper()}.md"


def bootstrap(path: Path, role: str | None) -> list[str]:
    """Make what is missing of a workspace, except an unknown role; returns the names of the new files."""
    path.mkdir(mode=0o700, exist_ok=True)
    folder = Folder(path)
    seeds = _SEEDS if role is None else {ROLE: role, **_SEEDS}
    missing = {name: text for name, text in seeds.items() if not os.path.lexists(path / name)}
    made = [name for name, text in missing.items() if folder.write_new(name, text)]
    skills = path / SKILL_FOLDER
    if not skills.is_symlink():
        skills.mkdir(mode=0o700, exist_ok=True)
    return made
