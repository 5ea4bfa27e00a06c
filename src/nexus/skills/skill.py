"""One Agent Skill: a folder with a SKILL.md, read whole, checked and hashed.

The format is open (agentskills.io): front matter with a name and a description, instructions, and files
beside them. A skill may come from anybody, so nothing here follows a link, and everything has a limit.
"""

import hashlib
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from nexus.errors import UsageError
from nexus.text import join_lines

MANIFEST: Final = "SKILL.md"
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_FILES: Final = 500
_MOST_MANIFEST_BYTES: Final = 128 * 1024
_MOST_DEPTH: Final = 8
_MOST_FRONT_MATTER: Final = 16 * 1024
_MOST_YAML_DEPTH: Final = 6
_LONGEST_NAME: Final = 64
_LONGEST_DESCRIPTION: Final = 1024
_LONGEST_COMPATIBILITY: Final = 500

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PARTS: Final = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL)
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe in the place of a file must not keep its reader waiting.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of a skill."""

    content: bytes
    is_program: bool = False

    @property
    def text(self) -> str | None:
        """Its text; None for what is no text."""
        try:
            return None if b"\0" in self.content else self.content.decode()
        except UnicodeDecodeError:
            return None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


Tree = Mapping[str, File]
"""The files of a folder by their paths, with `/` between directories."""


@dataclass(frozen=True, kw_only=True)
class Skill:
    """What a folder holds, checked against the format."""

    name: str
    description: str
    """On one line."""
    instructions: str
    files: tuple[str, ...]
    """The paths of all files, SKILL.md first."""
    scripts: tuple[str, ...]
    sha256: str
    """Of all files: their paths, modes and contents."""
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """What it asks for. It is given to nobody: an agent keeps its own rights."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def read_skill(tree: Tree) -> Skill:
    """Read the files of one folder as a skill; UsageError where they aren't one."""
    if MANIFEST not in tree:
        raise UsageError(f"It has no {MANIFEST}")
    if len(tree[MANIFEST].content) > _MOST_MANIFEST_BYTES:
        raise UsageError(f"{MANIFEST} is larger than {_MOST_MANIFEST_BYTES // 1024} KiB")
    text = tree[MANIFEST].text
    if text is None:
        raise UsageError(f"{MANIFEST} isn't UTF-8 text")
    given, instructions = _split(text)
    paths = sorted(tree, key=lambda path: (path != MANIFEST, path))
    return Skill(
        name=check_name(_read_text(given, "name", _LONGEST_NAME, is_required=True)),
        description=_read_text(given, "description", _LONGEST_DESCRIPTION, is_required=True),
        instructions=instructions.strip(),
        files=tuple(paths),
        scripts=tuple(path for path in paths if _is_script(path, tree[path])),
        sha256=hash_tree(tree),
        license=_read_text(given, "license", _LONGEST_COMPATIBILITY),
        compatibility=_read_text(given, "compatibility", _LONGEST_COMPATIBILITY),
        allowed_tools=_read_text(given, "allowed-tools", _LONGEST_DESCRIPTION),
        metadata=_read_metadata(given),
    )


def check_name(name: str) -> str:
    """Refuse what the format doesn't allow as a name."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r:.80} is not a name of a skill",
            hint=f"A name has lowercase letters, digits and single hyphens, {_LONGEST_NAME} at most.",
        )
    return name


def hash_tree(tree: Tree) -> str:
    """Hash everything that makes a difference: paths, contents, and what may be run as a program."""
    listed = [[path, tree[path].is_program, tree[path].sha256] for path in sorted(tree)]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def read_tree(folder: Path, is_left_out: Callable[[str], bool] = lambda name: False) -> dict[str, File]:
    """Read every file of a folder; UsageError for links, for devices, and for too much.

    `is_left_out` is asked about the name of each file and directory.
    """
    tree: dict[str, File] = {}
    with _open_folder(folder) as opened:
        for path, parent, status in _walk(opened, is_left_out):
            descriptor = os.open(path.rpartition("/")[2], _FILE, dir_fd=parent)
            with os.fdopen(descriptor, "rb") as stream:
                content = stream.read(MOST_BYTES + 1)
            tree[path] = File(content=content, is_program=bool(status.st_mode & stat.S_IXUSR))
            # Sizes were looked at before: a file may have grown.
            check_limits(len(tree), sum(len(each.content) for each in tree.values()))
    return tree


def sign_tree(folder: Path) -> tuple[Any, ...]:
    """Describe a folder so that any change of it gives another value, without reading its files.

    The time of a change of a file's metadata can't be set by whoever may write to it.
    """
    found: list[tuple[Any, ...]] = []

    def sign(directory: int, above: str) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                path, status = f"{above}{entry.name}", entry.stat(follow_symlinks=False)
                times = status.st_mtime_ns, status.st_ctime_ns
                found.append((path, status.st_ino, status.st_size, status.st_mode, *times))
                check_limits(len(found) // 4, 0)
                if stat.S_ISDIR(status.st_mode) and path.count("/") < _MOST_DEPTH:
                    inner = os.open(entry.name, _DIRECTORY, dir_fd=directory)
                    try:
                        sign(inner, f"{path}/")
                    finally:
                        os.close(inner)

    with _open_folder(folder) as opened:
        sign(opened, "")
    return tuple(sorted(found))


def check_limits(files: int, size_bytes: int) -> None:
    """Refuse a skill that is too large."""
    if files > MOST_FILES:
        raise UsageError(f"It has more than {MOST_FILES} files")
    if size_bytes > MOST_BYTES:
        raise UsageError(f"It is larger than {MOST_BYTES // 1024**2} MiB")


def check_path(path: str) -> str:
    """Refuse a path that leads out of a folder, or that can't be shown as it is."""
    parts = path.split("/")
    if not path or len(parts) > _MOST_DEPTH or any(part in {"", ".", ".."} for part in parts):
        raise UsageError(f"{path!r:.80} is not a path below a folder")
    if "\\" in path or not path.isprintable() or any(map(is_invisible, path)):
        raise UsageError(f"{path!r:.80} has a character that no file of a skill may have in its name")
    return path


