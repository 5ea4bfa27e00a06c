"""Embedding on the engine: a job that drains what waits, and wake-ups that ask for it.

A wake-up may be lost, doubled or late without harm: the job looks at the ledgers, not at a list.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from nexus.engine import Context, Jobs, Retry
from nexus.errors import ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory.embedding.home import HomeEmbedding, Open

WORK: Final = "embedding"
# Writes that follow each other closely share one job.
_TOGETHER_S: Final = 0.2
# How long a write by another process, which cannot wake this one, may go unnoticed.
_LOOK_S: Final = 30.0
_RETRY: Final = Retry(attempts=8, first_ms=500)

_log = logging.getLogger(__name__)


class Background(HomeEmbedding):
    """The embedding of one home. Register it before the engine opens; `start` it afterwards."""

    def __init__(
        self,
        ledgers: Ledgers,
        jobs: Jobs,
        open_model: Open,
        model_id: str,
        let_pass: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(ledgers, open_model, model_id, let_pass)
        self._jobs = jobs
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        jobs.register(WORK, self._run, retry=_RETRY)

    def start(self) -> None:
        """Ask for a first look, and from now on for one after each `wake`."""
        self.wake()
        self._task = asyncio.create_task(self._ask())

    async def stop(self) -> None:
        """Ask no more, and embed no more here. A job that runs is the engine's to stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._task = None
        await super().stop()

    def wake(self) -> None:
        """Something was written."""
        self._wanted.set()

    async def _run(self, context: Context, payload: Any) -> dict[str, Any]:
        try:
            return {"embedded": await self._embed(context.thread)}
        except ModelFileError as error:
            return {"embedded": 0, "waits_for": error.message}

    async def _ask(self) -> None:
        while True:
            try:
                if await self._due():
                    self._wanted.clear()
                    await self._jobs.add(WORK, str(self._ledgers.home.root))
            except Exception:
                # What waits stays visible in the ledgers, and the next wake-up asks again.
                _log.exception("Embedding could not be asked for")
            await asyncio.sleep(_TOGETHER_S)

    async def _due(self) -> bool:
        """Wait for a wake-up; without one, look now and then what others wrote."""
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._wanted.wait()
        except TimeoutError:
            return (await self.backlog()).depth > 0
        return True
