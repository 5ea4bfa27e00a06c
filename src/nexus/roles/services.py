"""What a home offers to the roles that work for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

# For types alone: a command that only lists automations loads neither the engine nor the agent library.
if TYPE_CHECKING:
    from collections.abc import Awaitable

    from nexus.broker.broker import Broker
    from nexus.config import Config
    from nexus.engine import Engine
    from nexus.home import Home
    from nexus.ledgers import Ledgers
    from nexus.memory.gate import Rules
    from nexus.memory.operations import Memory
    from nexus.memory.recall.recall import Recall
    from nexus.memory.writing import Provenance
    from nexus.request import Visibility
    from nexus.skills.memory_socket import MemorySocket


class OpenRecall(Protocol):
    """Gives the memory, ready to be asked, as far as it may be seen, without some messages."""

    def __call__(self, visible: "Visibility" = ..., without: frozenset[str] = ...) -> "Awaitable[Recall]": ...


class OpenMemorySocket(Protocol):
    """A socket of its own for one principal, through which it writes and recalls."""

    def __call__(
        self,
        name: str,
        provenance: "Provenance",
        *,
        writes: bool = True,
        rules: "Rules | None" = None,
        visible: "Visibility" = ...,
    ) -> "MemorySocket": ...


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services of an open home."""

    home: "Home"
    config: "Config"
    ledgers: "Ledgers"
    engine: "Engine"
    memory: "Memory"
    broker: "Broker"
    open_recall: OpenRecall
    memory_socket: OpenMemorySocket
