"""The memory skill: what an agent needs to ask the six ledgers with sqlite3, to search, and to write."""

import sys
from pathlib import Path
from typing import Final

from nexus.config import LedgersConfig
from nexus.home import LEDGERS, Home
from nexus.ledgers import attach
from nexus.skills.folder import Seeded, install_skill
from nexus.skills.memory.schema import page
from nexus.skills.memory_socket import SOCKET

NAME: Final = "memory"
_ABOUT_PATHS: Final = (
    "# Agents of an automation can open the databases if it is registered with --ledgers. "
    "Without it, use memory-search.sh.\n"
)
_HERE: Final = Path(__file__).parent
_STATIC_FILES: Final = (
    "QUERIES.md",
    "client.sh",
    "memory-models.sh",
    "memory-search.sh",
    "memory-write.sh",
    "cortex-search.sh",
    "cortex-write.sh",
)


def install(home: Home, workspace: Path, socket_folder: Path) -> Seeded:
    """Install or update the skill in a workspace; its scripts use the socket in that folder."""
    return install_skill(workspace, NAME, make_files(home, socket_folder))


def make_files(home: Home, socket_folder: Path) -> dict[str, str]:
    """Return every file of the skill, by name."""
    made = {"DB_PATHS": _format_paths(home, socket_folder), "SCHEMA.md": page()}
    return made | {name: (_HERE / name).read_text(encoding="utf-8") for name in _STATIC_FILES}


def longest_read_ms(settings: LedgersConfig) -> int:
    """Limit how long a sandbox may read live ledgers.

    Whoever can read a file can hold a lock on it, and a writer gives up after its busy timeout.
    """
    return settings.busy_timeout_ms * 2 // 3


def _format_paths(home: Home, socket_folder: Path) -> str:
    paths = {
        **{name: home.ledger(name) for name in LEDGERS},
        "attach": attach.path(home, writes=False),
        "socket": socket_folder / SOCKET,
        "home": home.root,
        "nexus": Path(sys.executable).with_name("nexus"),
    }
    return _ABOUT_PATHS + "".join(f"{name}={path}\n" for name, path in paths.items())
