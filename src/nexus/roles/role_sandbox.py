"""Where a role works for one run: the memory skill, a socket of its own, and what its tools may reach.

For the owner it works in its workspace, whose `skills/memory` keeps what it learned. That may quote the
owner's conversations, so on behalf of others it gets the skill alone, in a folder that lasts for one run.

Several runs of a role may be under way at once, each with its own provenance, so each has its own socket.
Its path follows from the invocation: a run that goes on after a crash finds it where it was.
"""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nexus.request import Access, Grant
from nexus.roles.services import Services
from nexus.skills.memory_socket import SOCKET

if TYPE_CHECKING:
    from nexus.memory.gate import Rules
    from nexus.memory.writing import Provenance
    from nexus.request import Visibility

TOOLS = frozenset({"bash", "read"})
"""What a role in code mode may call. It is shown the same tools as everybody: the prefix stays cached."""


@asynccontextmanager
async def desk(
    services: Services,
    name: str,
    provenance: "Provenance",
    *,
    visible: "Visibility",
    rules: "Rules | None" = None,
    writes: bool = True,
    in_workspace: bool = False,
) -> AsyncGenerator[Path]:
    """The folder of a socket that writes with this provenance while the context lasts.

    It holds `skills/memory` too, unless the role works in its workspace.
    """
    place = (services.home.run / name).resolve()
    await asyncio.to_thread(_lay, services, place, with_skill=not in_workspace)
    try:
        async with services.memory_socket(name, provenance, writes=writes, rules=rules, visible=visible):
            yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def access(
    services: Services, place: Path, workspaces: Iterable[Path], *, ledgers: bool, notes: Path | None = None
) -> Access:
    """What the run's tools may reach: its workspaces and its socket, read-only, and perhaps the ledgers.

    They write to `notes` alone.
    """
    data = [services.home.data] if ledgers else []
    granted = [Grant(path=str(each.resolve())) for each in (*workspaces, place, *data)]
    if notes is not None:
        # Not resolved: the sandbox refuses a link that was put in its place.
        granted.append(Grant(path=str(notes.parent.resolve() / notes.name), writable=True))
    return Access(
        level="known",
        tools=TOOLS,
        directories=tuple(granted),
        memory="all" if ledgers else "own",
        memory_socket=str(place / SOCKET),
    )


def _lay(services: Services, place: Path, *, with_skill: bool) -> None:
    from nexus.skills import memory

    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if with_skill:
        memory.install(services.home, place, place)
