"""Trying an automation on a recorded or invented request, without its effects."""

import asyncio
import inspect
import json
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nexus import clock, ids
from nexus.automations import hook_points, returned, workspace
from nexus.automations.context import Context, Handler, NoServices, Occasion, Run, Services
from nexus.automations.hook_points import BEFORE_DELIVERY, HookPoint
from nexus.automations.invoker import run_in_process
from nexus.automations.registry import Entry
from nexus.automations.scripts import child, script
from nexus.automations.scripts.host import Host, Job
from nexus.automations.scripts.script import Script
from nexus.automations.services import Calls, UnservedRecall, derive_run_id, find_matches
from nexus.automations.workspace import Workspace
from nexus.config import MemoryConfig
from nexus.context import AssembledContext, assemble_context
from nexus.errors import AutomationError, NexusError, ScriptError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions, invocations, requests
from nexus.ledgers.runtime.automations import Automation
from nexus.ledgers.runtime.executions import Execution
from nexus.memory.recall.item import Matches
from nexus.request import Access, Agent, Event, Request
from nexus.runs import Result

_WITH_CONTEXT = frozenset({"after:assembleContext", "worker:pre_execution"})
_WITH_RESULT = frozenset({"after:runAgent", BEFORE_DELIVERY, "after:deliverResponse", "finalize"})


async def load_occasion(ledgers: Ledgers, request_id: str, hook_point: str) -> Occasion | None:
    """What a hook point would be fired with for a request that is over; None where there is none."""
    request = await requests.restore(ledgers, request_id)
    if request is None:
        return None
    run = await _load_own_run(ledgers, request)
    assembled = None
    if run is not None and hook_point in _WITH_CONTEXT:
        assembled = AssembledContext.from_json(run.input["context"])
    result = read_result(run) if run is not None and hook_point in _WITH_RESULT else None
    return Occasion(request=request, assembled=assembled, result=result)


def read_result(run: Execution) -> Result | None:
    """What came of a run; None where it has no answer."""
    if run.status != "done" or run.result is None:
        return None
    known = {"execution_id": run.id, "session_label": run.session_label}
    return Result.from_json({**run.result, **known})


async def _load_own_run(ledgers: Ledgers, request: Request) -> Execution | None:
    """The run that answered the request itself, and not an automation of it."""
    label = request.agent.session_label
    found = await ledgers.runtime.read(
        executions.of_request, request_id=request.request_id, session_label=label
    )
    return found[0] if found else None


@dataclass
class _RecordedRun:
    """A run that was made when the request was recorded."""

    run: Execution

    @property
    def id(self) -> str:
        return self.run.id

    async def result(self) -> Result:
        result = read_result(self.run)
        if result is None:
            raise AutomationError(f"The run {self.run.id} ended as {self.run.status}")
        return result

    async def cancel(self) -> object:
        return False


class Recorded(NoServices):
    """Services that only read."""

    def __init__(self, ledgers: Ledgers, settings: MemoryConfig) -> None:
        self._ledgers = ledgers
        self._open_recall = UnservedRecall(ledgers, settings)

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return await assemble_context(
            self._ledgers.home, request, session_label=session_label, task=task, tools=(), fork_of=fork_of
        )

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        return await find_matches(self._open_recall, request, question, options)

    @staticmethod
    async def load_runs(ledgers: Ledgers, automation: Automation, request_id: str) -> list[Run]:
        """The runs that an automation started for a request when it was recorded, in order."""
        known = await ledgers.runtime.read(invocations.of_automation, name=automation.name, limit=1_000)
        found = next((each for each in known if each.request_id == request_id), None)
        runs: list[Run] = []
        while found is not None:
            id_ = derive_run_id(found.id, len(runs), found.attempts)
            run = await ledgers.runtime.read(executions.get, execution_id=id_)
            if run is None:
                break
            runs.append(_RecordedRun(run))
        return runs


@dataclass(kw_only=True)
class Trial:
    """What it would have returned and done."""

    status: str
    value: Any = None
    error: str | None = None
    output: str = ""
    would: list[str] = field(default_factory=list[str])


@dataclass(kw_only=True)
class Replayed:
    """Services that do nothing lasting: runs that were made then are found again, others are only told of."""

    below: Services = field(default_factory=NoServices)
    recorded: list[Run] = field(default_factory=list[Run])
    would: list[str] = field(default_factory=list[str])

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        return await self.below.assemble_context(request, session_label, task, fork_of=fork_of)

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> Run:
        self.would.append(f"run an agent in session {assembled.session_label}: {assembled.current_message}")
        if not self.recorded:
            raise AutomationError("A replay runs no agent, and none was recorded that could answer instead")
        return self.recorded.pop(0)

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        return await self.below.recall(request, question, options)


async def replay(
    home: Home,
    entry: Entry,
    code: Script | None,
    occasion: Occasion,
    services: Replayed,
    timeout_ms: int,
) -> Trial:
    """Run an automation once, without its effects.

    `code`, if it is a script, runs in the sandbox of registered scripts, however it is registered itself.
    """
    point = hook_points.get(entry.automation.hook_point)
    with _copy_workspaces(home, entry.automation) as (found, folder):
        context = Context(
            request=occasion.request,
            automation=entry.automation,
            hook_point=point.name,
            invocation_id=ids.new("inv"),
            workspace=found,
            assembled=occasion.assembled,
            result=occasion.result,
            services=services,
        )
        if code is None:
            trial = await _run_here(entry, context, timeout_ms)
        else:
            if code.source is None and code.folder is None:
                # Alone: what lies beside it is the owner's, and not for it to read.
                own = shutil.copy2(code.path, tempfile.mkdtemp(dir=folder))
                code = replace(code, path=Path(own))
            asked = script.describe_sandbox(home, code, [folder])
            trial = await _run_sandboxed(code, context, folder, timeout_ms, asked)
    return _check_returned(replace(trial, would=services.would), point, blocking=entry.automation.blocking)


