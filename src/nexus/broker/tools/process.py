"""One sandbox that runs: started, fed, listened to, and ended with all that it started."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from nexus import bubblewrap
from nexus.broker.tools import seatbelt, watchdog
from nexus.broker.tools.watchdog import Limits, Reason, Watchdog
from nexus.bubblewrap import Grant, Spec
from nexus.errors import NexusError, SandboxError
from nexus.watch import finish

_CHUNK_BYTES = 64 * 1024
_LEFTOVER_SECONDS = 5


class _Status:
    """What bubblewrap tells about itself: one JSON object a line."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        self._reader = reader
        self._transport = transport

    @classmethod
    async def of(cls, descriptor: int) -> Self:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
        )
        return cls(reader, transport)

    async def next(self) -> dict[str, int]:
        """The next object, or an empty one where there is none."""
        line = await self._reader.readline()
        return json.loads(line) if line else {}

    def close(self) -> None:
        self._transport.close()


class Child:
    """The first process of a sandbox. When it dies, the kernel kills every other one."""

    def __init__(self, process: Process, status: _Status | None, limits: Limits) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.printed_bytes = 0
        self.exit_code: int | None = None
        self.killed_by: Reason | None = None
        self._process = process
        self._status = status
        self._limits = limits
        self._lock = threading.Lock()  # the watchdog's thread may kill while the loop closes
        self._first = -1  # a descriptor, because a number could by now mean another process
        self._watchdog: Watchdog | None = None
        self._streams: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        spec: bubblewrap.Spec,
        limits: Limits,
        *,
        stdin: bytes | None,
        inherits: bool = False,
    ) -> "Child":
        """Start a program under its limits. Cancelled in the midst of it, it leaves nothing running.

        One that `inherits` has our own standard streams, and nothing of what it says is kept.
        """
        kind: type[Child] = _SeatbeltChild if seatbelt.is_enabled() else cls
        starting = asyncio.ensure_future(kind._start(argv, spec, limits, stdin, inherits=inherits))  # noqa: SLF001 - its own
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with suppress(SandboxError):
                await (await starting).close()
            raise

    @classmethod
    async def _start(
        cls,
        argv: Sequence[str],
        spec: bubblewrap.Spec,
        limits: Limits,
        stdin: bytes | None,
        *,
        inherits: bool,
    ) -> Self:
        program = bubblewrap.find_program()
        told, status = os.pipe()
        block, go = os.pipe()
        with _closing(go):
            try:
                with _closing(status, block), bubblewrap.prepare(spec, (status, block)) as (held, opened):
                    streams = (
                        (None, None, None) if inherits else (DEVNULL if stdin is None else PIPE, PIPE, PIPE)
                    )
                    command = [
                        *bubblewrap.join_command(spec),
                        program,
                        "--args",
                        str(held),
                        "--",
                        *argv,
                    ]
                    process = await _spawn(command, [*opened, status, block], streams)
            except BaseException:
                os.close(told)
                raise
            child = cls(process, await _Status.of(told), limits)
            try:
                await child._take_hold(go)
            except BaseException:
                await child.close()  # before `go` is closed, which would let it run without limits
                raise
        if not inherits:
            child._listen(stdin)
        return child

    async def _take_hold(self, go: int) -> None:
        """Set the limits while the sandbox waits, then let it go on."""
        assert self._status is not None  # noqa: S101 - bubblewrap always has one
        first = (await self._status.next()).get("child-pid")
        if first is None:
            return  # it gave up at once, and says why on its standard error
        try:
            self._first = os.pidfd_open(first)
            watchdog.apply(first, self._limits)
        except ProcessLookupError:
            return
        except OSError as error:
            raise SandboxError(f"The limits of the sandbox cannot be set: {error}") from error
        self._watchdog = Watchdog(first, self._limits, self.kill)
        self._watchdog.start()
        with suppress(BrokenPipeError):
            os.write(go, b"\n")

    def _listen(self, stdin: bytes | None) -> None:
        assert self._process.stdout is not None  # noqa: S101 - an invariant, for the reader and the type checker
        assert self._process.stderr is not None  # noqa: S101 - an invariant, for the reader and the type checker
        jobs = [
            self._drain(self._process.stdout, self.stdout),
            self._drain(self._process.stderr, self.stderr),
        ]
        if stdin is not None:
            jobs.append(self._feed(stdin))
        self._streams = [asyncio.ensure_future(job) for job in jobs]

    async def wait_for_end(self) -> None:
        """Return when the program is over; what it started may still have to be ended."""
        await self._process.wait()

    def kill(self, reason: Reason) -> None:
        """End the sandbox. The first reason is the one that counts. Any thread may call this."""
        self.killed_by = self.killed_by or reason
        self._signal()

    async def close(self) -> None:
        """Make sure that nothing is left: no process, no thread, no descriptor."""
        self._signal()
        if self._watchdog is not None:
            self._watchdog.stop()
        await finish(self._finish())

    async def _finish(self) -> None:
        await self._process.wait()
        # Ends with the sandbox, unless it handed its output to a process outside through a socket.
        if self._streams:
            _, late = await asyncio.wait(self._streams, timeout=_LEFTOVER_SECONDS)
            for task in late:
                task.cancel()
        if self._status is not None:
            self.exit_code = (await self._status.next()).get("exit-code")
            self._status.close()
        if self.exit_code == 128 + signal.SIGXCPU:
            self.killed_by = self.killed_by or "cpu"
        with self._lock:
            if self._first >= 0:
                os.close(self._first)
                self._first = -1

    def _signal(self) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self._first >= 0:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            elif self._process.returncode is None:
                self._process.kill()

    async def _drain(self, stream: asyncio.StreamReader, kept: bytearray) -> None:
        while chunk := await stream.read(_CHUNK_BYTES):
            room = self._limits.output_bytes - self.printed_bytes
            self.printed_bytes += len(chunk)
            kept += chunk[: max(room, 0)]
            if self.printed_bytes > self._limits.output_bytes:
                self.kill("output")

    async def _feed(self, data: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None  # noqa: S101 - an invariant, for the reader and the type checker
        with suppress(BrokenPipeError, ConnectionResetError):
            stream.write(data)
            await stream.drain()
        stream.close()


class _SeatbeltChild(Child):
    """A program under Seatbelt, in a process group of its own.

    What leaves the group outlives it, and no watchdog counts memory and processes: macOS has neither
    namespaces nor /proc.
    """

    _temporary: Path

    @classmethod
    async def _start(
        cls,
        argv: Sequence[str],
        spec: bubblewrap.Spec,
        limits: Limits,
        stdin: bytes | None,
        *,
        inherits: bool,
    ) -> Self:
        made = await asyncio.to_thread(tempfile.mkdtemp, prefix="nexus-sandbox-")
        temporary = Path(await asyncio.to_thread(os.path.realpath, made))
        try:
            streams = (None, None, None) if inherits else (DEVNULL if stdin is None else PIPE, PIPE, PIPE)
            # Sizes of files are in blocks of 512 bytes.
            most = (f"-t {limits.cpu_seconds}", f"-f {limits.file_bytes // 512}", "-c 0", "-n 1024")
            command = seatbelt.command(argv, spec, most, temporary)
            process = await _spawn(command, [], streams, seatbelt.environment(spec, temporary))
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, temporary, ignore_errors=True)
            raise
        child = cls(process, None, limits)
        child._temporary = temporary
        if not inherits:
            child._listen(stdin)
        return child

    async def _finish(self) -> None:
        await super()._finish()
        code = self._process.returncode
        if code is not None and self.killed_by is None:
            self.exit_code = code if code >= 0 else 128 - code
            if code == -signal.SIGXCPU:
                self.killed_by = "cpu"
        await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    def _signal(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


async def _spawn(
    command: Sequence[str],
    passed: list[int],
    streams: tuple[int | None, int | None, int | None],
    environment: Mapping[str, str] | None = None,
) -> Process:
    # An empty environment: /proc/1/environ inside shows bubblewrap's own, whatever the program is given.
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=passed,
            env=environment or {},
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SandboxError(
            f"The program cannot be started: {error}", hint="Shorten its arguments; use a file for long text."
        ) from error


@contextmanager
def _closing(*descriptors: int) -> Generator[None]:
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


_VARIABLE: Final = "NEXUS_SANDBOX"


def launch_command(argv: Sequence[str], spec: Spec, limits: Limits) -> tuple[list[str], dict[str, str]]:
    """What to start instead of a program, and with which environment, so that it runs in a sandbox."""
    told = {
        "argv": list(argv),
        "grants": [[str(grant.path), grant.writable] for grant in spec.grants],
        "hidden": list(map(str, spec.hidden)),
        "network": spec.network,
        "environment": dict(spec.environment),
        "directory": str(spec.directory),
        "cgroup": spec.cgroup and str(spec.cgroup),
        "limits": asdict(limits),
    }
    return [sys.executable, "-I", "-c", f"from {__name__} import main; main()"], {_VARIABLE: json.dumps(told)}


async def launch(told: Mapping[str, Any]) -> int:
    """Run the program to its end, or to a limit."""
    limits = Limits(**told["limits"])
    spec = Spec(
        grants=tuple(Grant(path=Path(path), writable=writable) for path, writable in told["grants"]),
        hidden=tuple(map(Path, told["hidden"])),
        network=told["network"],
        temporary_bytes=limits.temporary_bytes,
        environment=told["environment"],
        directory=Path(told["directory"]),
        cgroup=Path(told["cgroup"]) if told["cgroup"] else None,
    )
    child = await Child.start(told["argv"], spec, limits, stdin=None, inherits=True)
    try:
        await child.wait_for_end()
    finally:
        await child.close()
    if child.killed_by is not None:
        sys.stderr.write(f"The sandbox was ended: too much {child.killed_by}\n")
    return 1 if child.exit_code is None else child.exit_code


def main() -> None:
    """Run what the variable says."""
    try:
        sys.exit(asyncio.run(launch(json.loads(os.environ.pop(_VARIABLE)))))
    except NexusError as error:
        sys.exit(str(error))
