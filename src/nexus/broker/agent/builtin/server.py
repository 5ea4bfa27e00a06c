"""The process that serves a builtin model: started for the first request, stopped with the program."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from nexus.broker.agent.builtin import serve, weights
from nexus.errors import ModelError

CONTEXT_TOKENS: Final = 8_192
_START_S: Final = 300
_STOP_S: Final = 10


class ModelProcess:
    """One model's server. It is started again if it has died."""

    def __init__(self, name: str, find: Callable[[str], Path] = weights) -> None:
        self.name = name
        self._find = find
        self._process: Process | None = None
        self._address = ""
        self._starting = asyncio.Lock()

    async def address(self) -> str:
        """Where it serves, once it does."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            return self._address

    async def stop(self) -> None:
        """End it. It would end by itself with this process, too."""
        async with self._starting:
            process, self._process = self._process, None
            if process is None or process.returncode is not None:
                return
            assert process.stdin is not None  # noqa: S101 - an invariant, for the reader and the type checker
            process.stdin.close()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _start(self) -> None:
        file = await asyncio.to_thread(self._find, self.name)
        arguments = (serve.__file__, str(file), self.name, str(CONTEXT_TOKENS))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
        self._process = process
        assert process.stdout is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            async with asyncio.timeout(_START_S):
                line = await process.stdout.readline()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if not line:
            code = await process.wait()
            raise ModelError(
                f"The model {self.name} can't be loaded: its server exited with code {code}",
                hint="Check free memory, and the file with `nexus doctor`.",
            )
        self._address = line.decode().strip()
