"""The owner's profile: a short, versioned summary that every agent of the owner is told.

It is read for every run of the owner's, and made of the facts when it is due.
"""

from datetime import timedelta
from typing import Final

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.profile import local, versions
from nexus.memory.profile.versions import MAX_TOKENS, Line, NewVersion, Version, newest

__all__ = ["MAX_TOKENS", "Line", "NewVersion", "OwnerProfile", "Version", "newest"]

# A change of the profile changes every prompt, so that nothing of it is cached any more: not too often.
_SETTLED: Final = timedelta(minutes=10)


class OwnerProfile:
    """The profile of a home's owner."""

    def __init__(self, ledgers: Ledgers, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._now = now
        self._looked_at = ""
        self._through = ""

    async def text(self) -> str:
        """Load what every agent of the owner is told; empty if nothing is known yet."""
        version, through = await self._ledgers.memory.read_now(versions.load_with_mark)
        # What a model wrote stays until it is written again, unless it says what is no longer true.
        if version is None or (
            self._is_due()
            and (
                version.origin != "consolidation"
                or await versions.rests_on_replaced(self._ledgers, version.id)
            )
        ):
            version = await self._refresh(version, through) or version
        return "" if version is None else version.content

    async def refresh(self) -> Version | None:
        """Make the profile of the facts again, around what the owner wrote; None if nothing is known."""
        return await self._refresh(*await self._ledgers.memory.read(versions.load_with_mark))

    async def _refresh(self, before: Version | None, through: str) -> Version | None:
        self._looked_at = now = clock.timestamp(self._now())
        if through == self._through:
            return before
        self._through = through
        written = None if before is None else before.written
        since = None if before is None else before.written_at
        lines = await local.make_lines(self._ledgers, now=now, after=since, written=written or "")
        if not lines and before is None:
            return None
        new = NewVersion(lines=lines, origin="facts", written=written, written_at=since)
        return await versions.append(self._ledgers, new, now=now)

    async def write(self, text: str) -> Version:
        """Record what the owner wrote. Later versions keep it, and add only what is learned from now on."""
        now = clock.timestamp(self._now())
        new = NewVersion(lines=(), origin="owner", written=text.strip(), written_at=now)
        return await versions.append(self._ledgers, new, now=now)

    async def reset(self) -> Version | None:
        """Drop what the owner wrote, and make the profile of the facts alone."""
        now = clock.timestamp(self._now())
        lines = await local.make_lines(self._ledgers, now=now)
        return await versions.append(self._ledgers, NewVersion(lines=lines, origin="facts"), now=now)

    def _is_due(self) -> bool:
        return self._looked_at < clock.timestamp(self._now() - _SETTLED)
