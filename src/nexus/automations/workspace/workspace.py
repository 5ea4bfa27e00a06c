"""The workspace of an automation as its code sees it: its own files, and those of its peers."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from nexus.automations.workspace.folder import Folder
from nexus.errors import WorkspaceError

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


@dataclass(frozen=True)
class Workspace(Files):
    """One automation's workspace. `peers` are found by their names."""

    folder: Folder
    peers: Mapping[str, Peer] = field(default_factory=dict[str, Peer])

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
        return cls(Folder(path), {name: Peer(name, Folder(where)) for name, where in peers.items()})


def place(meeseeks: Path, recorded: str) -> Path:
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


def bootstrap(path: Path, role: str) -> list[str]:
    """Make what is missing of a workspace; returns the names of the files that were made."""
    path.mkdir(mode=0o700, exist_ok=True)
    folder = Folder(path)
    missing = {
        name: text for name, text in {ROLE: role, **_SEEDS}.items() if not os.path.lexists(path / name)
    }
    made = [name for name, text in missing.items() if folder.write_new(name, text)]
    skills = path / SKILL_FOLDER
    if not skills.is_symlink():
        skills.mkdir(mode=0o700, exist_ok=True)
    return made
