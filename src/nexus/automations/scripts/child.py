"""What happens in a script's own process: it is loaded, handed its context, and its answer is sent back.

The runtime writes one JSON object a line to the first pipe and reads such lines from the second: calls of
what the context offers, and the answer. What the script prints goes to the third.
"""

import asyncio
import copy
import inspect
import json
import linecache
import logging
import os
import sys
import time
import traceback
import types
from datetime import timedelta
from importlib.abc import PathEntryFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from typing import Any, NoReturn, cast

from nexus import clock
from nexus.automations.context import Context, Handler, Occasion, request_from_json
from nexus.automations.returned import as_json
from nexus.automations.workspace import Workspace
from nexus.context import AssembledContext
from nexus.errors import AutomationError, NexusError, ScriptError
from nexus.ledgers.runtime.automations import Automation
from nexus.memory.recall.item import Matches
from nexus.request import Access, Request
from nexus.runs import Result
from nexus.serialization import decode

ENTRY = "run"
_MOST_BYTES = 4 * 1024 * 1024
_COPIES = ("request", "assembled", "result")
_NESTED = frozenset({"event", "agent", "access", "enrichment", "response"})


def run(
    program: list[str] | None, sandboxed: dict[str, Any] | None, given: int, answers: int, output: int
) -> NoReturn:
    """Become the script. Never returns."""
    if program is not None:
        for descriptor, standard in ((given, 0), (answers, 1), (output, 2)):
            os.dup2(descriptor, standard)
        if sandboxed is not None:
            _enter(sandboxed, program)
        os.execv(program[0], program)  # noqa: S606 - no shell takes part
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, standard)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    try:
        asyncio.run(_run_script(given, answers))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _enter(sandboxed: dict[str, Any], program: list[str]) -> NoReturn:
    # Here and not above: most scripts run without, and the process that forks for them stays small.
    from nexus.automations.scripts import script

    try:
        script.enter_sandbox(sandboxed, program)
    except NexusError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
    finally:
        os._exit(1)


class _Wire:
    """Calls to the runtime and their answers."""

    def __init__(self, reader: asyncio.StreamReader, answers: int) -> None:
        self._reader = reader
        self._answers = answers
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def receive(self) -> dict[str, Any]:
        return json.loads(await self._reader.readline() or b"{}")

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self._answers, data) :]

    async def call(self, method: str, **parameters: Any) -> Any:
        number = len(self._waiting)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.send({"call": number, "method": method, "parameters": parameters})
        return await answer

    async def listen(self) -> None:
        while message := await self.receive():
            answer = self._waiting[message["reply"]]
            if "error" in message:
                answer.set_exception(AutomationError(message["error"]))
            else:
                answer.set_result(message["value"])


class _RemoteRun:
    """A run that the runtime started for this script."""

    def __init__(self, wire: _Wire, id_: str) -> None:
        self._wire = wire
        self.id = id_

    async def result(self) -> Result:
        return Result.from_json(await self._wire.call("result", id=self.id))

    async def cancel(self) -> object:
        return await self._wire.call("cancel", id=self.id)


