"""The files below one directory, and nothing else.

A path is walked one directory at a time, each opened inside the one before it and through no symbolic
link. So neither `..`, an absolute path nor a link leads out, also when somebody moves things about
between two steps. A write lays a new file in the place of the old one: it never reaches through a link.
"""

import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


class Folder:
    """Read, write, remove and list. Names are relative, with `/` between directories."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str) -> str:
        """The text of a file."""
        with self._reached(name) as (parent, last), self._told(name):
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
        with self._reached(name, make=True) as (parent, last), self._told(name):
            building = _built(parent, data)
            try:
                os.replace(building, last, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                os.unlink(building, dir_fd=parent)
                raise

    def write_new(self, name: str, content: str) -> bool:
        """Make a file that is not there yet. False: something of that name is."""
        with self._reached(name, make=True) as (parent, last), self._told(name):
            building = _built(parent, content.encode("utf-8", "replace"))
            try:
                os.link(building, last, src_dir_fd=parent, dst_dir_fd=parent)
            except FileExistsError:
                return False
            finally:
                os.unlink(building, dir_fd=parent)
        return True

    def remove(self, name: str) -> None:
        """Remove a file."""
        with self._reached(name) as (parent, last), self._told(name):
            os.unlink(last, dir_fd=parent)

    def files(self) -> dict[str, tuple[int, int]]:
        """Every plain file by name, with its size and when it was changed."""
        with self._told("."), self._root() as root:
            return dict(_files(root))

    @contextmanager
    def _root(self) -> Generator[int]:
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
    def _reached(self, name: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The directory that holds the last part of a name, open, and that part."""
        *above, last = _parts(name)
        with self._told(name), self._root() as root:
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
    def _told(self, name: str) -> Generator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise WorkspaceError(
                f"`{name}` cannot be reached in {self.path.name}: {reason}",
                hint="Only plain files of the workspace can be; symbolic links are not followed.",
            ) from error


def _parts(name: str) -> list[str]:
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


def _built(parent: int, data: bytes) -> str:
    """A complete new file under a passing name."""
    name = f".{ids.new('new')}"
    with os.fdopen(os.open(name, _NEW_FILE, PRIVATE_FILE, dir_fd=parent), "wb") as stream:
        stream.write(data)
    return name


def _files(root: int) -> Iterator[tuple[str, tuple[int, int]]]:
    for place, directories, names, here in os.fwalk(".", dir_fd=root, follow_symlinks=False):
        directories[:] = [each for each in directories if each.casefold() not in _NEVER]
        for name in (each for each in names if each.casefold() not in _NEVER):
            with suppress(FileNotFoundError):  # gone since its name was read
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield Path(place, name).as_posix(), (found.st_size, found.st_mtime_ns)
