"""Who may reach what. It is decided from the ledgers and the settings alone, never from what is said."""

from fnmatch import fnmatchcase
from pathlib import Path

from nexus.config import ToolsConfig
from nexus.errors import ConfigError
from nexus.ledgers.identity.access import Granted
from nexus.request import Access, Grant


def owner(tools: ToolsConfig) -> Access:
    """What the owner's own agent may reach, by the settings."""
    return Access(
        level="owner",
        tools=None,
        directories=tuple(map(directory, tools.directories)),
        network=tools.network,
        memory="all",
        sessions=("*",),
    )


def known(granted: Granted) -> Access:
    """What somebody may reach whom the owner granted something."""
    return Access(
        level="known",
        tools=frozenset(granted.tools),
        directories=tuple(map(directory, granted.directories)),
        network=granted.network,
        memory=granted.memory,
        sessions=granted.sessions,
    )


def may_use(access: Access, session_label: str, own_session: str) -> bool:
    """Whether a session may be used: one's own, or one that was granted."""
    return session_label == own_session or any(
        fnmatchcase(session_label, pattern) for pattern in access.sessions
    )


def directory(text: str) -> Grant:
    """A directory as the settings write it: `~/notes`, or `~/notes:rw`."""
    path, colon, mode = text.rpartition(":")
    writable = bool(colon) and mode == "rw"
    place = Path(path if writable else text).expanduser()
    if not place.is_absolute() or ".." in place.parts:
        raise ConfigError(
            f"`{text}` is not an absolute path of a directory", hint="Write it as ~/notes or ~/notes:rw."
        )
    return Grant(path=str(place), writable=writable)
