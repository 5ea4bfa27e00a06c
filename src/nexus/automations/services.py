"""What an automation can ask of the home: runs and recall, on its request's account, also from a script."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from nexus import ids
from nexus.automations.context import Context, Run, Services
from nexus.automations.scripts import script
from nexus.automations.workspace import Workspace
from nexus.broker.broker import Broker
from nexus.config import LedgersConfig, MemoryConfig
from nexus.context import AssembledContext
from nexus.errors import AutomationError, HomeError, ModelFileError, NexusError, ScriptError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import requests
from nexus.ledgers.runtime.automations import Automation
from nexus.memory.embedding import Vectors, open_vectors
from nexus.memory.recall.item import Matches, Options, Query, make_query
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import ready_reranker
from nexus.memory.writing import Provenance
from nexus.request import Access, Grant, Request, Visibility
from nexus.serialization import encode
from nexus.skills.memory import longest_read_ms
from nexus.skills.memory_socket import SOCKET

OpenRecall = Callable[[], Awaitable[Recall]]
"""Gives a home's memory, ready to be asked."""
Method = Callable[..., Awaitable[Any]]


async def find_matches(
    open_recall: OpenRecall, request: Request, question: str, options: dict[str, Any]
) -> Matches:
    """Ask a home's memory on behalf of a request. Returns the best matches, each marked strong or weak."""
    query = build_query(request, question, options)
    found = await (await open_recall()).find(query)
    if query.thread_ids is None:
        return found
    # Whom the words mean, and by which names, is known from everywhere.
    results = tuple(
        replace(each, reasons=replace(each.reasons, matched_names=(), about=None)) for each in found.results
    )
    return replace(found, results=results, threads=(), named={})


class UnservedRecall:
    """The memory of a home that nobody serves; the model that finds by meaning is loaded when it is asked."""

    def __init__(self, ledgers: Ledgers, settings: MemoryConfig) -> None:
        self._ledgers = ledgers
        self._settings = settings
        self._loading = asyncio.Lock()
        self._recall: Recall | None = None

    async def __call__(self) -> Recall:
        async with self._loading:
            if self._recall is None:
                reranker = await ready_reranker()
                self._recall = Recall(self._ledgers, await self._vectors(), reranker=reranker)
            return self._recall

    async def _vectors(self) -> Vectors | None:
        try:
            return await open_vectors(self._ledgers, self._settings)
        except ModelFileError:
            return None  # by words alone


def build_query(request: Request, question: str, options: dict[str, Any]) -> Query:
    """What is asked on behalf of a request; an error where an option isn't one."""
    visible = request.access.visibility(request.event.thread_id)
    if visible.nothing:
        raise AutomationError("Nothing may be recalled on behalf of this request")
    try:
        query = make_query(question, {"budget": "low", "max_tokens": 2_000, **options})
    except UsageError as error:
        raise AutomationError(error.message, hint=error.hint) from None
    return replace(query, thread_ids=visible.thread_ids)


class InvocationServices:
    """The services of one invocation.

    The runs that it starts have ids that follow from its own: an async invocation that is repeated after
    a crash finds the runs that it had started, and none is paid for twice. One that is tried again after a
    failure starts others.
    """

    def __init__(
        self,
        services: Services,
        invocation_id: str,
        automation: str,
        attempts: int = 0,
        *,
        is_awaited: bool = False,
    ) -> None:
        self.grants: Grants | None = None
        """What the runs that it starts reach, unless the automation's code says otherwise."""
        self._services = services
        self._invocation_id = invocation_id
        self._automation = automation
        self._attempts = attempts
        self._is_awaited = is_awaited
        self.runs: dict[str, Run] = {}

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        granted = self.grants and self.grants.access(request)
        request = request if granted is None else replace(request, access=granted)
        return await self._services.assemble_context(request, session_label, task, fork_of=fork_of)

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        # Whatever a script wrote there: it spends on its own account.
        assembled.automation, assembled.invocation_id = self._automation, self._invocation_id
        assembled.is_awaited, assembled.is_prepared = self._is_awaited, True
        id_ = execution_id or derive_run_id(self._invocation_id, len(self.runs), self._attempts)
        grants = self.grants if access is None else None
        if grants is None:
            run = await self._services.start_execution(request, assembled, id_, access=access)
        else:
            access, place = await grants.open_access(request, assembled, id_)
            run = await self._services.start_execution(request, assembled, id_, access=access)
            grants.sockets.watch(run, place)
        self.runs[run.id] = run
        return run

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        return await self._services.recall(request, question, options)

    async def stop(self) -> None:
        """Stop the runs that were started and have not ended: nobody waits for them any more."""
        for run in self.runs.values():
            with suppress(NexusError):
                await run.cancel()


def derive_run_id(invocation_id: str, number: int, attempts: int = 0) -> str:
    """The id of an invocation's run, after so many attempts that failed."""
    return ids.derived("exe", invocation_id, f"{number}-{attempts}" if attempts else str(number))


class Calls:
    """Carries out what a script asks of its context, in whose process there is only a copy of it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._runs: dict[str, Run] = {}
        self._methods: dict[str, Method] = {
            "assemble_context": self._assemble_context,
            "start_execution": self._start_execution,
            "result": self._result,
            "cancel": self._cancel,
            "recall": self._recall,
        }

    async def __call__(self, method: str, parameters: dict[str, Any]) -> Any:
        if method not in self._methods:
            raise ScriptError(f"The context has no `{method}`")
        return await self._methods[method](**parameters)

    async def _assemble_context(self, session_label: str, task: str, fork: bool = False) -> dict[str, Any]:
        # Which conversation is forked is not for the script to say.
        assembled = await self._context.assemble_context(session_label=session_label, task=task, fork=fork)
        return assembled.to_json()

    async def _start_execution(self, assembled: dict[str, Any]) -> str:
        run = await self._context.start_execution(AssembledContext.from_json(assembled))
        self._runs[run.id] = run
        return run.id

    async def _result(self, id: str) -> dict[str, Any]:  # noqa: A002 - the name on the wire
        return (await self._find_run(id).result()).to_json()

    async def _cancel(self, id: str) -> bool:  # noqa: A002 - the name on the wire
        return bool(await self._find_run(id).cancel())

    async def _recall(self, question: str, options: Options) -> dict[str, Any]:
        return encode(await self._context.recall(question, **options))

    def _find_run(self, id_: str) -> Run:
        if id_ not in self._runs:
            raise ScriptError(f"{id_} is not a run of this invocation")
        return self._runs[id_]


class BrokerServices:
    """Never bypasses the broker."""

    def __init__(self, ledgers: Ledgers, broker: Broker, recall: OpenRecall) -> None:
        self._ledgers = ledgers
        self._broker = broker
        self._open_recall = recall

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return await self._broker.assemble_context(
            request, session_label=session_label, task=task, fork_of=fork_of
        )

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        # A request of the runtime itself, as at startup, is recorded when something is first done for it.
        await self._ledgers.runtime.write(requests.create, request=request)
        return await self._broker.start_execution(
            request, assembled, execution_id=execution_id, access=access
        )

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        return await find_matches(self._open_recall, request, question, options)


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
