"""Where an exported file is written to and read from: plain or compressed, on a disk or through a pipe."""

import gzip
import io
import sys
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from nexus import ids
from nexus.errors import CareError
from nexus.ledgers import files

PIPE: Final = "-"
_HEADER = b'{"nexus_export":'
_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1024 * 1024


@contextmanager
def writing(name: str) -> Generator[BinaryIO]:
    """A new private file that gets its name when it is complete, or standard output for `-`."""
    if name == PIPE:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name).expanduser()
    if path.exists():
        raise CareError(f"{path} exists already", hint="Use another name, or delete the file first.")
    building = path.with_name(f".{path.name}.unfinished-{ids.new('exp')}")
    try:
        with files.new(building) as raw:
            if path.suffix == ".gz":
                # Without a time, so that the same home gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield raw
            files.sync(raw)
        building.rename(path)
        files.sync_file(path.parent)
    except BaseException as error:
        building.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CareError(
                f"{path} could not be written: {files.reason(error)}",
                hint="Nothing of it was kept. Choose a place that can be written and has enough space.",
            ) from error
        raise


@contextmanager
def reading(name: str) -> Generator[BinaryIO]:
    """The file of that name, or standard input for `-`; what is compressed is unpacked on the way."""
    if name == PIPE:
        yield _unpacked(sys.stdin.buffer)
        return
    path = Path(name).expanduser()
    try:
        stream = path.open("rb", buffering=_BUFFER_BYTES)
    except OSError as error:
        hint = "For a backup folder, use `nexus restore`." if path.is_dir() else "Check its name."
        raise CareError(f"Can't read {path}: {error.strerror}", hint=hint) from error
    with stream:
        yield _unpacked(stream)


def is_export(name: str) -> bool:
    """Whether a file is, or once was, one that `nexus export` wrote, by how it begins."""
    if name == PIPE:
        return True
    if not Path(name).expanduser().is_file():
        return False
    with reading(name) as stream:
        try:
            return stream.read(len(_HEADER)) == _HEADER
        except (OSError, EOFError, zlib.error):
            return False


def _unpacked(stream: Any) -> BinaryIO:
    if stream.peek(2)[:2] != _GZIP_MAGIC:
        return stream
    unpacking = cast("io.RawIOBase", gzip.GzipFile(fileobj=stream))
    return io.BufferedReader(unpacking, _BUFFER_BYTES)
