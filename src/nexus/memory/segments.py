"""Cutting a conversation into episodes: at long silences, and where one would grow too large."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """One event of a thread, as far as cutting needs it."""

    event_id: str
    at: datetime
    tokens: int


def cut(events: Sequence[Said], *, gap: timedelta, budget_tokens: int) -> list[list[Said]]:
    """The events in order of time, cut where nobody spoke for a `gap` or the budget would be exceeded.

    An event that exceeds the budget by itself is an episode by itself.
    """
    segments: list[list[Said]] = []
    tokens = 0
    for event in sorted(events, key=lambda event: (event.at, event.event_id)):
        joins = segments and event.at - segments[-1][-1].at < gap and tokens + event.tokens <= budget_tokens
        if joins:
            segments[-1].append(event)
            tokens += event.tokens
        else:
            segments.append([event])
            tokens = event.tokens
    return segments


def closed(segments: Sequence[list[Said]], *, gap: timedelta, now: datetime) -> list[list[Said]]:
    """Those that are over: all but the last, and the last one once nobody spoke for a `gap`."""
    if segments and now - segments[-1][-1].at < gap:
        return list(segments[:-1])
    return list(segments)
