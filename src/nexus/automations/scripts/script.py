"""A script as it lies on disk: what it is, and the hash that tells whether it is what was registered."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from nexus.errors import ScriptError

HOOK_FILE = "HOOK.md"
_MOST_BYTES = 4 * 1024 * 1024
_MOST_FILES = 500
_NOT_CODE = frozenset({"__pycache__", ".git", ".DS_Store"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """One version of a script. What is run is what was read here, and not read again."""

    path: Path
    hash: str
    source: str | None
    """The text of a Python script; None where it is a program to be started."""
    folder: Path | None
    """The folder whose files belong to it, where it has a HOOK.md."""


def read(path: Path) -> Script:
    """The script at a path; raises ScriptError where there is none that could be run."""
    folder = path.parent if (path.parent / HOOK_FILE).is_file() else None
    try:
        content = _read_content(path)
        hash_ = _hash_folder(folder) if folder else hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise ScriptError(f"Can't read {path}: {error.strerror}") from error
    if path.suffix == ".py":
        return Script(path=path, hash=hash_, source=_decode(path, content), folder=folder)
    if not os.access(path, os.X_OK):
        raise ScriptError(
            f"{path} is neither a Python script nor a program",
            hint="Name it `.py`, or make it executable with `chmod +x`.",
        )
    return Script(path=path, hash=hash_, source=None, folder=folder)


def _read_content(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ScriptError(f"{path} is larger than {_MOST_BYTES // 1024**2} MiB")
    return path.read_bytes()


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ScriptError(f"{path} is not UTF-8 text: {error}") from error


def _hash_folder(folder: Path) -> str:
    """Of every file by name and content: a handler may import what lies beside it."""
    whole = hashlib.sha256()
    found = sorted(list_files(folder))
    if len(found) > _MOST_FILES:
        raise ScriptError(f"{folder} holds more than {_MOST_FILES} files")
    for file in found:
        name = file.relative_to(folder).as_posix()
        whole.update(f"{name}\0{hashlib.sha256(_read_content(file)).hexdigest()}\n".encode())
    return whole.hexdigest()


def list_files(folder: Path) -> list[Path]:
    """The files that belong to a script's folder."""
    found: list[Path] = []
    for place, directories, names in os.walk(folder):
        directories[:] = [each for each in directories if each not in _NOT_CODE]
        found += [Path(place, name) for name in names if name not in _NOT_CODE]
    return found
