"""The Agent Skills of a home and its workspaces: which there are, and which of them are enabled.

Agents are offered only what the owner has enabled as it is: a file below `.enabled` holds the hash of the
whole folder. A skill that differs from it is off until it is enabled again. No agent can write there.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from nexus import ids
from nexus.errors import MissingError, UsageError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.skills import folder
from nexus.skills.skill import File, Skill, Tree, check_name, read_skill, read_tree, sign_tree

MOST_ENABLED: Final = 100
"""In the home, and in each workspace."""
OWN: Final = frozenset({"memory", *folder.PAGES})
"""What Nexus lays into every workspace itself."""

State = Literal["enabled", "disabled", "changed", "broken"]
_WORKSPACE: Final = re.compile(r"[^./\0][^/\0]*")


@dataclass(frozen=True, kw_only=True, order=True)
class Reference:
    """Which skill is meant: one of the home, or of a workspace."""

    workspace: str = ""
    name: str

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Read `NAME`, or `WORKSPACE/NAME`."""
        workspace, _, name = text.rpartition("/")
        if workspace and not _WORKSPACE.fullmatch(workspace):
            raise UsageError(f"{workspace!r:.80} is not a workspace", hint="Use NAME or WORKSPACE/NAME.")
        return cls(workspace=workspace, name=check_name(name))

    def __str__(self) -> str:
        return f"{self.workspace}/{self.name}" if self.workspace else self.name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A skill as it lies there."""

    reference: Reference
    folder: Path
    state: State
    skill: Skill | None
    """None where it is broken."""
    problem: str = ""
    source: str = ""
    """Where it was added from; empty for one that was put there by hand."""


class Catalog:
    """The skills of one home. Everything here waits for the disk."""

    def __init__(self, home: Home) -> None:
        # Without links: the sandbox shows nothing through one.
        self._skills, self._workspaces = home.skills.resolve(), home.meeseeks.resolve()
        self._known: dict[Path, tuple[tuple[Any, ...], Skill]] = {}

    @property
    def may_offer(self) -> bool:
        """Whether a skill was ever enabled: a single look at the disk."""
        return (self._skills / ".enabled").is_dir()

    def list_entries(self) -> list[Entry]:
        """List all skills, those of the home first."""
        found = [Reference(name=each.name) for each in _list_folders(self._skills)]
        for workspace in _list_folders(self._workspaces):
            names = [each.name for each in _list_folders(workspace / "skills") if each.name not in OWN]
            found += [Reference(workspace=workspace.name, name=name) for name in names]
        return [self._describe(reference) for reference in sorted(found)]

    def get(self, reference: Reference) -> Entry:
        """Return one skill; MissingError if there is none."""
        if not self.folder(reference).is_dir():
            raise MissingError(f"No skill `{reference}`", hint="`nexus skills list` shows all.")
        return self._describe(reference)

    def read(self, reference: Reference) -> tuple[Skill, Tree]:
        """Read a skill with all its files; UsageError where it is broken."""
        if not self.folder(reference).is_dir():
            raise MissingError(f"No skill `{reference}`", hint="`nexus skills list` shows all.")
        tree = read_tree(self.folder(reference))
        return _check_folder(read_skill(tree), reference), tree

    def list_offered(self, directories: Iterable[str] = ()) -> list[Entry]:
        """List the enabled skills for an agent that reaches these directories.

        Its workspace is the first of them that is one. Where two have the same name, the home's is offered.
        """
        found = {each.reference.name: each for each in self._list_enabled("")}
        root = self._workspaces
        for directory in map(Path, directories):
            if directory.is_relative_to(root) and directory != root:
                workspace = directory.relative_to(root).parts[0]
                own = {each.reference.name: each for each in self._list_enabled(workspace)}
                found = {**own, **found}
                break
        return [found[name] for name in sorted(found)]

    def enable(self, reference: Reference, sha256: str) -> None:
        """Enable a skill as it was shown; UsageError where it is another by now."""
        skill, _ = self.read(reference)
        if skill.sha256 != sha256:
            raise UsageError(
                f"`{reference}` is not what was shown: its sha256 is {skill.sha256}",
                hint=f"Review it with `nexus skills show {reference}`.",
            )
        pin = self._pin(reference)
        others = [each for each in _list_names(pin.parent) if each != reference.name]
        if len(others) >= MOST_ENABLED:
            raise UsageError(
                f"{MOST_ENABLED} skills are enabled already", hint="Disable one: `nexus skills disable NAME`."
            )
        _write(pin, f"{sha256}\n".encode())

    def disable(self, reference: Reference) -> bool:
        """Disable a skill; False if it is not enabled."""
        try:
            self._pin(reference).unlink()
        except FileNotFoundError:
            return False
        return True

    def install(self, skill: Skill, tree: Tree, source: str, *, replace: bool = False) -> Entry:
        """Put a skill into the home, disabled. One that is there as it is stays as it is."""
        reference = Reference(name=skill.name)
        place = self.folder(reference)
        if place.exists() or place.is_symlink():
            with suppress(UsageError):
                if self.read(reference)[0].sha256 == skill.sha256:
                    return self._describe(reference)
            if not replace:
                raise UsageError(
                    f"The home has another skill named `{skill.name}`",
                    hint="Pass --replace, which disables it until you have reviewed the new one.",
                )
        self._skills.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        building = self._skills / f".{ids.new('new')}"
        try:
            _lay(building, tree)
            if place.exists() or place.is_symlink():
                self.remove(reference)
            _write(self._source_file(reference), source.encode(errors="replace"))
            building.rename(place)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return self._describe(reference)

    def remove(self, reference: Reference) -> None:
        """Disable a skill and delete its folder."""
        place = self.folder(reference)
        if not place.exists() and not place.is_symlink():
            raise MissingError(f"No skill `{reference}`", hint="`nexus skills list` shows all.")
        if os.path.realpath(place.parent) != str(place.parent):
            raise UsageError(f"{place} is reached through a symbolic link", hint="Delete it by hand.")
        self.disable(reference)
        gone = place.with_name(f".{ids.new('old')}")
        place.rename(gone)
        if gone.is_symlink():
            gone.unlink()
        else:
            shutil.rmtree(gone)
        if not reference.workspace:
            self._source_file(reference).unlink(missing_ok=True)

    def read_file(self, entry: Entry, path: str) -> File:
        """Read one file of an enabled skill, as it was when it was enabled."""
        tree = read_tree(entry.folder)
        if entry.skill is None or read_skill(tree).sha256 != entry.skill.sha256:
            raise UsageError(f"The skill `{entry.reference}` was changed")
        if path not in tree:
            raise UsageError(
                f"The skill `{entry.reference}` has no file {path!r:.80}",
                hint=f"Files: {', '.join(entry.skill.files[:40])}.",
            )
        return tree[path]

    def folder(self, reference: Reference) -> Path:
        """Where a skill lies, by a path without links above the home."""
        if reference.workspace:
            return self._workspaces / reference.workspace / "skills" / reference.name
        return self._skills / reference.name

    def _list_enabled(self, workspace: str) -> Iterator[Entry]:
        pins = self._pin(Reference(workspace=workspace, name="any")).parent
        for name in _list_names(pins):
            with suppress(UsageError, OSError):
                reference = Reference(workspace=workspace, name=check_name(name))
                entry = self._describe(reference, with_source=False)
                if entry.state == "enabled":
                    yield entry

    def _describe(self, reference: Reference, *, with_source: bool = True) -> Entry:
        place, pin = self.folder(reference), self._read_pin(reference)
        source = _read(self._source_file(reference)) if with_source and not reference.workspace else ""
        skill, problem = None, ""
        try:
            skill = _check_folder(self._load(place), reference)
            state: State = "disabled" if not pin else "enabled" if pin == skill.sha256 else "changed"
        except UsageError as error:
            state, problem = "broken", " ".join(filter(None, (f"{error.message}.", error.hint)))
        return Entry(
            reference=reference, folder=place, state=state, skill=skill, problem=problem, source=source
        )

    def _load(self, place: Path) -> Skill:
        """Read a folder again only if it has changed."""
        signature = sign_tree(place)
        known = self._known.get(place)
        if known is not None and known[0] == signature:
            return known[1]
        skill = read_skill(read_tree(place))
        # What changed while it was read is read again the next time.
        self._known[place] = (signature, skill)
        return skill

    def _pin(self, reference: Reference) -> Path:
        enabled = self._skills / ".enabled"
        if reference.workspace:
            return enabled / "workspaces" / reference.workspace / reference.name
        return enabled / "home" / reference.name

    def _read_pin(self, reference: Reference) -> str:
        return _read(self._pin(reference)).strip()

    def _source_file(self, reference: Reference) -> Path:
        return self._skills / ".sources" / reference.name


def _check_folder(skill: Skill, reference: Reference) -> Skill:
    if skill.name != reference.name:
        raise UsageError(
            f"Its name is `{skill.name}`, and its folder is `{reference.name}`",
            hint="Give both the same name.",
        )
    return skill


def _list_folders(place: Path) -> list[Path]:
    """The visible folders of a place that hold a skill or may; no links."""
    try:
        with os.scandir(place) as entries:
            return [
                place / entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _list_names(place: Path) -> list[str]:
    try:
        return sorted(each.name for each in place.iterdir() if not each.name.startswith("."))
    except OSError:
        return []


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically, with the folders above it."""
    file.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    building = file.with_name(f".{ids.new('new')}")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    building.replace(file)


def _lay(place: Path, tree: Tree) -> None:
    place.mkdir(mode=PRIVATE_DIRECTORY)
    for path, file in tree.items():
        target = place / path
        target.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(PRIVATE_DIRECTORY if file.is_program else PRIVATE_FILE)