def invoke(
    code: Path | Handler,
    *,
    hook_point: str = "runAutomations",
    content: str = "",
    config: dict[str, Any] | None = None,
    **given: Any,
) -> Any:
    """What a script or a function returns for a message; for tests. See `kit.Kit` for what may be given."""
    point = hook_points.get(hook_point)
    handler = _load_handler(code) if isinstance(code, Path) else code
    name = code.stem if isinstance(code, Path) else getattr(code, "name", "trial")
    context = Context(
        request=sample_request(content),
        automation=replace(unregistered_record(name, point), config=config or {}),
        hook_point=hook_point,
        invocation_id=ids.new("inv"),
        **given,
    )
    occasion = Occasion(request=context.request, assembled=context.assembled, result=context.result)
    before = json.loads(json.dumps(occasion.to_json()))
    value = handler(context)
    if inspect.isawaitable(value):
        value = asyncio.run(_await_value(value))
    # Code of a package runs on the request itself; a script gets a copy.
    lost = child.find_lost_changes(context, before) if isinstance(code, Path) else []
    for problem in (*lost, *returned.parse(value, point).warnings):
        raise ScriptError(problem)
    return value


def _load_handler(path: Path) -> Handler:
    found = script.read(path)
    if found.source is None:
        raise AutomationError(f"{path} is a program: a test can only call Python")
    return child.load_handler(found.source, found.path, found.folder and str(found.folder))


def sample_request(content: str) -> Request:
    """A request as the owner's own message would make it."""
    return Request(
        event=Event(content=content, channel="cli"),
        agent=Agent(session_label="main"),
        access=Access(level="owner", tools=None, memory="all"),
    )


def unregistered_record(name: str, point: HookPoint) -> Automation:
    """The record of a script that is not registered."""
    values: dict[str, Any] = dict.fromkeys(Automation.__slots__)
    values |= {"id": "aut_trial", "name": name, "mode": "persistent", "status": "active"}
    values |= {"triggers": {}, "config": {}, "version": 0, "trigger_count": 0, "consecutive_errors": 0}
    values |= {"circuit_state": "closed", "hook_point": point.name, "peer_workspaces": ()}
    values |= {"self_improvement": False, "blocking": True, "priority": 100}
    values |= {"created_at": "", "updated_at": ""}
    return Automation(**values)


async def _await_value(value: Any) -> Any:
    return await value


async def _run_here(entry: Entry, context: Context, timeout_ms: int) -> Trial:
    assert entry.handler is not None  # noqa: S101 - an invariant, for the reader and the type checker
    try:
        ended = await run_in_process(entry.handler, context, timeout_ms)
    except Exception as error:  # whatever it raises is what it would have done
        return Trial(status="failed", error=f"{type(error).__name__}: {error}")
    return Trial(status=ended.status, value=ended.value, error=ended.error)


async def _run_sandboxed(
    code: Script, context: Context, folder: Path, timeout_ms: int, asked: dict[str, Any]
) -> Trial:
    found = context.workspace
    occasion = Occasion(request=context.request, assembled=context.assembled, result=context.result)
    given = {
        **occasion.to_json(),
        "automation": context.automation.to_json(),
        "hook_point": context.hook_point,
        "invocation_id": context.invocation_id,
        "strict": True,
        "now": clock.timestamp(context.now()),
        "workspace": found and str(found.home),
        "peers": {name: str(peer.dir) for name, peer in found.peers.items()} if found else {},
    }
    host = Host()
    try:
        job = Job(
            script=code,
            given=given,
            directory=found.home if found else folder,
            timeout_ms=timeout_ms,
            memory_bytes=1024**3,
            variables=script.read_variables(context.automation.config),
            sandbox=asked,
        )
        ended = await host.run(job, Calls(context))
    finally:
        await host.close()
    return Trial(status=ended.status, value=ended.returned, error=ended.error, output=ended.output)


@contextmanager
def _copy_workspaces(home: Home, automation: Automation) -> Generator[tuple[Workspace | None, Path]]:
    with tempfile.TemporaryDirectory(prefix="nexus-replay-") as name:
        folder = Path(name)
        if not automation.workspace_dir:
            yield None, folder
            return
        places = [
            workspace.locate(home.meeseeks, each)
            for each in (automation.workspace_dir, *automation.peer_workspaces)
        ]
        for place in places:
            if place.is_dir():
                shutil.copytree(place, folder / place.name, symlinks=True)
            workspace.bootstrap(folder / place.name, f"# {place.name}\n")
        own, *peers = [folder / place.name for place in places]
        yield Workspace.at(own, {peer.name: peer for peer in peers}), folder


def _check_returned(trial: Trial, point: HookPoint, *, blocking: bool) -> Trial:
    if trial.status != "done":
        return trial
    try:
        warnings = returned.parse(trial.value, point, blocking=blocking).warnings
    except NexusError as error:
        return replace(trial, status="failed", error=error.message)
    return replace(trial, status="failed", error=warnings[0]) if warnings else trial
