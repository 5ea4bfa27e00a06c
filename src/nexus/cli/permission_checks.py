"""What `nexus doctor` looks at in the modes of files: that you can use the home, and that nobody else can."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from nexus.cli.findings import Finding
from nexus.config import Config
from nexus.errors import ConfigError
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.pipeline.access import directory


def closed(home: Home) -> Iterator[Finding]:
    """A folder that you yourself cannot enter or write: nothing behind it can be looked at."""
    for path in (home.root, home.data, home.state, home.logs, home.run):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield Finding(
                check="permissions",
                level="error",
                message=f"{path} cannot be reached: {error.strerror}",
                remedy=f"Check its parent folders: `namei -l '{path}'`.",
            )
            return
        if stat.S_ISDIR(mode) and mode & PRIVATE_DIRECTORY != PRIVATE_DIRECTORY:
            yield _closed(path, PRIVATE_DIRECTORY)
            return


def examine(home: Home) -> Iterator[Finding]:
    """What others can reach, what you cannot, and what belongs to somebody else."""
    wanted = list(_wanted(home))
    foreign = [path for path, _ in wanted if path.stat().st_uid != os.getuid()]
    wrong = [finding for path, mode in wanted for finding in _compared(path, mode)]
    yield from wrong
    for path in foreign:
        yield Finding(
            check="permissions",
            level="warning",
            message=f"{path} belongs to another user (uid {path.stat().st_uid})",
            remedy=f"Run `sudo chown -R $(id -u) '{home.root}'`.",
        )
    if not wrong and not foreign:
        yield Finding(check="permissions", level="ok", message="Only you have access")


def grants(home: Home, loaded: Config) -> Iterator[Finding]:
    """Directories granted to agents that hold the home."""
    root = home.root.resolve()
    for text in loaded.tools.directories:
        try:
            place = Path(directory(text).path).resolve()
        except ConfigError as error:
            yield Finding(check="grants", level="error", message=error.message, remedy=error.hint)
            continue
        if root.is_relative_to(place):
            yield Finding(
                check="grants",
                level="warning",
                message=f"`{text}` in [tools] directories contains the home; agents see {root} as empty",
                remedy="Grant only the directories in it that agents need.",
            )


def secret_files(loaded: Config) -> Iterator[Finding]:
    """Files outside of the home that hold keys."""
    sources = {
        source for each in loaded.providers.values() for source in (each.api_key, each.auth_token) if source
    }
    for source in sorted(sources):
        kind, _, place = source.partition(":")
        path = Path(place).expanduser()
        if kind == "file" and path.is_file() and path.stat().st_uid == os.getuid():
            yield from _compared(path, PRIVATE_FILE)


def _wanted(home: Home) -> Iterator[tuple[Path, int]]:
    files = [home.config_file, home.lock_file, home.token_file, *home.data.iterdir()]
    folders = [*home.directories, home.secrets]
    yield from ((path, PRIVATE_DIRECTORY) for path in folders if path.is_dir())
    yield from ((path, PRIVATE_FILE) for path in files if path.is_file())


def _compared(path: Path, wanted: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & wanted != wanted:
        yield _closed(path, wanted)
    elif mode & 0o077:
        yield Finding(
            check="permissions",
            level="error",
            message=f"{path} is accessible to other users ({stat.filemode(path.stat().st_mode)})",
            remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
            fix=lambda: path.chmod(wanted),
        )


def _closed(path: Path, wanted: int) -> Finding:
    return Finding(
        check="permissions",
        level="error",
        message=f"No read and write access to {path} ({stat.filemode(path.stat().st_mode)})",
        remedy=f"Run `nexus doctor --fix` or `chmod {wanted:o} '{path}'`.",
        fix=lambda: path.chmod(wanted),
    )
