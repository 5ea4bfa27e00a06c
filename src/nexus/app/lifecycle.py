"""Opening a home's parts in order, and closing them in the reverse order."""

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nexus import clock
from nexus.app.building import BY_OWNER, BuiltHome, Shared
from nexus.automations.scheduling import Scheduling
from nexus.broker.agent.mcp import Servers
from nexus.broker.tools import Context as ToolContext
from nexus.broker.tools import web
from nexus.broker.tools.recall import recall_tool, visible_to
from nexus.broker.tools.sandbox import Grant as SandboxGrant
from nexus.broker.tools.sandbox import Limits as SandboxLimits
from nexus.broker.tools.sandbox import Sandbox
from nexus.broker.tools.schedule import schedule_tool
from nexus.broker.tools.send_file import send_file_tool
from nexus.channels import Channels
from nexus.channels.kinds import adapters
from nexus.config import Config
from nexus.engine.errors import EngineBusyError, EngineFullError, EngineUnreachableError
from nexus.home import Home
from nexus.ledgers import events, rebuild_if_damaged, reconcile, sql
from nexus.ledgers.agents import tool_calls
from nexus.ledgers.runtime import requests
from nexus.memory.recall.recall import Recall
from nexus.pipeline import access
from nexus.roles.bundled import bundled
from nexus.roles.instructions import seed_roles
from nexus.skills.memory_socket import OWNER

# Of one process of a server, which may live for days; then it is started again.
_SERVER_CPU_S: Final = 3600
_log = logging.getLogger(__name__)


class Lifecycle(BuiltHome):
    """A home that can be opened and closed: `async with`."""

    def __init__(
        self,
        home: Home,
        config: Config,
        *,
        serve: bool = True,
        memory_socket: bool = False,
        now: clock.Clock = clock.now,
        shared: Shared | None = None,
    ) -> None:
        super().__init__(home, config, now, shared)
        self._serve = serve
        self._has_socket = memory_socket
        self._stack = AsyncExitStack()
        self._reconciled: reconcile.Reconciled | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            if self._serve and reconcile.is_due(self.home):
                self._reconciled = await asyncio.to_thread(reconcile.reconcile, self.home)
            if self._serve:
                await asyncio.to_thread(rebuild_if_damaged, self.home)
            await opening.enter_async_context(self.ledgers)
            if self._has_socket:
                await self._touch_ledgers()
                # The socket comes before the engine: a second process is refused before it takes any work.
                await opening.enter_async_context(self.memory_socket(OWNER, BY_OWNER))
            await opening.enter_async_context(self.models)
            await self._open_tools(opening)
            opening.push_async_callback(self.automations.close)
            await asyncio.to_thread(seed_roles, self.home)
            await self.automations.load(bundled(self.services()))
            opening.push_async_callback(self.engine.close)
            await self.engine.open(serve=self._serve)
            if self._reconciled is not None:
                # It ended after the moment that the ledgers were restored to.
                await self.engine.forget_ended()
            opening.push_async_callback(self.automations.settle)
            owner = access.owner(self.config.tools, self.home)
            await self.automations.start(serve=self._serve, access=owner)
            opening.push_async_callback(self.embedding.stop)
            if self._serve:
                await self._start_work(opening)
            opening.push_async_callback(self.imports.close)
            if self._serve and self._has_socket:
                await self.imports.recover()
                await self._start_channels(opening)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def is_settled(self) -> bool:
        """Whether everything that was accepted is the engine's, so that the home can be closed."""
        return not (
            self._outbox.is_late or self.automations.queue.is_handing_over or self.imports.is_importing
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way that only an open home goes on with."""
        return self.is_settled and not self.embedding.is_busy

    async def _open_tools(self, opening: AsyncExitStack) -> None:
        servers = await opening.enter_async_context(
            Servers(self.config.mcp, self.home.state, sandbox=_server_sandbox(self.config, self.home))
        )
        own = [
            recall_tool(self._recall_for),
            schedule_tool(Scheduling(self.ledgers, self.reminders)),
            *web.web_tools(self.config.web, self._url_given),
        ]
        self.broker.add_tools([*own, *await servers.tools()])
        self.broker.add_tools([send_file_tool(self.home, self.config.attachments)], for_everybody=False)

    async def _start_work(self, opening: AsyncExitStack) -> None:
        """Begin what only a process that serves the home does."""
        last_rowid = await self.ledgers.runtime.read(requests.last_rowid)
        self.embedding.start()
        await self.upkeep.schedule()
        await self.conclusions.schedule()
        await self.missed_turns.schedule()
        await self.backfill.recover()
        opening.push_async_callback(self.timetable.stop)
        await self.timetable.start()
        await self.broker.recover()
        await self.broker.end_orphans(last_rowid)
        opening.push_async_callback(self._outbox.stop)
        self._outbox.start()
        if self._reconciled is not None:
            await self.reception.hand_over_again(self._reconciled.unheard)
            await self.missed_turns.ask_about(self._reconciled.unwritten)
            await asyncio.to_thread(reconcile.unmark, self.home)
            _log.warning("the ledgers were restored and reconciled: %s", self._reconciled)

    async def _recall_for(self, context: ToolContext) -> Recall:
        """The memory as the principal of a tool's call may see it, without the message that it works on."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        request = context.call.request
        root = await self.ledgers.runtime.read(requests.get, request_id=request.root_request_id)
        messages = (request.event.id, root.event_id if root else None)
        return await self.open_recall(visible_to(request), frozenset(filter(None, messages)))

    async def _url_given(self, context: ToolContext, url: str) -> bool:
        """Whether a URL comes from a person in the conversation that a call works for, or from the web."""
        assert context.call is not None  # noqa: S101 - an invariant, for the reader and the type checker
        thread_id = context.call.request.event.thread_id
        if not url:
            return False
        if thread_id and await self.ledgers.events.read(events.was_written, thread_id=thread_id, text=url):
            return True
        return await self.ledgers.agents.read(tool_calls.have_shown, tools=web.NAMES, text=url)

    async def _touch_ledgers(self) -> None:
        """Readers on a read-only mount need the files beside a ledger that its first reader makes."""
        reads = (database.read(sql.value, "SELECT 1 FROM sqlite_schema") for database in self.ledgers)
        await asyncio.gather(*reads)

    async def _start_channels(self, opening: AsyncExitStack) -> None:
        self.adapters = await asyncio.to_thread(adapters, self.config.channels, self.home)
        self.channels = Channels(
            self.ledgers,
            self.adapters.made,
            self.reception.from_channel,
            knows=self.reception.knows,
            retryable=(EngineUnreachableError, EngineBusyError, EngineFullError),
            settings=self.config.channels,
            zone=self.config.automations.zone,
            redact=self.adapters.redact,
            let_pass=self.broker.pace.let_pass,
        )
        opening.push_async_callback(self.channels.stop)
        await self.channels.start()


def _server_sandbox(config: Config, home: Home) -> Sandbox | None:
    """The sandbox of MCP servers: with the owner's directories, without a network."""
    if not any(each.command and each.sandbox for each in config.mcp.values()):
        return None
    grants = (
        SandboxGrant(path=Path(grant.path), writable=grant.writable)
        for grant in access.owner(config.tools, home).directories
    )
    limits = SandboxLimits(cpu_seconds=_SERVER_CPU_S)
    return Sandbox(grants=tuple(grants), hidden=(home.root.resolve(),), limits=limits, cgroup=home.cgroup)