class _RemoteServices:
    """What the runtime does for this script. The request is the runtime's own: none is sent."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def assemble_context(
        self, request: Request, session_label: str, task: str, *, fork_of: str | None = None
    ) -> AssembledContext:
        asked = {"session_label": session_label, "task": task, "fork": fork_of is not None}
        value = await self._wire.call("assemble_context", **asked)
        return AssembledContext.from_json(value)

    async def start_execution(
        self,
        request: Request,
        assembled: AssembledContext,
        execution_id: str | None = None,
        *,
        access: Access | None = None,
    ) -> _RemoteRun:
        return _RemoteRun(self._wire, await self._wire.call("start_execution", assembled=assembled.to_json()))

    async def recall(self, request: Request, question: str, options: dict[str, Any]) -> Matches:
        return decode(Matches, await self._wire.call("recall", question=question, options=options))


async def _run_script(given: int, answers: int) -> None:
    reader = asyncio.StreamReader(limit=_MOST_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(given, "rb"))
    wire = _Wire(reader, answers)
    job = await wire.receive()
    listening = asyncio.create_task(wire.listen())
    try:
        handler = load_handler(job["source"], Path(job["path"]), job["folder"])
        before = copy.deepcopy({key: job["given"][key] for key in _COPIES})
        used = build_context(job["given"], _RemoteServices(wire))
        returned = handler(used)
        if inspect.isawaitable(returned):
            returned = await returned
        for lost in find_lost_changes(used, before):
            if job["given"].get("strict"):
                raise ScriptError(lost)
            sys.stderr.write(f"WARNING {lost}\n")
        wire.send({"returned": as_json(returned)})
    except BaseException as error:  # whatever a script raises, SystemExit too, is its answer
        wire.send({"failed": _describe_error(error), "trace": _format_trace(error, job["path"])})
    finally:
        listening.cancel()


def load_handler(source: str, path: Path, folder: str | None) -> Handler:
    """The `run` function of a script."""
    # A name of its own: a script called json.py must not take the place of the library.
    module = types.ModuleType(f"nexus_automation_{path.stem}")
    module.__file__ = str(path)
    if folder is not None:
        _import_from(Path(folder))
    # So that a traceback shows the line as it was run, whatever lies on the disk by now.
    linecache.cache[str(path)] = (len(source), None, source.splitlines(keepends=True), str(path))
    sys.modules[module.__name__] = module
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - running it is the purpose
    handler = getattr(module, ENTRY, None)
    if not callable(handler):
        raise ScriptError(f"{path.name} has no function `{ENTRY}(ctx)`")
    return cast("Handler", handler)


class _Uncached(SourceFileLoader):
    """Compiles a module's source. Bytecode beside it is not part of the registered hash, so never runs."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _import_from(folder: Path) -> None:
    """Let a script import what lies beside it."""
    finder = FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES), (_Uncached, SOURCE_SUFFIXES))

    def below(path: str) -> PathEntryFinder:
        if not Path(path).is_relative_to(folder):
            raise ImportError(path)
        return finder(path)

    sys.path_hooks.insert(0, below)
    sys.path_importer_cache.clear()
    sys.path.append(str(folder))


def build_context(given: dict[str, Any], services: Any) -> Context:
    """The context that a script is handed."""
    workspace, assembled, result = given["workspace"], given["assembled"], given["result"]
    peers = {name: Path(path) for name, path in given["peers"].items()}
    return Context(
        request=request_from_json(given["request"]),
        automation=Automation.from_json(given["automation"]),
        hook_point=given["hook_point"],
        invocation_id=given["invocation_id"],
        workspace=workspace and Workspace.at(Path(workspace), peers),
        assembled=assembled and AssembledContext.from_json(assembled),
        result=result and Result.from_json(result),
        services=services,
        log=logging.getLogger(given["automation"]["name"]),
        now=_continue_clock(given["now"]),
    )


def find_lost_changes(used: Context, given: dict[str, Any]) -> list[str]:
    """What a script changed of the copies that it was handed. Nobody sees these changes."""
    now = Occasion(request=used.request, assembled=used.assembled, result=used.result).to_json()
    before, after = _flatten(given), _flatten(json.loads(json.dumps({key: now[key] for key in _COPIES})))
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [
        f"it changed ctx.{name}, which is a copy: the change is lost. Return what is to change."
        for name in changed
    ]


def _flatten(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of the copies, and of the objects inside them, by their dotted names."""
    found: dict[str, Any] = {}
    for part in _COPIES:
        fields: dict[str, Any] = given[part] or {}
        for name, value in fields.items():
            if name in _NESTED:
                inner = cast("dict[str, Any]", value)
                found |= {f"{part}.{name}.{each}": kept for each, kept in inner.items()}
            else:
                found[f"{part}.{name}"] = value
    return found


def _continue_clock(told: str) -> clock.Clock:
    """The runtime's clock, which goes on from what it showed when the script was started."""
    begun, begun_s = clock.parse(told), time.monotonic()
    return lambda: begun + timedelta(seconds=time.monotonic() - begun_s)


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _format_trace(error: BaseException, path: str) -> str:
    """The script's own lines of the traceback."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return "".join(traceback.format_list(own))


if __name__ == "__main__":
    # Started for one script, inside a sandbox: its pipes are the standard ones.
    run(None, None, os.dup(0), os.dup(1), os.dup(2))
