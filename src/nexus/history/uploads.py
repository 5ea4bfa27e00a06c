"""Uploaded exports: kept below the home until they are imported or discarded.

Each has a folder of its own under a name that this program chose. The browser's name for the file only names
the file in it, without anything that could lead elsewhere.
"""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from nexus import ids
from nexus.errors import CareError, MissingError, UsageError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home

_UNFINISHED: Final = ".unfinished"
_CHOICES: Final = ".choices.json"
_ID: Final = re.compile(r"upl_[0-9A-Z]{26}")
_NAME_BYTES: Final = 200
_WRITTEN_BYTES: Final = 1024 * 1024
# What stays free on the disk, for the ledgers.
_RESERVE_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """An export that was uploaded whole."""

    id: str
    path: Path
    size_bytes: int
    choices: dict[str, Any] | None
    """How it is to be read, once its import was started."""

    @property
    def name(self) -> str:
        return self.path.name


class Uploads:
    """The uploads of one home."""

    def __init__(self, home: Home, max_bytes: int) -> None:
        self._folder = home.run / "uploads"
        self.max_bytes = max_bytes

    async def receive(
        self, name: str, pieces: AsyncIterable[bytes], expected_bytes: int | None = None
    ) -> Upload:
        """Write an upload to disk, piece by piece. One that is too large or breaks off leaves nothing."""
        await asyncio.to_thread(self._check_room, expected_bytes or 0)
        id_ = ids.new("upl")
        folder = self._folder / id_
        await asyncio.to_thread(_new_folder, folder)
        try:
            size = await self._write(folder / _UNFINISHED, pieces)
            path = folder / file_name(name)
            await asyncio.to_thread((folder / _UNFINISHED).rename, path)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        return Upload(id=id_, path=path, size_bytes=size, choices=None)

    def listed(self) -> list[Upload]:
        """Every complete upload, the oldest first."""
        if not self._folder.is_dir():
            return []
        found = (self._read(folder) for folder in sorted(self._folder.iterdir()))
        return [each for each in found if each is not None]

    def get(self, upload_id: str) -> Upload:
        """The upload of that id."""
        found = self._read(self._folder / upload_id) if _ID.fullmatch(upload_id) else None
        if found is None:
            raise MissingError("This upload is gone", hint="Upload the file again.")
        return found

    def choose(self, upload: Upload, choices: dict[str, Any] | None) -> None:
        """Note how an upload is to be read, so that its import can go on after a restart."""
        file = upload.path.with_name(_CHOICES)
        if choices is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(json.dumps(choices), encoding="utf-8")

    def discard(self, upload: Upload) -> None:
        """Delete an upload."""
        shutil.rmtree(upload.path.parent, ignore_errors=True)

    def sweep(self) -> None:
        """Delete what a killed process left unfinished."""
        if self._folder.is_dir():
            for folder in self._folder.iterdir():
                if self._read(folder) is None:
                    shutil.rmtree(folder, ignore_errors=True)

    async def _write(self, path: Path, pieces: AsyncIterable[bytes]) -> int:
        file = await asyncio.to_thread(_new_file, path)
        size, held = 0, bytearray()
        try:
            async for piece in pieces:
                size += len(piece)
                if size > self.max_bytes:
                    raise self._too_large()
                held += piece
                if len(held) >= _WRITTEN_BYTES:
                    await asyncio.to_thread(file.write, bytes(held))
                    held.clear()
            await asyncio.to_thread(file.write, bytes(held))
        finally:
            await asyncio.to_thread(file.close)
        if not size:
            raise UsageError("The file is empty", hint="Choose the file that you exported.")
        return size

    def _check_room(self, expected_bytes: int) -> None:
        if expected_bytes > self.max_bytes:
            raise self._too_large()
        _new_folder(self._folder)
        free = shutil.disk_usage(self._folder).free - _RESERVE_BYTES
        if expected_bytes > free:
            raise CareError(
                f"The disk has no room for {expected_bytes:,} bytes",
                hint="Make room, or import the file where it is with `nexus import`.",
            )

    def _too_large(self) -> UsageError:
        return UsageError(
            f"The file is larger than {self.max_bytes:,} bytes",
            hint="Import it with `nexus import`, or raise `max_upload_bytes` below [gateway] in config.toml.",
        )

    def _read(self, folder: Path) -> Upload | None:
        if not folder.is_dir() or not _ID.fullmatch(folder.name):
            return None
        for path in folder.iterdir():
            if not path.name.startswith("."):
                file = folder / _CHOICES
                choices = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
                return Upload(id=folder.name, path=path, size_bytes=path.stat().st_size, choices=choices)
        return None


def file_name(given: str) -> str:
    """The last part of a name, without what a file name may not hold."""
    last = re.split(r"[/\\]", given)[-1]
    plain = "".join(character if character.isprintable() else " " for character in last)
    plain = " ".join(plain.split()).lstrip(". ")
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) <= 10:
        return f"{_cut(stem, _NAME_BYTES - len(ending.encode()))}.{ending}"
    return _cut(plain, _NAME_BYTES) or "export"


def _cut(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


def _new_file(path: Path) -> BinaryIO:
    file = path.open("xb")
    path.chmod(PRIVATE_FILE)
    return file


def _new_folder(folder: Path) -> None:
    folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
