"""A channel that a program connects, in any language: it writes and reads lines of JSON. See `wire`."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nexus.channels import wire
from nexus.channels.adapter import Capability, Delivery, DeliveryError, Inbox, MessageError
from nexus.errors import ConfigError

_STOP_S: Final = 5.0
_MAX_BAD_LINES: Final = 100
"""A program that writes nothing but nonsense is started again."""
_log = logging.getLogger(__name__)


class Program:
    """Starts a program and speaks with it. What it writes to standard error goes to the log."""

    def __init__(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None, folder: Path
    ) -> None:
        if not command:
            raise ConfigError(
                f"[channels.{name}] needs `command`", hint="Write the program and its arguments."
            )
        self.capabilities: frozenset[Capability] = frozenset()
        self._name = name
        self._command = tuple(command)
        self._env = dict(env or {})
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[str, asyncio.Future[str | None]] = {}
        self._writing = asyncio.Lock()

    async def run(self, inbox: Inbox) -> None:
        """Run the program until it ends, or stop it."""
        process = await self._start()
        self._process = process
        assert process.stdout is not None  # noqa: S101 - an invariant, for the reader and the type checker
        errors = asyncio.create_task(self._log_errors(process))
        try:
            await self._listen(process.stdout, inbox)
            code = await process.wait()
        finally:
            self._process = None
            self._fail_deliveries("the program ended")
            await self._stop(process)
            errors.cancel()
            await asyncio.gather(errors, return_exceptions=True)
        raise ChildProcessError(f"the program ended with code {code}")

    async def deliver(self, delivery: Delivery) -> str | None:
        """Ask the program to send a message, and wait until it says what became of it."""
        future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._waiting[delivery.key] = future
        try:
            await self._write(wire.describe_delivery(delivery))
            return await future
        finally:
            self._waiting.pop(delivery.key, None)

    async def show_work(self, thread: str, message_id: str, *, ended: bool) -> None:
        """Tell the program that a message is worked on, or no longer."""
        await self._write({"type": "working", "thread": thread, "id": message_id, "ended": ended})

    async def _start(self) -> asyncio.subprocess.Process:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self._folder,
                env={**kept, **self._env},
                limit=wire.MAX_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{self._command[0]} could not be started: {error.strerror}") from error

    async def _listen(self, output: asyncio.StreamReader, inbox: Inbox) -> None:
        bad = 0
        while True:
            try:
                given = await output.readline()
            except ValueError:
                raise MessageError(
                    f"The program wrote a line of more than {wire.MAX_LINE_BYTES:,} bytes"
                ) from None
            if not given:
                return
            try:
                await self._handle_line(wire.parse_line(given), inbox)
            except MessageError as error:
                bad += 1
                _log.warning("a line was ignored: %s", error, extra={"channel": self._name})
                if bad >= _MAX_BAD_LINES:
                    raise

    async def _handle_line(self, value: dict[str, Any], inbox: Inbox) -> None:
        kind = value["type"]
        if kind == "ready":
            self.capabilities = wire.read_capabilities(value)
            await inbox.connected()
        elif kind == "message":
            await self._take_in(value, inbox)
        elif kind in {"delivered", "failed"}:
            self._settle_delivery(value)
        else:
            raise MessageError(f"Unknown line type {kind!r}")

    async def _take_in(self, value: dict[str, Any], inbox: Inbox) -> None:
        try:
            message = wire.read_message(value)
        except MessageError as error:
            await inbox.set_aside(value, str(error))
            await self._write({"type": "rejected", "id": value.get("id"), "reason": str(error)})
        else:
            await inbox.receive(message)
            await self._write({"type": "accepted", "id": message.id})

    def _settle_delivery(self, value: dict[str, Any]) -> None:
        future = self._waiting.get(str(value.get("key")))
        if future is None or future.done():
            return
        if value["type"] == "delivered":
            id_ = value.get("id")
            future.set_result(None if id_ is None else str(id_))
        else:
            final = value.get("retry") is False
            future.set_exception(DeliveryError(str(value.get("reason") or "it gave no reason"), final=final))

    def _fail_deliveries(self, why: str) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(DeliveryError(why))

    async def _write(self, value: dict[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise DeliveryError("the program doesn't run")
        async with self._writing:
            try:
                process.stdin.write(wire.encode_line(value))
                await process.stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                raise DeliveryError("the program ended") from None

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """Ask it to end, then end it."""
        if process.returncode is not None:
            return
        with suppress(BrokenPipeError, ConnectionResetError):
            if process.stdin is not None:
                process.stdin.write(wire.encode_line({"type": "stop"}))
                process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()

    async def _log_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 - an invariant, for the reader and the type checker
        with suppress(ValueError):
            async for given in process.stderr:
                told = given.decode(errors="replace").rstrip()[:2_000]
                _log.info("%s", told, extra={"channel": self._name})
