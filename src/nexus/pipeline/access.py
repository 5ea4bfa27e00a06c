"""Who may reach what. It is decided from the ledgers and the settings alone, never from what is said."""

from fnmatch import fnmatchcase
from pathlib import Path

from nexus.config import ToolsConfig
from nexus.errors import ConfigError
from nexus.home import Home
from nexus.ledgers.identity.access import Granted
from nexus.request import Access, Grant


def owner(tools: ToolsConfig, home: Home) -> Access:
    """What the owner's own agent may reach, by the settings."""
    return Access(
        level="owner",
        tools=None,
        directories=_outside(home, tuple(map(directory, tools.directories))),
        network=tools.network,
        memory="all",
        sessions=("*",),
    )


def of_contact(granted: Granted, home: Home) -> Access:
    """What somebody may reach whom the owner granted something."""
    return Access(
        level="known",
        tools=frozenset(granted.tools),
        directories=_outside(home, tuple(map(directory, granted.directories))),
        network=granted.network,
        memory=granted.memory,
        sessions=granted.sessions,
    )


def may_use(access: Access, session_label: str, own_session: str) -> bool:
    """Whether a session may be used: one's own, or one that was granted."""
    return session_label == own_session or any(
        fnmatchcase(session_label, pattern) for pattern in access.sessions
    )


def _outside(home: Home, grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
    root, workspaces = home.root.resolve(), home.meeseeks.resolve()
    for grant in grants:
        place = Path(grant.path).resolve()
        if not grant.writable or workspaces in place.parents:
            continue
        # An agent that can write its own settings, prompt or scripts can give itself any right, and start
        # any program.
        if root.is_relative_to(place):
            raise ConfigError(
                f"`{grant.path}:rw` holds the home itself, {root}",
                hint="Grant it without `:rw`, or grant only the directories in it that are to be written.",
            )
        if place.is_relative_to(root):
            raise ConfigError(
                f"`{grant.path}:rw` belongs to the home, {root}",
                hint=f"Grant it without `:rw`, or a directory elsewhere, or one workspace in {workspaces}.",
            )
    return grants


def directory(text: str) -> Grant:
    """A directory as the settings write it: `~/notes`, `~/notes:ro` for the same, or `~/notes:rw`."""
    path, _, mode = text.rpartition(":")
    place = Path(path if mode in {"ro", "rw"} else text).expanduser()
    if not place.is_absolute() or ".." in place.parts:
        raise ConfigError(f"`{text}` is not an absolute path", hint="Use a form like ~/notes or ~/notes:rw.")
    return Grant(path=str(place), writable=mode == "rw")
