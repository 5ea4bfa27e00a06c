"""What an import reads from: a file, a folder, or the members of a zip archive, always as streams.

Nothing is unpacked to disk, so a member's name can lead nowhere. A member that is far larger than what it
is packed into is refused, and so is an archive with too many members.
"""

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

from nexus.errors import CareError

_BUFFER_BYTES: Final = 1024 * 1024
_MOST_MEMBERS: Final = 500_000
# Deflate packs repeated text up to 1:1032. Real exports stay below 1:50.
_MOST_EXPANSION: Final = 200
_SMALL_BYTES: Final = 64 * 1024 * 1024
_MOST_TOGETHER_BYTES: Final = 1024 * 1024 * 1024
_EDGE_BYTES: Final = 64 * 1024


class Files(Protocol):
    """The files of an export, by their path within it. `read_bytes` counts what was read so far."""

    path: Path
    read_bytes: int
    refused: list[tuple[str, str]]
    """Files that are not opened, with the reason."""

    def names(self) -> list[str]:
        """Return every file, in order."""
        ...

    def size(self, name: str) -> int:
        """Return the size of a file, unpacked."""
        ...

    def modified_at(self, name: str) -> datetime:
        """Return when a file was last changed."""
        ...

    def open(self, name: str) -> Any:
        """Return a context manager that gives a binary stream."""
        ...

    def fingerprint(self) -> str:
        """Tells whether this is the same export as before."""
        ...

    def location(self, name: str) -> Path | None:
        """Return where the file lies on disk, if it isn't packed."""
        ...


def total_bytes(files: Files) -> int:
    """Return the size of all files together."""
    return sum(files.size(name) for name in files.names())


def open_files(path: Path) -> Files:
    """Return the files at a path: a folder's, a zip archive's, or the file itself."""
    try:
        if path.is_dir():
            return Folder(path)
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise CareError(
            f"Can't read {path}: {error.strerror}", hint="Check the path and its permissions."
        ) from error
    return Archive(path) if start == b"PK\x03\x04" else Single(path)


class _CountingStream(io.RawIOBase):
    """A stream that adds what is read from it to the files' count."""

    def __init__(self, files: Files, stream: IO[bytes]) -> None:
        self._files = files
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error) as error:
            raise OSError(f"the archive is damaged: {error}") from error
        buffer[: len(data)] = data
        self._files.read_bytes += len(data)
        return len(data)


@contextmanager
def _count_reads(files: Files, stream: IO[bytes]) -> Generator[io.BufferedReader]:
    with stream:
        yield io.BufferedReader(_CountingStream(files, stream), _BUFFER_BYTES)


class Single:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_bytes = 0
        self.refused: list[tuple[str, str]] = []

    def names(self) -> list[str]:
        return [self.path.name]

    def size(self, name: str) -> int:
        return self.path.stat().st_size

    def modified_at(self, name: str) -> datetime:
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    def open(self, name: str) -> Any:
        return _count_reads(self, self.path.open("rb"))

    def fingerprint(self) -> str:
        return _edges(self.path)

    def location(self, name: str) -> Path | None:
        return self.path


class Folder:
    """A folder with everything below it. Links are not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_bytes = 0
        self.refused: list[tuple[str, str]] = []
        self._names: list[str] | None = None

    def names(self) -> list[str]:
        if self._names is None:
            self._names = sorted(self._walk())
        return self._names

    def size(self, name: str) -> int:
        return (self.path / name).stat().st_size

    def modified_at(self, name: str) -> datetime:
        return datetime.fromtimestamp((self.path / name).stat().st_mtime, UTC)

    def open(self, name: str) -> Any:
        return _count_reads(self, (self.path / name).open("rb"))

    def fingerprint(self) -> str:
        # A folder grows while it is in use. Its cursors name files, so a changed folder can be resumed too.
        return "folder"

    def location(self, name: str) -> Path | None:
        return self.path / name

    def _walk(self) -> Iterator[str]:
        for root, folders, names in os.walk(self.path):
            folders.sort()
            for name in names:
                file = Path(root, name)
                if file.is_file() and not file.is_symlink():
                    yield file.relative_to(self.path).as_posix()


class Archive:
    """The members of a zip archive, read without unpacking it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_bytes = 0
        self.refused: list[tuple[str, str]] = []
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise CareError(
                f"{path} is not a complete zip archive: {error}", hint="Download the export again."
            ) from error
        members = [info for info in self._zip.infolist() if not info.is_dir()]
        if len(members) > _MOST_MEMBERS:
            raise CareError(
                f"{path} holds {len(members):,} files; at most {_MOST_MEMBERS:,} are read",
                hint="Unpack it yourself and import the folder.",
            )
        self._members = {info.filename: info for info in members if self._is_sound(info)}
        self._refuse_bomb()

    def names(self) -> list[str]:
        return sorted(self._members)

    def size(self, name: str) -> int:
        return self._members[name].file_size

    def modified_at(self, name: str) -> datetime:
        try:
            return datetime(*self._members[name].date_time, tzinfo=UTC)
        except ValueError:
            return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    def open(self, name: str) -> Any:
        try:
            return _count_reads(self, self._zip.open(self._members[name]))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise OSError(f"the archive is damaged: {error}") from error

    def fingerprint(self) -> str:
        return _edges(self.path)

    def location(self, name: str) -> Path | None:
        return None

    def _refuse_bomb(self) -> None:
        """Members that each look harmless may share their packed bytes."""
        unpacked = sum(info.file_size for info in self._members.values())
        if unpacked > max(_MOST_TOGETHER_BYTES, self.path.stat().st_size * _MOST_EXPANSION):
            raise CareError(
                f"{self.path} is packed like a zip bomb: it would unpack to {unpacked:,} bytes",
                hint="Download the export again, or unpack it yourself and import the folder.",
            )

    def _is_sound(self, info: zipfile.ZipInfo) -> bool:
        name = PurePosixPath(info.filename.replace("\\", "/"))
        reason = None
        if not name.parts:
            reason = "it has no name"
        elif name.is_absolute() or ".." in name.parts or ":" in name.parts[0]:
            reason = "its name leads out of the archive"
        elif info.flag_bits & 1:
            reason = "it is encrypted"
        elif info.file_size > max(_SMALL_BYTES, info.compress_size * _MOST_EXPANSION):
            reason = "it is packed like a zip bomb"
        if reason:
            self.refused.append((info.filename[:200], reason))
        return reason is None


def _edges(path: Path) -> str:
    """Size, beginning and end: enough to tell two exports apart without reading gigabytes."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(_EDGE_BYTES)
        stream.seek(max(0, size - _EDGE_BYTES))
        end = stream.read(_EDGE_BYTES)
    return f"{size}-{hashlib.sha256(start + end).hexdigest()[:32]}"
