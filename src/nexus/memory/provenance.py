"""Where a write comes from. The runtime says it, never the text that is written."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Who writes, in which run, and what it learned from, where a write does not say that itself."""

    actor: str = "unknown"
    request_id: str | None = None
    event_id: str | None = None
    episode_id: str | None = None
