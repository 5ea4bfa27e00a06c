"""What the agents of an automation reach beyond their request: its workspace, its peers' and the ledgers.

Only an agent that works with the owner's rights gets them. A workspace is read in every later run, so what
other people write must not be able to change it.
"""

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from nexus.automations.context import Run
from nexus.automations.scripts import script
from nexus.automations.workspace import Workspace
from nexus.config import LedgersConfig
from nexus.context import AssembledContext
from nexus.errors import HomeError, NexusError
from nexus.home import Home
from nexus.ledgers.runtime.automations import Automation
from nexus.memory.writing import Provenance
from nexus.request import Access, Grant, Request, Visibility
from nexus.skills.memory import longest_read_ms
from nexus.skills.memory_socket import SOCKET


class OpenMemorySocket(Protocol):
    """Opens the memory's socket for one principal, in the directory of that name below `run/`."""

    def __call__(
        self, name: str, provenance: Provenance, *, visible: Visibility
    ) -> AbstractAsyncContextManager[object]: ...


class MemorySockets:
    """The sockets of the runs that automations of one home have started, each open until its run ends."""

    def __init__(self, home: Home, settings: LedgersConfig, open_: OpenMemorySocket | None = None) -> None:
        self.home = home
        self.tool_timeout_ms = longest_read_ms(settings)
        self._open = open_
        self._kept: dict[str, AsyncExitStack] = {}
        self._watching: set[asyncio.Task[None]] = set()

    def place(self, automation: str, execution_id: str) -> Path:
        """The directory of a run's socket."""
        return (self.home.run / automation / execution_id).resolve()

    async def open(self, provenance: Provenance, execution_id: str, visible: Visibility) -> None:
        """Open a run's socket, before the run begins."""
        if self._open is None or execution_id in self._kept:
            return
        stack = AsyncExitStack()
        with suppress(HomeError):  # a process that started the run before keeps it open
            name = f"{provenance.actor}/{execution_id}"
            await stack.enter_async_context(self._open(name, provenance, visible=visible))
            self._kept[execution_id] = stack

    def watch(self, run: Run, place: Path) -> None:
        """Close the socket when the run has ended."""
        if run.id in self._kept:
            task = asyncio.create_task(self._close_after(run, place))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

    async def close(self) -> None:
        """Close all of them. Runs that go on after a restart find their directories."""
        for task in list(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for stack in self._kept.values():
            await stack.aclose()
        self._kept.clear()

    async def _close_after(self, run: Run, place: Path) -> None:
        with suppress(NexusError):
            await run.result()
        await self._kept.pop(run.id).aclose()
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Grants:
    """What one automation's agents get."""

    sockets: MemorySockets
    automation: Automation
    workspace: Workspace

    def access(self, request: Request) -> Access | None:
        """What an agent reaches on behalf of a request; None: what the request itself may."""
        if request.access.level != "owner":
            return None
        folders = [self.workspace.home, *(peer.dir for peer in self.workspace.peers.values())]
        granted = [Grant(path=str(folder.resolve()), writable=True) for folder in folders]
        if self._reads_ledgers(request):
            granted.append(Grant(path=str(self.sockets.home.data.resolve())))
        return replace(request.access, directories=(*granted, *request.access.directories))

    async def open_access(
        self, request: Request, assembled: AssembledContext, execution_id: str
    ) -> tuple[Access | None, Path]:
        """The access of a run that is about to begin, with the memory's socket open for it."""
        place = self.sockets.place(self.automation.name, execution_id)
        access = self.access(request)
        if access is None:
            return None, place
        if self._reads_ledgers(request):
            # Whoever reads a ledger can hold a lock on it.
            most = self.sockets.tool_timeout_ms
            assembled.tool_timeout_ms = min(assembled.tool_timeout_ms or most, most)
        provenance = Provenance(
            actor=self.automation.name,
            kind="automation",
            request_id=request.request_id,
            event_id=request.event.id,
        )
        visible = request.access.visibility(request.event.thread_id)
        await self.sockets.open(provenance, execution_id, visible)
        directories = (*access.directories, Grant(path=str(place)))
        return replace(access, directories=directories, memory_socket=str(place / SOCKET)), place

    def _reads_ledgers(self, request: Request) -> bool:
        sees_all = request.access.visibility(request.event.thread_id).everything
        return sees_all and script.reads_ledgers(self.automation)
