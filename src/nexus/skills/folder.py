"""Install a skill's files in a workspace, and update them without erasing edits.

A file is replaced only if its hash is that of the installed version. An edited file stays, and the new
version is written beside it as NAME.new. The workspace may be writable to an agent, so nothing
here follows a symbolic link.
"""

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final, cast

from nexus import ids
from nexus.errors import ToolError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE

RECORD: Final = ".seeded.json"
NEW: Final = ".new"
_PROGRAM: Final = 0o700
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """What was installed: names of files, relative to the skill's folder."""

    folder: Path
    laid: list[str] = field(default_factory=list[str])
    replaced: list[str] = field(default_factory=list[str])
    edited: list[str] = field(default_factory=list[str])
    """Kept as they are, with a new version beside them."""


def install_skill(workspace: Path, skill: str, files: Mapping[str, str]) -> Seeded:
    """Install or update a skill's files in `workspace/skills/SKILL`."""
    return _install(workspace, ("skills", skill), files)


def install_files(workspace: Path, files: Mapping[str, str]) -> Seeded:
    """Install or update files in the workspace itself, which is made if it is missing."""
    workspace.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    return _install(workspace, (), files)


def _install(workspace: Path, parts: tuple[str, ...], files: Mapping[str, str]) -> Seeded:
    done = Seeded(folder=workspace.joinpath(*parts))
    with _open_folder(workspace, parts) as folder:
        known = _read_record(folder)
        record = dict(known)
        for name, text in files.items():
            record[name] = _update_file(folder, name, text.encode(), record.get(name), done)
        if record != known:
            _write(folder, RECORD, json.dumps(record, indent=1, sort_keys=True).encode())
    return done


def find_new_versions(workspaces: Path) -> list[Path]:
    """Find the new versions beside edited files, in all workspaces of a folder."""
    return sorted([*workspaces.glob(f"*/*{NEW}"), *workspaces.glob(f"*/skills/*/*{NEW}")])


def _update_file(folder: int, name: str, wanted: bytes, laid: str | None, done: Seeded) -> str:
    """Install or update one file; return the hash to record."""
    found, hashed = _read(folder, name), _hash(wanted)
    if found == wanted:
        _remove_if(folder, name + NEW, wanted)
    elif found is None and not _exists(folder, name):
        _write(folder, name, wanted)
        done.laid.append(name)
    elif found is not None and _hash(found) == laid:
        _write(folder, name, wanted)
        _remove_if(folder, name + NEW, None)
        done.replaced.append(name)
    elif hashed != laid:
        _write(folder, name + NEW, wanted)
        done.edited.append(name)
    return hashed


@contextmanager
def _open_folder(workspace: Path, parts: tuple[str, ...]) -> Generator[int]:
    """Open a folder below the workspace through no symbolic link. It is made if it is missing."""
    held = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            with suppress(FileExistsError):
                os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=held)
            try:
                inner = os.open(part, _DIRECTORY, dir_fd=held)
            except OSError as error:
                raise ToolError(
                    f"{workspace / Path(*parts)} is not a folder: {error.strerror}",
                    hint="Remove what is there, and run it again.",
                ) from error
            os.close(held)
            held = inner
        yield held
    finally:
        os.close(held)


def _read(folder: int, name: str) -> bytes | None:
    """Return a plain file's content; None for anything else."""
    try:
        descriptor = os.open(name, _READ | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        try:
            return stream.read(_LARGEST_BYTES)
        except OSError:
            return None


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write(folder: int, name: str, content: bytes) -> None:
    """Write a file atomically."""
    building = f".{name}.{ids.new('new')}"
    mode = _PROGRAM if name.removesuffix(NEW).endswith(".sh") else PRIVATE_FILE
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.rename(building, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(building, dir_fd=folder)
        raise


def _remove_if(folder: int, name: str, content: bytes | None) -> None:
    """Remove a file if it has this content; with None, in any case."""
    found = _read(folder, name)
    if found is not None and content in {None, found}:
        os.unlink(name, dir_fd=folder)


def _read_record(folder: int) -> dict[str, str]:
    try:
        loaded = json.loads(_read(folder, RECORD) or b"{}")
    except ValueError:
        return {}
    if not isinstance(loaded, dict):
        return {}
    return {str(name): str(hashed) for name, hashed in cast("dict[object, object]", loaded).items()}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


PAGES: Final = {"memory-search": "memory_search", "memory-reflect": "memory_reflect"}
"""The name of each skill, and the folder of its page."""


def install_pages(workspace: Path) -> list[Seeded]:
    """Install or update the skills' pages in a workspace."""
    return [install_skill(workspace, name, {"SKILL.md": read_page(name)}) for name in PAGES]


def read_page(name: str) -> str:
    """Return the page of a skill."""
    return resources.files("nexus.skills").joinpath(PAGES[name], "SKILL.md").read_text(encoding="utf-8")
