"""Running one automation once: its workspace made ready, its script checked, its answer read."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from nexus import clock
from nexus.automations import workspace
from nexus.automations.context import Context, Handler, Occasion, Services
from nexus.automations.hook_points import HookPoint
from nexus.automations.improvement import Reflected, reflect
from nexus.automations.registry import Entry
from nexus.automations.returned import Returned, as_json, parse
from nexus.automations.scripts import script
from nexus.automations.scripts.host import Host, Job
from nexus.automations.scripts.script import Script
from nexus.automations.services import Calls, Grants, InvocationServices, MemorySockets
from nexus.automations.workspace import Folder, History, Workspace
from nexus.broker.agent.slots import time_limited
from nexus.config import AutomationsConfig
from nexus.errors import AutomationError, NexusError, ScriptChangedError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.invocations import Invocation
from nexus.skills import folder, memory

Status = Literal["done", "flagged", "failed", "timeout", "skipped"]
# It did what it is there for, also where it says itself that what came of it is not good.
_WELL: frozenset[Status] = frozenset({"done", "flagged"})


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What came of it. Where it did not end well, `returned` is empty and `error` says why."""

    status: Status
    returned: Returned
    value: Any = None
    error: str | None = None
    output: str = ""
    duration_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """What must be on disk before the code runs."""

    workspace: Workspace | None
    files: dict[str, tuple[int, int]]
    script: Script | None


