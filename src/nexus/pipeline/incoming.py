"""What comes in, and what becomes of it on its way."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from nexus import commands
from nexus.attachments import Attachment
from nexus.automations.context import Occasion
from nexus.broker.run_handle import Run
from nexus.config import ToolsConfig
from nexus.context import AssembledContext
from nexus.errors import ConfigError
from nexus.home import Home
from nexus.ledgers.identity.access import Granted
from nexus.ledgers.identity.senders import Sender
from nexus.ledgers.runtime.executions import Mode
from nexus.ledgers.runtime.trace import Span
from nexus.request import Access, Grant, Request
from nexus.runs import Result


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A message, as the channel hands it over. Everything but the content comes from the channel itself."""

    channel: str
    content: str
    sender: str
    thread: str
    """What the channel calls the conversation."""
    title: str | None = None
    """What people call it, such as a subject."""
    session_label: str = ""
    """The session that is to answer; empty: the one of the conversation."""
    display_name: str | None = None
    external_id: str | None = None
    """The channel's own id of the message: what is delivered twice is worked on once."""
    event_id: str | None = None
    """Its event, where it is recorded already and handed over again."""
    is_owner: bool = False
    """Whether the settings, or the home's own terminal, say that the sender is the owner."""
    is_verified: bool = True
    """Whether the channel vouches for the sender."""
    is_group: bool = False
    """Whether others read along."""
    wants_answer: bool = True
    """Whether somebody is to answer; otherwise it is recorded, and that's all."""
    is_scheduled: bool = False
    """Whether it was written earlier and its time has come: nobody waits for the answer."""
    model: str = ""
    role: str = "manager"
    """Whose models answer, if none is named."""
    has_tools: bool = True
    """Whether the agent is given its tools."""
    fork_of: tuple[str, str] | None = None
    """The session that a new one forks off, and the last run that they share."""
    mode: Mode = "followup"
    replaces: str | None = None
    """The run whose turn this message replaces, with all turns after it."""
    edits: str | None = None
    """The channel's own id of the message that its sender changed to this one."""
    attachments: tuple[Attachment, ...] = ()
    """Files that came along, kept already."""
    unread_files: tuple[str, ...] = ()
    """Files that could not be read, each with the reason. The answer says so."""

    def metadata(self) -> dict[str, Any]:
        """What the event keeps of it, so that it can be handed over again."""
        told = {
            "scheduled": self.is_scheduled,
            "group": self.is_group,
            "unanswered": not self.wants_answer,
            "session": self.session_label,
            "model": self.model,
            "role": "" if self.role == "manager" else self.role,
            "without_tools": not self.has_tools,
            "fork_of": self.fork_of,
            "replaces": self.replaces,
            "edits": self.edits,
        }
        return {name: value for name, value in told.items() if value}

    @property
    def is_command(self) -> bool:
        """Whether it is a command. A message with files never is."""
        has_files = self.attachments or self.unread_files
        return not has_files and commands.parse(self.content) is not None

    @property
    def own_session(self) -> str:
        """The session of the conversation itself."""
        return f"{self.channel}:{self.thread}"


@dataclass(kw_only=True)
class Journey:
    """A request on its way through the stages, with what they have found."""

    incoming: Incoming
    request: Request
    sender: Sender | None = None
    assembled: AssembledContext | None = None
    run: Run | None = None
    idempotency_key: str | None = None
    """From which ids of invocations are derived, so that a repeat finds them: the id of the run, or of the
    answer if there is no run."""
    result: Result | None = None
    response: str | None = None
    """The answer, where an automation or a denial gave one."""
    denied: str | None = None
    """Why it goes no further."""
    needs_no_agent: bool = False
    """Whether it ends without a run: an automation or a command answered, an approval was decided, or nobody
    wants an answer."""
    reason: str = "it was recorded only"
    """Why no agent runs, where none does."""
    spans: list[Span] = field(default_factory=list[Span])
    agent_ended: tuple[str, str] | None = None
    """When the agent's run ended, and with which outcome."""

    @property
    def is_over(self) -> bool:
        return self.denied is not None or self.needs_no_agent

    @property
    def occasion(self) -> Occasion:
        """What an automation is told of it."""
        return Occasion(
            request=self.request, assembled=self.assembled, result=self.result, key=self.idempotency_key
        )


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
