"""Where a write comes from. The runtime says it, never the text that is written."""

from dataclasses import dataclass
from typing import Literal

ActorKind = Literal["owner", "writer", "automation", "client", "unknown"]
"""Who writes, as far as that decides what is believed: the owner by a command, the dashboard or the token;
the memory writer; an automation; a program that uses the memory over MCP; anybody else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Who writes, in which run, and what it learned from, where a write does not say that itself."""

    actor: str = "unknown"
    kind: ActorKind = "unknown"
    request_id: str | None = None
    event_id: str | None = None
    episode_id: str | None = None