def is_invisible(character: str) -> bool:
    """Whether a model reads a character that a person doesn't see; also for control characters."""
    selects = 0xFE00 <= ord(character) <= 0xFE0E or 0xE0100 <= ord(character) <= 0xE01EF
    return selects or unicodedata.category(character) in _INVISIBLE


@contextmanager
def _open_folder(folder: Path) -> Generator[int]:
    if os.path.realpath(folder) != str(folder):
        # An agent may write to the folders above it, and the sandbox shows nothing through a link.
        raise UsageError(f"{folder} is reached through a symbolic link")
    try:
        opened = os.open(folder, _DIRECTORY)
    except OSError as error:
        raise UsageError(f"{folder} is not a folder: {error.strerror}") from error
    try:
        yield opened
    except OSError as error:
        raise UsageError(f"{folder} can't be read: {error.strerror}") from error
    finally:
        os.close(opened)


def _walk(root: int, is_left_out: Callable[[str], bool]) -> Iterator[tuple[str, int, os.stat_result]]:
    """Every file in the order of its path, with its open directory and its state."""
    count = size_bytes = 0

    def walk(directory: int, above: str) -> Iterator[tuple[str, int, os.stat_result]]:
        nonlocal count, size_bytes
        with os.scandir(directory) as entries:
            names: list[str] = []
            for entry in entries:
                names.append(entry.name)
                check_limits(len(names), 0)
        for name in sorted(names):
            if is_left_out(name):
                continue
            path = check_path(f"{above}{name}")
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                inner = os.open(name, _DIRECTORY, dir_fd=directory)
                try:
                    yield from walk(inner, f"{path}/")
                finally:
                    os.close(inner)
            elif stat.S_ISREG(status.st_mode):
                count, size_bytes = count + 1, size_bytes + status.st_size
                check_limits(count, size_bytes)
                yield path, directory, status
            else:
                kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
                raise UsageError(f"`{path}` is {kind}", hint="A skill has only files and folders.")

    return walk(root, "")


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The front matter of a SKILL.md and what follows it."""
    found = _PARTS.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if found is None:
        raise UsageError(f"{MANIFEST} doesn't begin with front matter between two lines `---`")
    if len(found[1]) > _MOST_FRONT_MATTER:
        raise UsageError(f"The front matter of {MANIFEST} is larger than {_MOST_FRONT_MATTER // 1024} KiB")
    try:
        depth = 0
        events = cast("Any", yaml).parse(found[1], Loader=yaml.BaseLoader)
        for event in cast("Iterator[object]", events):
            if isinstance(event, yaml.AliasEvent):
                raise UsageError(f"The front matter of {MANIFEST} has an alias (`*`)")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_YAML_DEPTH:
                raise UsageError(f"The front matter of {MANIFEST} is nested too deeply")
        # All scalars are texts to this loader, and it makes no objects.
        given: object = yaml.load(found[1], Loader=yaml.BaseLoader)  # noqa: S506 - it is safer than SafeLoader
    except yaml.YAMLError as error:
        raise UsageError(f"The front matter of {MANIFEST} is not YAML: {error}") from error
    if not isinstance(given, dict):
        raise UsageError(f"The front matter of {MANIFEST} is no list of keys and values")
    return cast("dict[str, Any]", given), found[2]


def _read_text(given: Mapping[str, Any], key: str, most: int, *, is_required: bool = False) -> str:
    value: object = given.get(key, "")
    if isinstance(value, list):  # some write the tools as a list
        value = " ".join(map(str, cast("list[object]", value)))
    if not isinstance(value, str):
        raise UsageError(f"`{key}` in the front matter isn't text")
    line = join_lines(value)
    if is_required and not line:
        raise UsageError(f"The front matter has no `{key}`")
    if len(line) > most:
        raise UsageError(f"`{key}` has {len(line):,} characters (maximum {most:,})")
    if any(is_invisible(each) and each not in _JOINERS for each in line):
        raise UsageError(f"`{key}` in the front matter has invisible characters")
    return line


def _read_metadata(given: Mapping[str, Any]) -> dict[str, str]:
    found: object = given.get("metadata") or {}
    if not isinstance(found, dict):
        raise UsageError("`metadata` in the front matter is no list of keys and values")
    return {
        join_lines(str(key)): join_lines(str(value))
        for key, value in cast("dict[object, object]", found).items()
    }


def _is_script(path: str, file: File) -> bool:
    return file.is_program or path.startswith("scripts/") or file.content.startswith(b"#!")
