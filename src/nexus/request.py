"""The request: one message, worker or schedule being worked on. Every module below the pipeline knows it.

A worker gets a request of its own, whose parent is the one that dispatched it; whatever else works for
a request (an automation, an agent of its own) shares the very object. Cost and trace go by the root.
"""

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, Literal, Protocol

from nexus import clock, ids
from nexus.errors import UsageError

AccessLevel = Literal["owner", "known", "unknown"]
Memory = Literal["none", "own", "all"]
"""What may be recalled: nothing, what was said in the same thread, or everything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Visibility:
    """The places whose contents may be seen. None means no limit; an empty set means nothing."""

    channels: frozenset[str] | None = None
    thread_ids: frozenset[str] | None = None
    """Of a thread only what was said in it: what was concluded from it may rest on more."""

    @property
    def everything(self) -> bool:
        return self.channels is None and self.thread_ids is None

    @property
    def nothing(self) -> bool:
        return self.channels == frozenset() or self.thread_ids == frozenset()


EVERYTHING: Final = Visibility()
"""What the owner of the home may see."""
NOTHING: Final = Visibility(channels=frozenset(), thread_ids=frozenset())


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A directory that tools may see, and whether they may write there."""

    path: str
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a request may reach. It comes from the server side only, and a worker's is never wider."""

    level: AccessLevel = "unknown"
    tools: frozenset[str] | None = frozenset()
    """The names of tools that may be called; None: all of them."""
    directories: tuple[Grant, ...] = ()
    network: bool = False
    memory: Memory = "none"
    sessions: tuple[str, ...] = ()
    """Patterns of the session labels that may be used, beside one's own."""
    memory_socket: str = ""
    """The socket through which the memory skill's scripts write and search; empty: the one of DB_PATHS."""

    def narrow(
        self,
        *,
        tools: frozenset[str] | None = None,
        directories: tuple[Grant, ...] | None = None,
        network: bool = True,
    ) -> "Access":
        """Return the part of this that is also asked for. What isn't held here can't be gained."""
        kept = self.tools if tools is None else tools if self.tools is None else self.tools & tools
        asked = self.directories if directories is None else directories
        return replace(
            self,
            tools=kept,
            directories=tuple(dict.fromkeys(given for grant in asked for given in self._find_granted(grant))),
            network=self.network and network,
        )

    def within(self, asked: "Access") -> "Access":
        """What is both held here and asked for."""
        return self.narrow(tools=asked.tools, directories=asked.directories, network=asked.network)

    def visibility(self, thread_id: str | None, *, in_company: bool = False) -> Visibility:
        """What of the memory a run may know that works in a thread. No other place decides this.

        In company, where others than the owner speak too, nobody sees more than the thread.
        """
        if self.memory == "none":
            return NOTHING
        if self.memory == "all" and not in_company:
            return EVERYTHING
        return Visibility(thread_ids=frozenset(filter(None, [thread_id])))

    def hears(self, thread_id: str | None, said_in: str | None) -> bool:
        """Whether a run that works in a thread may be shown what was said in that or another thread."""
        is_there = thread_id is not None and said_in == thread_id
        return is_there or self.visibility(thread_id).everything

    def may_call(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools

    def _find_granted(self, asked: Grant) -> list[Grant]:
        """Return the grant if it is held, with what must stay read-only inside it; otherwise nothing."""
        path = PurePosixPath(asked.path)
        held = self._find_innermost(path)
        if held is None or ".." in path.parts or (asked.writable and not held.writable):
            return []
        inside = [PurePosixPath(grant.path) for grant in self.directories] if asked.writable else []
        kept = [
            Grant(path=str(inner))
            for inner in inside
            if inner != path
            and inner.is_relative_to(path)
            and (grant := self._find_innermost(inner)) is not None
            and not grant.writable
        ]
        return [asked, *kept]

    def _find_innermost(self, path: PurePosixPath) -> Grant | None:
        """What decides about a path: a grant inside another one says the last word, as in the sandbox."""
        over = [grant for grant in self.directories if path.is_relative_to(grant.path)]
        return max(reversed(over), key=lambda grant: len(PurePosixPath(grant.path).parts), default=None)


@dataclass(kw_only=True)
class Event:
    """What asked for the request, as far as the layers below need it."""

    content: str
    id: str | None = None
    thread_id: str | None = None
    channel: str | None = None
    sender_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage that a request went through."""

    name: str
    started_at: str
    duration_ms: float
    outcome: str


@dataclass(kw_only=True)
class Agent:
    """Who answers: the role decides the model, the session label the conversation."""

    role: str = "manager"
    session_label: str = ""


class Party(Protocol):
    """On whose behalf something was done, and with which rights."""

    @property
    def principal_id(self) -> str | None: ...
    @property
    def access(self) -> Access: ...


@dataclass(kw_only=True)
class Request:
    """One piece of work, from the message that caused it to its answer."""

    request_id: str = field(default_factory=lambda: ids.new("req"))
    root_request_id: str = ""
    parent_request_id: str | None = None
    depth: int = 0
    """How many dispatches lie between this and the message that a person sent."""
    event: Event
    agent: Agent = field(default_factory=Agent)
    principal_id: str | None = None
    access: Access = Access()
    created_at: str = field(default_factory=lambda: clock.timestamp(clock.now()))
    enrichment: dict[str, Any] = field(default_factory=dict[str, Any])
    """What automations added for the stages after them."""
    trace: list[Stage] = field(default_factory=list[Stage])
    """The stages that it went through in this process; those of others are in the ledger."""

    def __post_init__(self) -> None:
        self.root_request_id = self.root_request_id or self.request_id

    def has_rights_of(self, other: Party) -> bool:
        """Whether another request acts for the same principal with the same access, or both for the owner."""
        if self.access.level == other.access.level == "owner":
            return True
        return (self.principal_id, self.access) == (other.principal_id, other.access)

    def may_know_all_of(self, other: Party) -> bool:
        """Whether everything that another request was shown and found may be shown here too."""
        return self.access.level == "owner" or self.has_rights_of(other)

    def child(self, *, content: str, agent: Agent, access: Access | None = None) -> "Request":
        """The request of a worker: same root, same principal, access no wider than this one's."""
        return Request(
            root_request_id=self.root_request_id,
            parent_request_id=self.request_id,
            depth=self.depth + 1,
            event=Event(content=content, thread_id=self.event.thread_id, channel=self.event.channel),
            agent=agent,
            principal_id=self.principal_id,
            access=self.access if access is None else self.access.within(access),
        )


def check_label(session_label: str) -> None:
    """Refuse a session without a name: the engine would never run what waits in it."""
    if not session_label.strip():
        raise UsageError("The session label is empty", hint="Pass a label such as `main`.")
