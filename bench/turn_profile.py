"""Where the processor time of a turn goes, how often it commits, and which way a message takes.

    python bench/turn_profile.py    traces one chat message over HTTP and prints its way to the provider

A stop is a function of ours on the stack when the provider is called, or on the one that started the task
which stands at the bottom of that stack, and so on back to HTTP. Where the run waits in a queue, nothing on
its stack leads back: the way then continues before the queue with the stack of `Engine.start`.

`Profile` samples. A thread is mostly seen where it gives up the interpreter's lock, and what it computed
before counts there: `select` and a pool's `_worker` stand for short work done since, not for waiting.
"""

import ast
import asyncio
import os
import sys
import tempfile
import textwrap
import threading
import time
from asyncio import AbstractEventLoop, Task
from collections import Counter
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from inspect import getsource
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import apsw
import httpx
import sqlalchemy as sa
from model_server import model_server
from report import machine
from sqlalchemy import event

import nexus
from nexus import asgi, config
from nexus.app import App
from nexus.gateway.server import Gateway
from nexus.home import Home

_EVERY_S = 0.002
_SWITCH_S = 0.0001
_ROOT = str(Path(nexus.__file__).parent)
_MOST_STOPS, _MOST_FUNCTIONS = 35, 400
_KEY = "BENCH_MODEL_KEY"
_DEEP = ("ledgers", "engine", "broker", "memory", "roles", "automations", "context", "pipeline")


class Profile:
    """What the process did while it was watched."""

    def __init__(self) -> None:
        self.rooms: Counter[str] = Counter()
        """Nanoseconds of processor time by the innermost room that is on the stack."""
        self.lines: Counter[str] = Counter()
        """The same by the innermost function of ours, and what it was calling."""
        self.commits: Counter[str] = Counter()
        self.statements = 0
        """Of the engine's database."""
        self.threads: Counter[str] = Counter()
        """Nanoseconds of processor time by kind of thread."""
        self.cpu_s = 0.0
        self._stopping = threading.Event()

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch until the block is left. Each thread's own clock says what it has computed since."""
        thread = threading.Thread(target=self._watch, name="profile", daemon=True)
        before = _threads_ns()
        began, interval = time.process_time(), sys.getswitchinterval()
        # Otherwise a thread is only ever seen where it lets the others in by itself.
        sys.setswitchinterval(_SWITCH_S)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
            sys.setswitchinterval(interval)
            self.cpu_s = time.process_time() - began
            names = {each.native_id: each.name.rstrip("_-0123456789") for each in threading.enumerate()}
            for id_, spent in _threads_ns().items():
                self.threads[names.get(id_, "others")] += spent - before.get(id_, 0)

    def count_commits(self) -> None:
        """Call it before anything is opened."""

        def opened(connection: apsw.Connection) -> None:
            name = Path(connection.filename).stem

            def committed() -> bool:
                self.commits[name] += 1
                return False

            connection.set_commit_hook(committed)

        apsw.connection_hooks.append(opened)

        def begun(connection: sa.Connection, cursor: object, statement: str, *_: object) -> None:
            self.statements += 1
            if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
                connection.info["wrote"] = True

        def ended(connection: sa.Connection) -> None:
            if connection.info.pop("wrote", False):  # a read alone commits nothing
                self.commits["engine"] += 1

        event.listen(sa.Engine, "before_cursor_execute", begun)
        event.listen(sa.Engine, "commit", ended)

    def _watch(self) -> None:
        spent: dict[int, int] = {}
        me = threading.get_ident()
        while not self._stopping.wait(_EVERY_S):
            for ident, frame in sys._current_frames().items():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no other way
                if ident == me:
                    continue
                try:
                    now = time.clock_gettime_ns(time.pthread_getcpuclockid(ident))
                except OSError:
                    continue
                used, spent[ident] = now - spent.get(ident, now), now
                if used > 0:
                    room, line = _place(frame)
                    self.rooms[room] += used
                    self.lines[line] += used


def _threads_ns() -> dict[int, int]:
    """What each thread has computed so far."""
    found: dict[int, int] = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            found[int(task.name)] = int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return found


def _place(frame: FrameType | None) -> tuple[str, str]:
    library = ""
    innermost = "" if frame is None else f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_ROOT):
            parts = file[len(_ROOT) + 1 :].removesuffix(".py").split("/")
            room = "/".join(parts[: 2 if parts[0] in _DEEP else 1])
            return room, f"{'/'.join(parts)}.{frame.f_code.co_name} → {library or 'itself'}"
        if "site-packages/" in file and not library:
            library = file.partition("site-packages/")[2].partition("/")[0]
        frame = frame.f_back
    return f"({library or 'event loop and threads'})", library or innermost


Stop = CodeType