class Invoker:
    """Runs automations of one home. Whatever one does, this ends with an `Ended`."""

    def __init__(
        self,
        home: Home,
        settings: AutomationsConfig,
        host: Host,
        services: Services,
        now: clock.Clock = clock.now,
        sockets: MemorySockets | None = None,
    ) -> None:
        self._home = home
        self._sockets = sockets
        self._with_skills: set[Path] = set()
        self._now = now
        self._settings = settings
        self._host = host
        self._services = services
        self._after: set[asyncio.Task[None]] = set()
        self._committing: dict[Path, asyncio.Lock] = {}

    async def invoke(
        self,
        entry: Entry,
        point: HookPoint,
        occasion: Occasion,
        invocation_id: str,
        timeout_ms: float,
        attempts: int = 0,
        require: Callable[[], None] = lambda: None,
    ) -> Ended:
        """Run it, and read what it returned. `attempts` says how often it has failed before.

        `require` raises where another process has it by now: the runs it started are then not stopped.
        """
        begun = time.perf_counter()
        services = InvocationServices(
            self._services,
            invocation_id,
            entry.automation.name,
            attempts,
            is_awaited=entry.automation.blocking,
        )
        ready = _Ready(workspace=None, files={}, script=None)
        try:
            if entry.handler is None or entry.automation.workspace_dir:
                ready = await asyncio.to_thread(self._prepare, entry.automation, entry.handler is None)
            services.grants = self._build_grants(entry.automation, ready.workspace)
            context = Context(
                request=occasion.request,
                automation=entry.automation,
                hook_point=point.name,
                invocation_id=invocation_id,
                workspace=ready.workspace,
                assembled=occasion.assembled,
                result=occasion.result,
                services=services,
                now=self._now,
            )
            if entry.handler is not None:
                ended = await run_in_process(entry.handler, context, timeout_ms)
            else:
                ended = await self._run_script(ready, context, timeout_ms)
            if ended.status == "done":
                ended = _apply_returned(ended, parse(ended.value, point, blocking=entry.automation.blocking))
        except ScriptChangedError as error:
            ended = replace(_failure(str(error)), status="skipped")
        except NexusError as error:
            ended = _failure(error.message)
        except Exception as error:  # an automation never fails the request, whatever it raises
            ended = _failure(f"{type(error).__name__}: {error}")
        require()
        if ended.status not in _WELL:
            # Its time is over, and the request does not wait until what it started has ended.
            self._run_afterwards(services.stop())
        self._commit_if_changed(ready, f"{entry.automation.name} at {point.name}, {invocation_id}")
        return replace(ended, duration_ms=(time.perf_counter() - begun) * 1000)

    async def improve(
        self,
        ledgers: Ledgers,
        automation: Automation,
        occasion: Occasion,
        done: Invocation,
        others: str | None,
    ) -> Reflected:
        """Let it reflect on what it did; `others` is what of it may hold somebody else's words."""
        settle = await reflect(self._home, ledgers, automation, occasion, done, self._services, others)
        place = workspace.locate(self._home.meeseeks, automation.workspace_dir or "")
        async with self._committing.setdefault(place, asyncio.Lock()):
            return await asyncio.to_thread(settle)

    async def wait_until_settled(self) -> None:
        """When this returns, changes of workspaces are in their histories, and what was to be stopped is."""
        while self._after:
            await asyncio.gather(*self._after)

    def _build_grants(self, automation: Automation, found: Workspace | None) -> Grants | None:
        if found is None or self._sockets is None:
            return None
        return Grants(sockets=self._sockets, automation=automation, workspace=found)

    async def _run_script(self, ready: _Ready, context: Context, timeout_ms: float) -> Ended:
        assert ready.script is not None  # noqa: S101 - an invariant, for the reader and the type checker
        workspace_dir = ready.workspace and ready.workspace.home
        given = {
            **Occasion(request=context.request, assembled=context.assembled, result=context.result).to_json(),
            "automation": context.automation.to_json(),
            "hook_point": context.hook_point,
            "invocation_id": context.invocation_id,
            "now": clock.timestamp(context.now()),
            "workspace": workspace_dir and str(workspace_dir),
            "peers": {name: str(peer.dir) for name, peer in ready.workspace.peers.items()}
            if ready.workspace
            else {},
        }
        job = Job(
            script=ready.script,
            given=given,
            directory=workspace_dir or self._home.root,
            timeout_ms=round(timeout_ms),
            memory_bytes=self._settings.memory_mib * 1024**2,
            variables=script.read_variables(context.automation.config),
            sandbox=self._describe_sandbox(ready.script, ready.workspace, context.automation),
        )
        ended = await self._host.run(job, Calls(context))
        return Ended(
            status=ended.status,
            returned=Returned(),
            value=ended.returned,
            error=ended.error,
            output=ended.output,
        )

    def _describe_sandbox(
        self, code: Script, found: Workspace | None, automation: Automation
    ) -> dict[str, Any] | None:
        if not script.is_sandboxed(automation) and not self._settings.sandbox_all:
            return None
        places = [found.home, *(peer.dir for peer in found.peers.values())] if found else []
        return script.describe_sandbox(self._home, code, places)

    def _prepare(self, automation: Automation, is_script: bool) -> _Ready:
        """Waits for the disk: call it on a thread."""
        code = script.read_registered(self._home, automation) if is_script else None
        if not automation.workspace_dir:
            return _Ready(workspace=None, files={}, script=code)
        place = workspace.locate(self._home.meeseeks, automation.workspace_dir)
        made = workspace.bootstrap(place, _default_role(automation))
        self._lay_skill(place, automation.name)
        peers = [workspace.locate(self._home.meeseeks, each) for each in automation.peer_workspaces]
        for peer in peers:
            # It may be read before its own automation has run, which then adds its role.
            workspace.bootstrap(peer, None)
        return _Ready(
            workspace=Workspace.at(place, {peer.name: peer for peer in peers}),
            # What was just made counts as a change, so that the history begins with it.
            files={} if made else _list_files(place, peers),
            script=code,
        )

    def _lay_skill(self, place: Path, name: str) -> None:
        """Lay the skills of the memory into a workspace, or bring them up to date, once for each process."""
        if place not in self._with_skills:
            memory.install(self._home, place, self._home.run / name)
            folder.install_pages(place)
            self._with_skills.add(place)

    def _commit_if_changed(self, ready: _Ready, message: str) -> None:
        if ready.workspace is not None:
            self._run_afterwards(self._commit(ready, ready.workspace, message))

    def _run_afterwards(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._after.add(task)
        task.add_done_callback(self._after.discard)

    async def _commit(self, ready: _Ready, found: Workspace, message: str) -> None:
        peers = [peer.dir for peer in found.peers.values()]
        with contextlib.suppress(NexusError, OSError):  # the run is done; its files are there all the same
            if await asyncio.to_thread(_is_changed, found.home, peers, ready.files):
                for place in (found.home, *peers):
                    async with self._committing.setdefault(place, asyncio.Lock()):
                        await asyncio.to_thread(History(place).commit, message)


async def run_in_process(handler: Handler, context: Context, timeout_ms: float) -> Ended:
    """Run a handler in this process without blocking the event loop; whatever it raises comes out."""
    limit = asyncio.timeout(timeout_ms / 1000)
    context.time_limit, context.timeout_ms = limit, timeout_ms
    try:
        async with limit:
            with time_limited(context.invocation_id, limit):
                if _is_async(handler):
                    value = await handler(context)
                else:
                    value = await _run_on_thread(handler, context)
                    if inspect.isawaitable(value):
                        value = await value
    except TimeoutError:
        if not limit.expired():
            raise
        error = f"timed out after {context.timeout_ms:.0f} ms"
        return Ended(status="timeout", returned=Returned(), error=error)
    return Ended(status="done", returned=Returned(), value=as_json(value))


def _is_async(handler: Handler) -> bool:
    called: object = getattr(handler, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


async def _run_on_thread(handler: Handler, context: Context) -> Any:
    """Call plain code without blocking the event loop.

    It gets a daemon thread and not one of a pool: code that never returns would use up the pool, and hold up
    the end of the program. If the caller is cancelled, the thread runs on and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    variables = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            if inspect.iscoroutine(value):
                value.close()
        elif error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        value, raised = None, None
        try:
            value = variables.run(handler, context)
        except Exception as error:
            raised = error
        except BaseException as error:  # such as SystemExit, which must not end the program
            raised = AutomationError(f"It raised {type(error).__name__}")
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(settle, value, raised)

    threading.Thread(target=run, name=f"automation {context.automation.name}", daemon=True).start()
    return await done


def _apply_returned(ended: Ended, returned: Returned) -> Ended:
    warned = "".join(f"WARNING {warning}\n" for warning in returned.warnings)
    ended = replace(ended, output=f"{ended.output}{warned}")
    if returned.flag is None:
        return replace(ended, returned=returned)
    return replace(ended, returned=returned, status="flagged", error=returned.flag)


def _failure(error: str) -> Ended:
    return Ended(status="failed", returned=Returned(), error=error)


def _list_files(place: Path, peers: list[Path]) -> dict[str, tuple[int, int]]:
    return {
        f"{each.name}/{name}": state
        for each in (place, *peers)
        for name, state in Folder(each).files().items()
    }


def _is_changed(place: Path, peers: list[Path], files: dict[str, tuple[int, int]]) -> bool:
    return _list_files(place, peers) != files or not History(place).points_here()


def _default_role(automation: Automation) -> str:
    return f"# {automation.name}\n\n{automation.description or ''}".rstrip() + "\n"
