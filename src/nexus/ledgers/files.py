"""What a home holds beside its ledgers: config.toml and everything below state/."""

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from nexus.errors import LedgerFullError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1024 * 1024
_PERMISSIONS = 0o777

Kind = Literal["file", "directory", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something below a home: its path from the home's root, what it is and who may use it (`0600`)."""

    path: str
    kind: Kind
    mode: str


def entries(home: Home) -> Iterator[Entry]:
    """config.toml and the tree below state/, by name, each folder before what is in it."""
    if home.config_file.is_file():
        yield _entry("config.toml", home.config_file.stat().st_mode)
    if home.state.is_dir():
        yield _entry("state", home.state.stat().st_mode)
        yield from _below(home.root, "state")


def check_path(path: object) -> str:
    """Return a path from the home's root to config.toml or below state/; any other raises ValueError."""
    if isinstance(path, str) and "\0" not in path:
        parts = path.split("/")
        inside = path == "config.toml" or parts[0] == "state"
        if inside and not any(part in {"", ".", ".."} for part in parts):
            return path
    raise ValueError(f"{path!r} is not a path that a home may hold")


def new(path: Path) -> BinaryIO:
    """Return a new private file to write; one that exists, or a link in its place, is refused."""
    folder(path.parent)
    return os.fdopen(os.open(path, _NEW, PRIVATE_FILE), "wb")


def folder(path: Path) -> None:
    """Make a private folder, and those above it that are missing."""
    if not path.is_dir():
        folder(path.parent)
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)


def copy(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file's bytes to a new private file, durably; returns their number and sha256."""
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as reader, new(target) as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += writer.write(chunk)
        sync(writer)
    return size, digest.hexdigest()


def sha256(path: Path) -> str:
    """Return the hash of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def permit(root: Path, modes: Mapping[str, str]) -> None:
    """Set who may use what; the innermost first, because a folder may become read-only."""
    for path, mode in sorted(modes.items(), reverse=True):
        (root / path).chmod(int(mode, 8) & _PERMISSIONS)


def sync(stream: BinaryIO) -> None:
    """Make what was written survive a power cut."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_file(path: Path) -> None:
    """Make a file, or a folder's list of names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(root: Path) -> None:
    """Make the names in every folder of a tree survive a power cut."""
    for folder, _, _ in os.walk(root):
        sync_file(Path(folder))


def remove(tree: Path) -> None:
    """Remove an unfinished tree as far as it can be removed; what stays has a name that tells."""
    shutil.rmtree(tree, ignore_errors=True)


def list_backups(home: Home) -> list[str]:
    """Return the folders of the backups that were made of a home, the oldest first."""
    try:
        return home.backups_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def reason(error: OSError | LedgerFullError) -> str:
    """Why something could not be written, in few words."""
    if isinstance(error, LedgerFullError):
        return "the disk is full"
    return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)


def _below(root: Path, folder: str) -> Iterator[Entry]:
    for child in sorted((root / folder).iterdir()):
        path = f"{folder}/{child.name}"
        # Agents work on while this looks: what is gone by now is no longer part of the home.
        with contextlib.suppress(FileNotFoundError):
            mode = child.lstat().st_mode
            yield _entry(path, mode)
            if stat.S_ISDIR(mode):
                yield from _below(root, path)


def _entry(path: str, mode: int) -> Entry:
    kind: Kind = "other"
    if stat.S_ISDIR(mode):
        kind = "directory"
    elif stat.S_ISLNK(mode):
        kind = "link"
    elif stat.S_ISREG(mode):
        kind = "file"
    return Entry(path, kind, f"{mode & _PERMISSIONS:04o}")
