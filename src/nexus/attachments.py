"""Files that come with a message, kept by the hash of their bytes below the home.

The events ledger says which event brought which file, so that forgetting an event takes its files along.
The same bytes are kept once, whoever sends them.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from nexus.errors import UsageError
from nexus.home import PRIVATE_DIRECTORY, Home
from nexus.text import join_lines

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"#!AMR", "audio/amr"),
)
_MP3: Final = re.compile(rb"\xff[\xf2\xf3\xfa\xfb]")
_ADTS: Final = re.compile(rb"\xff[\xf0\xf1\xf8\xf9]")
# Containers of sound and of films. A film says what its track of pictures is.
_MP4: Final = re.compile(rb".{4}ftyp(?:M4[AB] |dash|iso[m2-9]|mp4[12]|3gp)", re.DOTALL)
_MATROSKA: Final = b"\x1a\x45\xdf\xa3"
_PICTURES: Final = re.compile(rb"hdlr.{8}vide|V_(?:VP[89]|AV1|MPEG|MS/)", re.DOTALL)
_NAME_CHARACTERS: Final = 200
_PIECE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class File:
    """A file as somebody hands it over."""

    name: str
    data: bytes

    @classmethod
    def read(cls, path: Path, most_bytes: int) -> Self:
        """A file of this machine. Of one that is too large no more is read than shows it."""
        try:
            with path.open("rb") as file:
                return cls(name=path.name, data=file.read(most_bytes + 1))
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}") from error


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file that is kept."""

    name: str
    media_type: str
    """What its bytes are, whatever its name says."""
    size_bytes: int
    sha256: str

    @property
    def path(self) -> str:
        """Where it is, below the home."""
        return f"state/attachments/{self.sha256[:2]}/{self.sha256}"

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")

    @property
    def is_audio(self) -> bool:
        return self.media_type.startswith("audio/")

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**value)


def identify(file: File, most_bytes: int) -> Attachment:
    """What a file is. One of a kind that nobody could read, or that is too large, is refused."""
    name = join_lines(file.name)[:_NAME_CHARACTERS] or "file"
    if len(file.data) > most_bytes:
        raise UsageError(
            f"{name} is too large: {len(file.data):,} bytes or more, at most {most_bytes:,} are taken",
            hint="Send a smaller file, or raise `max_bytes` below [attachments] in config.toml.",
        )
    media_type = detect_type(file.data)
    if media_type is None:
        raise UsageError(
            f"{name} is neither an image, a recording, a PDF nor text",
            hint="PNG, JPEG, GIF and WebP images, recordings, PDF files and text in UTF-8 can be attached.",
        )
    return Attachment(
        name=name,
        media_type=media_type,
        size_bytes=len(file.data),
        sha256=hashlib.sha256(file.data).hexdigest(),
    )


def keep(home: Home, attachment: Attachment, data: bytes) -> None:
    """Keep a file, whole or not at all: what has a hash as its name has that hash."""
    path = home.root / attachment.path
    if path.exists():
        return
    path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    with _open_temporary(path.parent) as (file, temporary):
        file.write(data)
        _finish(file, temporary, path)


def keep_stream(
    home: Home,
    stream: IO[bytes],
    *,
    name: str | None,
    media_type: str,
    most_bytes: int,
    note: Callable[[str], None] = lambda path: None,
) -> Attachment | None:
    """Keep what a stream holds, piece by piece. Returns None, and keeps nothing, if it is too large.

    `media_type` is used unless the bytes tell. `note` gets the path of a new file before it is there.
    """
    folder = home.root / "state/attachments"
    folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    digest, size, start = hashlib.sha256(), 0, b""
    with _open_temporary(folder) as (file, temporary):
        while piece := stream.read(_PIECE_BYTES):
            size += len(piece)
            if size > most_bytes:
                return None
            start = start or piece[:16]
            digest.update(piece)
            file.write(piece)
        kept = Attachment(
            name=join_lines(name or "")[:_NAME_CHARACTERS] or "file",
            media_type=_detect_signature(start) or media_type,
            size_bytes=size,
            sha256=digest.hexdigest(),
        )
        path = home.root / kept.path
        if not path.exists():
            path.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
            note(kept.path)
            _finish(file, temporary, path)
    return kept


@contextmanager
def _open_temporary(folder: Path) -> Generator[tuple[IO[bytes], Path]]:
    """A file that is gone in the end, unless it was moved to its place."""
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file, Path(temporary)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _finish(file: IO[bytes], temporary: Path, path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    temporary.replace(path)


def read(home: Home, attachment: Attachment) -> bytes | None:
    """The bytes of a file; None where it was forgotten."""
    try:
        return (home.root / attachment.path).read_bytes()
    except FileNotFoundError:
        return None


def detect_type(data: bytes) -> str | None:
    """What a file is, by its bytes; None where it is nothing that can be attached."""
    signed = _detect_signature(data) or _detect_sound(data)
    if signed is not None:
        return signed
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else "text/plain"


def _detect_signature(data: bytes) -> str | None:
    """The type that the first bytes of a file name."""
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            return media_type
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])
    if _MP3.match(data):
        return "audio/mpeg"
    return "audio/aac" if _ADTS.match(data) else None


def _detect_sound(data: bytes) -> str | None:
    """The type of a container that holds sound and no pictures."""
    media_type = "audio/mp4" if _MP4.match(data) else "audio/webm" if data.startswith(_MATROSKA) else None
    return None if media_type is None or _PICTURES.search(data) else media_type