class Trace:
    """The functions of ours that a message passes. Make it before the program's threads are started."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.functions: set[CodeType] = set()
        self.before: frozenset[CodeType] = frozenset()
        """Those that had run when the provider was called."""
        self.accepted: list[Stop] = []
        """The way from HTTP into the queue."""
        self.asked: list[Stop] = []
        """The way to the provider."""
        self._started: WeakKeyDictionary[Task[Any], list[Stop]] = WeakKeyDictionary()
        self._is_watching = False
        self._handed: ContextVar[list[Stop] | None] = ContextVar("handed", default=None)
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def follow(self, loop: AbstractEventLoop) -> None:
        """Remember who starts a task, and who hands work to a thread."""

        def start(loop: AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **given: Any) -> Task[Any]:
            task = Task(coroutine, loop=loop, **given)
            self._started[task] = self._stops(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            return task

        hand_over = loop.run_in_executor

        def run_in_executor(executor: Any, function: Any, *arguments: Any) -> Any:
            stops = self._stops(sys._getframe(1))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

            def run() -> Any:
                token = self._handed.set(stops)
                try:
                    return function(*arguments)
                finally:
                    self._handed.reset(token)

            return hand_over(executor, run)

        loop.set_task_factory(start)  # pyright: ignore[reportArgumentType]
        loop.run_in_executor = run_in_executor  # pyright: ignore[reportAttributeAccessIssue]

    @contextmanager
    def watching(self) -> Generator[None]:
        self.functions.clear()
        self.accepted, self.asked, self._is_watching = [], [], True
        try:
            yield
        finally:
            self._is_watching = False

    def way(self) -> list[Stop]:
        """All stops, from HTTP to the provider."""
        if self.asked and self.asked[0].co_filename.startswith(f"{_ROOT}/gateway"):
            return self.asked
        return self.accepted + self.asked

    def _see(self, frame: FrameType, what: str, _: object) -> None:
        if what != "call" or not self._is_watching:
            return
        code = frame.f_code
        if _is_ours(code):
            self.functions.add(code)
            if not self.accepted and code.co_qualname == "Engine.start":
                self.accepted = self._stops(frame)
        elif code.co_name == "handle_async_request" and not self.asked:
            request = frame.f_locals.get("request")
            if self._provider in str(getattr(request, "url", "")):
                self.asked = self._stops(frame)
                self.before = frozenset(self.functions)

    def _stops(self, frame: FrameType | None) -> list[Stop]:
        found: list[Stop] = []
        while frame is not None:
            if _is_ours(frame.f_code):
                found.append(frame.f_code)
            frame = frame.f_back
        before = self._handed.get()
        with suppress(RuntimeError):  # no loop runs in this thread
            task = asyncio.current_task()
            before = before if task is None else self._started.get(task)
        return [*(before or []), *reversed(found)]


def _is_ours(code: CodeType) -> bool:
    file = code.co_filename
    comprehension = code.co_name in {"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}
    return (
        file.startswith(_ROOT)
        and "/testing/" not in file
        and not comprehension
        and code.co_name != "<module>"
    )


def _name(code: CodeType) -> str:
    return code.co_qualname.replace("<locals>.", "")


@cache
def _only_passes_on(code: CodeType) -> bool:
    """Whether a function does nothing but call another one."""
    try:
        made = ast.parse(textwrap.dedent(getsource(code))).body[0]
    except (OSError, SyntaxError, IndentationError):
        return False
    if not isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
        return isinstance(made, ast.Expr | ast.Assign | ast.Return)  # a lambda
    body = [
        each
        for each in made.body
        if not isinstance(each, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass | ast.Nonlocal)
        and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    while len(body) == 1 and isinstance(body[0], ast.With | ast.AsyncWith):
        body = body[0].body
    return len(body) == 1 and isinstance(body[0], ast.Return | ast.Expr)


async def trace_message(url: str, folder: Path) -> str:
    """Say a few things, then trace one message from its POST to the end of its answer."""
    trace = Trace(url)
    loop = asyncio.get_running_loop()
    trace.follow(loop)
    home = Home(folder / "home")
    home.create()
    home.config_file.write_text(
        '[models]\nmanager = "anthropic/claude-sonnet-4-5"\n'
        f'[providers.anthropic]\nkind = "anthropic"\nbase_url = "{url}"\napi_key = "env:{_KEY}"\n'
    )
    os.environ[_KEY] = "k"
    async with (
        App(home, config.load(home.config_file)) as app,
        Gateway(app, asgi.open_socket("127.0.0.1", 0, backlog=16)) as gateway,
        httpx.AsyncClient(
            base_url=gateway.url, timeout=60, headers={"authorization": f"Bearer {home.token()}"}
        ) as client,
    ):
        for number in range(3):
            await _say(client, f"Is {number} a nice number?")
        await asyncio.sleep(3)
        with trace.watching():
            await _say(client, "Is seven a nice number?")
    way = trace.way()
    files = {code.co_filename for code in trace.functions}
    passing = sum(map(_only_passes_on, way))
    lines = [
        f"{len(way)} stops from HTTP to the provider (at most {_MOST_STOPS} are wanted), "
        f"{passing} of which only pass on (marked ↓).",
        f"{len(trace.functions)} functions in {len(files)} files until the answer has been read "
        f"(at most {_MOST_FUNCTIONS} are wanted), {len(trace.before)} before the provider was called. "
        f"{machine()}",
        "",
    ]
    for number, code in enumerate(way, start=1):
        if number == len(trace.accepted) + 1 and way is not trace.asked:
            lines.append("     … the queue …")
        place = f"{code.co_filename[len(_ROOT) + 1 :]}:{code.co_firstlineno}"
        lines.append(f"{number:4} {'↓' if _only_passes_on(code) else ' '} {_name(code):50} {place}")
    rooms = Counter(code.co_filename[len(_ROOT) + 1 :].partition("/")[0] for code in trace.functions)
    lines += ["", "functions by room: " + ", ".join(f"{room} {count}" for room, count in rooms.most_common())]
    return "\n".join(lines) + "\n"


async def _say(client: httpx.AsyncClient, text: str) -> None:
    accepted = (await client.post("/api/messages", json={"text": text})).raise_for_status().json()
    async with client.stream("GET", f"/api/executions/{accepted['execution_id']}/stream") as answer:
        async for line in answer.aiter_lines():
            if line.startswith("event: result"):
                return
            if line.startswith("event: failed"):
                raise RuntimeError("the message was not answered")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, model_server(Path(name), {"always": "Yes."}) as url:
        print(asyncio.run(trace_message(url, Path(name))), end="")


if __name__ == "__main__":
    main()
