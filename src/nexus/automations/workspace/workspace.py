"""The workspace of an automation as its code sees it: its own files, and those of its peers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

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


@dataclass(frozen=True)
class Peer:
    """The workspace of another automation, which this one may read and write."""

    name: str
    folder: Folder

    @property
    def dir(self) -> Path:
        return self.folder.path

    def read_file(self, filename: str) -> str:
        return self.folder.read(filename)

    def write_file(self, filename: str, content: str) -> None:
        self.folder.write(filename, content)


@dataclass(frozen=True)
class Workspace:
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

    def read_file(self, filename: str) -> str:
        return self.folder.read(filename)

    def write_file(self, filename: str, content: str) -> None:
        self.folder.write(filename, content)

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
    made = [name for name, text in {ROLE: role, **_SEEDS}.items() if folder.write_new(name, text)]
    skills = path / SKILL_FOLDER
    if not skills.is_symlink():
        skills.mkdir(mode=0o700, exist_ok=True)
    return made
