"""The runtime's side of scripts: one zygote, and for each invocation a child of it that is waited for.

Whatever a script does, it costs its time-out and not more: it is ended, with all that it started, and
nothing of it runs in this process. That contains faults, not malice: a script runs as the person who
registered it.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nexus.automations.scripts import script
from nexus.automations.scripts.script import Script
from nexus.broker.agent.slots import time_limited
from nexus.errors import NexusError, ScriptError

Answer = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Carries out a call that a script makes: its method and parameters."""

_CHILD = "nexus.automations.scripts.child"
End = asyncio.Future[tuple[int, bool]]
"""How a process ended: its exit code, or the signal that ended it and True."""

# What programs need to run as usual. Keys of providers and everything else must be named in a registration.
_PASSED = frozenset(
    {
        *("HOME", "LOGNAME", "SHELL", "USER", "PATH", "TMPDIR"),
        *("LANG", "LANGUAGE", "TERM", "TZ"),
        *("LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("NEXUS_HOME", "NEXUS_MODELS"),
    }
)
# Neither write bytecode nor import from the working directory.
_PYTHON = (sys.executable, "-B", "-P")
_MOST_LINE_BYTES = 1024 * 1024
_MOST_OUTPUT_BYTES = 1024 * 1024
_KEPT_OUTPUT_BYTES = 16 * 1024
_MOST_CALLS = 1_000
_START_TIMEOUT_S = 30
_FAILED_EXIT_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a script ended."""

    status: Literal["done", "failed", "timeout"]
    returned: Any = None
    error: str | None = None
    output: str = ""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A script to run, and what it is given."""

    script: Script
    given: dict[str, Any]
    directory: Path
    timeout_ms: int
    memory_bytes: int
    variables: tuple[str, ...] = ()
    """Variables of the environment that it gets beside the ordinary ones."""
    sandbox: dict[str, Any] | None = None
    """The sandbox that it runs in, if any: see `script.describe_sandbox`."""

    @property
    def program(self) -> list[str] | None:
        """What is to be started; None where the zygote's own child runs the script."""
        if self.script.source is None:
            return [str(self.script.path.resolve() if self.sandbox else self.script.path)]
        return [script.PYTHON, *_PYTHON[1:], "-m", _CHILD] if self.sandbox else None


def build_environment(named: Iterable[str] = ()) -> dict[str, str]:
    """What a script gets of this process's environment: the ordinary variables and those that are named."""
    passed = _PASSED | set(named)
    kept = {name: os.environ[name] for name in os.environ if name in passed or name.startswith("LC_")}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1"}


class Host:
    """Runs scripts. It starts nothing before it is needed and leaves nothing behind when it is closed."""

    def __init__(self) -> None:
        self._zygote: _Zygote | None = None
        self._starting = asyncio.Lock()

    async def warm(self) -> None:
        """Have the zygote ready, so that the first script need not wait for it."""
        await self._ensure_zygote()

    async def run(self, job: Job, answer: Answer) -> Ended:
        """Run a script to its end or to its time-out."""
        zygote = await self._ensure_zygote()
        begun = await _Child.start(zygote, job)
        try:
            async with asyncio.timeout(job.timeout_ms / 1000) as limit:
                with time_limited(str(job.given.get("invocation_id", "")), limit):
                    return await begun.converse(answer)
        except TimeoutError:
            return Ended(status="timeout", error=f"timed out after {job.timeout_ms} ms", output=begun.output)
        except ScriptError as error:
            return Ended(status="failed", error=error.message, output=begun.output)
        finally:
            begun.close()

    async def close(self) -> None:
        if self._zygote is not None:
            await self._zygote.close()
            self._zygote = None

    async def _ensure_zygote(self) -> "_Zygote":
        async with self._starting:
            if self._zygote is not None and self._zygote.gone:
                await self.close()
            if self._zygote is None:
                self._zygote = await _Zygote.start()
            return self._zygote


class _Zygote:
    """The process that forks for us."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._ends: dict[int, End] = {}
        self._last = 0
        self._listening: asyncio.Task[None] | None = None
        self.gone = False

    @classmethod
    async def start(cls) -> "_Zygote":
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            process = await asyncio.create_subprocess_exec(
                *(*_PYTHON, "-m", "nexus.automations.scripts.zygote", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=build_environment(),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        made = cls(process, ours)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                ready = await asyncio.get_running_loop().sock_recv(ours, 64)
        except TimeoutError:
            ready = b""
        except asyncio.CancelledError:  # the home is closed before it is there, and has forked nothing
            process.kill()
            await made.close()
            raise
        if not ready:
            await made.close()
            raise ScriptError("The script host does not start", hint="Run `nexus doctor`.")
        made._listening = asyncio.create_task(made._listen())
        return made

    async def fork(self, job: Job, pipes: list[int]) -> tuple[int, End]:
        """Start a script; returns the number under which it is known, and its end."""
        self._last += 1
        number = self._last
        end = self._ends[number] = asyncio.get_running_loop().create_future()
        asked = {
            "run": number,
            "program": job.program,
            "sandbox": job.sandbox,
            "directory": str(job.directory),
            "environment": build_environment(job.variables),
            "memory_bytes": job.memory_bytes,
            "cpu_seconds": job.timeout_ms // 1000 + 2,
        }
        await self._send(asked, pipes)
        return number, end

    def kill(self, number: int) -> None:
        """End a script and all that it started; nothing happens where it has ended."""
        if number in self._ends and not self.gone:
            with suppress(OSError):
                self._control.send(json.dumps({"kill": number}).encode() + b"\n")

    async def close(self) -> None:
        self.gone = True
        self._control.close()
        try:
            async with asyncio.timeout(2):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        if self._listening is not None:
            self._listening.cancel()

    async def _send(self, asked: dict[str, Any], pipes: list[int]) -> None:
        data = json.dumps(asked).encode() + b"\n"
        while True:
            try:
                sent = socket.send_fds(self._control, [data], pipes)
            except BlockingIOError:
                await asyncio.sleep(
                    0.001
                )  # it forks faster than anybody asks; this is for the one in a million
                continue
            except OSError as error:
                self.gone = True
                raise ScriptError("The script host exited") from error
            if sent < len(data):
                await asyncio.get_running_loop().sock_sendall(self._control, data[sent:])
            return

    async def _listen(self) -> None:
        loop, pending = asyncio.get_running_loop(), b""
        with suppress(OSError):
            while data := await loop.sock_recv(self._control, 65536):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    told = json.loads(line)
                    end = self._ends.pop(told["ended"], None)
                    if end is not None and not end.done():
                        end.set_result((told["status"], told["signalled"]))
        self.gone = True
        for end in self._ends.values():
            if not end.done():
                end.set_result((signal.SIGKILL, True))
        self._ends.clear()


class _Output(asyncio.Protocol):
    """What a script prints: the beginning is kept, and too much of it ends the script."""

    def __init__(self, exceeded: Callable[[], None]) -> None:
        self.kept = bytearray()
        self.printed_bytes = 0
        self._note_excess = exceeded
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.kept += data[: max(_KEPT_OUTPUT_BYTES - len(self.kept), 0)]
        self.printed_bytes += len(data)
        if self.printed_bytes > _MOST_OUTPUT_BYTES and self._transport is not None:
            self._transport.close()
            self._note_excess()


class _Child:
    """One script that runs."""

    def __init__(self, zygote: _Zygote, job: Job) -> None:
        self._zygote = zygote
        self._job = job
        self._number = -1
        self._end: End = asyncio.get_running_loop().create_future()
        self._closing: list[Callable[[], None]] = []
        self._too_much: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._output = _Output(self._note_excess)
        self._reader = asyncio.StreamReader(limit=_MOST_LINE_BYTES)
        self._writer: asyncio.WriteTransport | None = None
        self._calls: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, zygote: _Zygote, job: Job) -> "_Child":
        made = cls(zygote, job)
        given, to_child = os.pipe()
        from_child, answers = os.pipe()
        printed, output = os.pipe()
        theirs = [given, answers, output]
        try:
            await made._connect(to_child, from_child, printed)
            made._number, made._end = await zygote.fork(job, theirs)
        except BaseException:
            made.close()
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return made

    @property
    def output(self) -> str:
        return self._output.kept.decode("utf-8", "replace")

    async def converse(self, answer: Answer) -> Ended:
        """Hand over what it is given, carry out its calls, and return its answer."""
        is_program = self._job.script.source is None
        talking = asyncio.ensure_future(self._run_program() if is_program else self._run_python(answer))
        try:
            await asyncio.wait({talking, self._too_much}, return_when=asyncio.FIRST_COMPLETED)
            if self._too_much.done():
                raise ScriptError(f"It printed more than {_MOST_OUTPUT_BYTES // 1024} KiB")
            return talking.result()
        finally:
            if not talking.cancel() and not talking.cancelled():
                talking.exception()  # heard of, where it failed because it was ended

    def close(self) -> None:
        """End it, if it has not ended, and let go of its pipes."""
        self._zygote.kill(self._number)
        for call in self._calls:
            call.cancel()
        for close in self._closing:
            close()
        if not self._too_much.done():
            self._too_much.cancel()

    async def _connect(self, to_child: int, from_child: int, printed: int) -> None:
        loop = asyncio.get_running_loop()
        writer, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(to_child, "wb", 0))
        self._writer = writer
        self._closing.append(lambda: None if writer.is_closing() else writer.abort())
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(from_child, "rb", 0)
        )
        self._closing.append(reading.close)
        printing, _ = await loop.connect_read_pipe(lambda: self._output, os.fdopen(printed, "rb", 0))
        self._closing.append(printing.close)

    async def _run_python(self, answer: Answer) -> Ended:
        script = self._job.script
        folder = None if script.folder is None else str(script.folder)
        self._send(
            {"source": script.source, "path": str(script.path), "folder": folder, "given": self._job.given}
        )
        for _ in range(_MOST_CALLS):
            message = await self._read_message()
            if "returned" in message:
                return Ended(status="done", returned=message["returned"], output=self.output)
            if "failed" in message:
                trace = f"{message['trace']}{message['failed']}"
                return Ended(status="failed", error=message["failed"], output=f"{self.output}{trace}\n")
            self._calls.add(asyncio.create_task(self._carry_out(message, answer)))
        raise ScriptError(f"It made more than {_MOST_CALLS} calls")

    async def _read_message(self) -> dict[str, Any]:
        try:
            line = await self._reader.readline()
        except ValueError:
            raise ScriptError(f"It answered more than {_MOST_LINE_BYTES // 1024} KiB") from None
        if not line.endswith(b"\n"):
            raise ScriptError(await self._describe_end())
        try:
            message: dict[str, Any] = dict(json.loads(line))
        except (ValueError, TypeError):
            raise ScriptError("It wrote something else than answers into the pipe of its answers") from None
        return message

    async def _carry_out(self, message: dict[str, Any], answer: Answer) -> None:
        try:
            value = await answer(str(message.get("method")), message.get("parameters") or {})
            self._send({"reply": message["call"], "value": value})
        except NexusError as error:
            self._send({"reply": message["call"], "error": str(error)})
        except Exception as error:  # the script must hear of it, whatever it is
            self._send({"reply": message.get("call"), "error": f"{type(error).__name__}: {error}"})

    async def _run_program(self) -> Ended:
        assert self._writer is not None  # noqa: S101 - an invariant, for the reader and the type checker
        self._send(self._job.given)
        self._writer.close()
        text = await self._reader.read(_MOST_LINE_BYTES + 1)
        while chunk := await self._reader.read(_MOST_LINE_BYTES):
            text += chunk
            if len(text) > _MOST_LINE_BYTES:
                raise ScriptError(f"It answered more than {_MOST_LINE_BYTES // 1024} KiB")
        status, signalled = await asyncio.shield(self._end)
        if status or signalled:
            raise ScriptError(_describe_exit(status, signalled))
        try:
            returned = json.loads(text) if text.strip() else None
        except ValueError as error:
            raise ScriptError(f"What it printed is not JSON: {error}") from None
        return Ended(status="done", returned=returned, output=self.output)

    async def _describe_end(self) -> str:
        try:
            async with asyncio.timeout(_FAILED_EXIT_S):
                status, signalled = await asyncio.shield(self._end)
        except TimeoutError:
            return "It closed the pipe of its answers and gave none"
        return f"{_describe_exit(status, signalled)} before it answered"

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")

    def _note_excess(self) -> None:
        if not self._too_much.done():
            self._too_much.set_result(None)


def _describe_exit(status: int, signalled: bool) -> str:
    if not signalled:
        return f"It exited with code {status}"
    with suppress(ValueError):
        return f"It was ended by {signal.Signals(status).name}"
    return f"It was ended by signal {status}"
