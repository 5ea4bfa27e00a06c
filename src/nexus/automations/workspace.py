"""The workspace of an automation as its code sees it: its own files, and those of its peers."""

import json
import os
import re
import shutil
import stat
import subprocess
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


_TIMEOUT_S = 60
# Nothing of the person's own settings, no hooks, and no looking into repositories inside a workspace.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "diff.ignoreSubmodules=all",
    "gc.auto=0",
    "user.name=Nexus",
    "user.email=nexus@localhost",
)
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}
_FIELDS = "%h%x09%cI%x09%s"
_MOST_CHANGES = 1_000
_UNRECORDED = "Changes since the last run"
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40,64})", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One commit."""

    commit: str
    at: str
    message: str


class History:
    """The repository of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._repository = workspace.parent / ".history" / f"{workspace.name}.git"

    def commit(self, message: str) -> str | None:
        """Record the workspace as it is. None: nothing had changed, or there is no git here."""
        if shutil.which("git") is None:
            return None
        self._ensure()
        self._git("add", "--all", "--", ".", *self._find_nested_repositories())
        if self._git("diff", "--cached", "--quiet", check=False).returncode == 0:
            return None
        self._git("commit", "--quiet", "--no-verify", "--message", message)
        return self._git("rev-parse", "--short", "HEAD").stdout.strip()

    def changes(self, limit: int = 20) -> list[Change]:
        """The newest commits."""
        if not self._repository.is_dir():
            return []
        done = self._git("log", f"--max-count={limit}", f"--format={_FIELDS}", check=False)
        return [_change(line) for line in done.stdout.splitlines()]

    def difference(self, commit: str) -> str:
        """What one commit changed."""
        return self._git("show", "--no-ext-diff", "--no-textconv", "--format=", commit, "--").stdout

    def undo(self, commit: str | None = None) -> Change:
        """Revert a commit, and return it. Default: the newest that isn't undone yet and is no undo itself.

        Unrecorded changes are recorded first, and stay by default. A commit that later ones build on stays.
        """
        self.commit(_UNRECORDED)
        known = self.changes(_MOST_CHANGES) if commit else self._not_undone()
        found = next((each for each in known if commit in {None, each.commit}), None)
        # The first one holds the files that the workspace began with.
        if found is None or found == self._first():
            raise WorkspaceError(
                f"The workspace of {self._workspace.name} has no change {commit or 'to undo'}",
                hint=f"List them with `nexus automations history {self._workspace.name}`.",
            )
        reverting = ("revert", "--no-edit", "--no-gpg-sign", found.commit)
        if self._git(*reverting, check=False).returncode:
            is_empty = self._git("diff", "--cached", "--quiet", check=False).returncode == 0
            self._git("revert", "--abort", check=False)
            if is_empty:
                raise WorkspaceError(f"Nothing to undo in {found.commit}. It is undone already.")
            raise WorkspaceError(
                f"{found.commit} can't be undone alone: later changes build on it",
                hint="Undo those first, the newest first.",
            )
        return found

    def _not_undone(self) -> list[Change]:
        """The newest commits without those that are undone, undo others or were recorded by an undo."""
        if not self._repository.is_dir():
            return []
        log = ("log", "-z", f"--max-count={_MOST_CHANGES}", f"--format=%H%n{_FIELDS}%n%b")
        undone: set[str] = set()
        found: list[Change] = []
        for entry in filter(None, self._git(*log, check=False).stdout.split("\0")):
            commit, line, body = entry.split("\n", 2)
            # The newest come first: an undo that was itself undone doesn't count.
            if commit in undone:
                continue
            if reverted := _REVERTED.search(body):
                undone.add(reverted[1])
            elif (change := _change(line)).message != _UNRECORDED:
                found.append(change)
        return found

    def _first(self) -> Change:
        return _change(self._git("log", "--max-parents=0", f"--format={_FIELDS}").stdout.splitlines()[-1])

    def points_here(self) -> bool:
        """Whether the workspace's `.git` is the one that was laid there. An agent may have changed it."""
        pointer = self._workspace / ".git"
        is_plain = pointer.is_file() and not pointer.is_symlink()
        return is_plain and pointer.read_text(errors="replace") == self._pointer

    @property
    def _pointer(self) -> str:
        return f"gitdir: ../.history/{self._repository.name}\n"

    def _ensure(self) -> None:
        if not self._repository.is_dir():
            self._repository.parent.mkdir(mode=0o700, exist_ok=True)
            self._git("init", "--quiet", "--initial-branch=main", work_tree=False)
            # Its files are wherever the `.git` file that points to it lies, also in a home that was moved.
            self._git("config", "core.bare", "false", work_tree=False)
        if not self.points_here():
            pointer = self._workspace / ".git"
            if pointer.is_dir() and not pointer.is_symlink():
                shutil.rmtree(pointer)
            pointer.unlink(missing_ok=True)
            pointer.write_text(self._pointer, encoding="utf-8")

    def _find_nested_repositories(self) -> list[str]:
        """Repositories inside the workspace: git would read their settings."""
        found: list[str] = []
        for place, directories, names in os.walk(self._workspace):
            here = Path(place).relative_to(self._workspace)
            if here != Path() and ".git" in {*directories, *names}:
                found.append(f":(exclude,literal){here.as_posix()}")
                directories.clear()
        return found

    def _git(
        self, *words: str, check: bool = True, work_tree: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        command = ["git", f"--git-dir={self._repository}"]
        if work_tree:
            command.append(f"--work-tree={self._workspace}")
        for setting in _SETTINGS:
            command += ["-c", setting]
        done = subprocess.run(  # noqa: S603 - an argument list, no shell
            [*command, *words],
            cwd=self._workspace,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
        if check and done.returncode:
            raise WorkspaceError(f"git {words[0]} failed in {self._workspace.name}: {done.stderr.strip()}")
        return done


def _change(line: str) -> Change:
    commit, at, message = line.split("\t", 2)
    return Change(commit=commit, at=at, message=message)
