"""Where a role works for one run: the memory skill, a door of its own, and what its tools may reach.

Several runs of a role may be under way at once, each with its own provenance, so each has its own desk.
Its path follows from the invocation: a run that goes on after a crash finds it where it was told it is.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nexus.request import Access, Grant
from nexus.roles.parts import Parts

if TYPE_CHECKING:
    from nexus.memory.gate import Rules
    from nexus.memory.provenance import Provenance
    from nexus.memory.recall import Visibility

TOOLS = frozenset({"bash", "read"})
"""What a role in code mode may call. It is shown the same tools as everybody: the prefix stays cached."""


@asynccontextmanager
async def desk(
    parts: Parts,
    name: str,
    provenance: "Provenance",
    *,
    visible: "Visibility",
    rules: "Rules | None" = None,
    writes: bool = True,
) -> AsyncGenerator[Path]:
    """A folder with `skills/memory`, whose scripts write with this provenance while the context lasts."""
    place = (parts.home.run / name).resolve()
    await asyncio.to_thread(_lay, parts, place)
    try:
        async with parts.door(name, provenance, writes=writes, rules=rules, visible=visible):
            yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def access(parts: Parts, place: Path, workspaces: Iterable[Path], *, ledgers: bool) -> Access:
    """What the run's tools may reach: its desk and its workspaces, read-only, and perhaps the ledgers."""
    data = [parts.home.data] if ledgers else []
    granted = [place, *data, *workspaces]
    return Access(
        level="known",
        tools=TOOLS,
        directories=tuple(Grant(path=str(each.resolve())) for each in granted),
        memory="all" if ledgers else "own",
    )


def _lay(parts: Parts, place: Path) -> None:
    from nexus.skills import memory

    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    memory.lay(parts.home, place, place)
