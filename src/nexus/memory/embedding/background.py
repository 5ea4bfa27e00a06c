"""Embedding on the engine: a job that drains what waits, and wake-ups that ask for it.

A wake-up may be lost, doubled or late without harm: the job looks at the ledgers, not at a list. While a
new model catches up, searches use the vectors of the old one, which goes on embedding what is written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from nexus.engine import Context, Jobs, Retry
from nexus.errors import ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory import succession
from nexus.memory.embedding.embedder import Embedder
from nexus.memory.embedding.job import Backlog, Pass, Thread, backlog
from nexus.memory.embedding.vectors import Vectors, serving_model

WORK: Final = "embedding"
# Writes that follow each other closely share one job.
_TOGETHER_S: Final = 0.2
# How long a write by another process, which cannot wake this one, may go unnoticed.
_LOOK_S: Final = 30.0
# How often the model that serves embeds what is new while another one catches up.
_MEANWHILE_S: Final = 1.0
_RETRY: Final = Retry(attempts=8, first_ms=500)

_log = logging.getLogger(__name__)

Open = Callable[[str | None], Embedder]
"""Opens a model: the one that the settings name for None, else the one of that id. It may take a second."""


class Background:
    """The embedding of one home. Register it before the engine opens; `start` it afterwards."""

    def __init__(
        self,
        ledgers: Ledgers,
        jobs: Jobs,
        open_model: Open,
        model_id: str,
        let_pass: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`let_pass` is awaited before each batch: embedding takes a core, and nobody waits for it."""
        self.model_id = model_id
        self._let_pass = let_pass
        self._ledgers = ledgers
        self._jobs = jobs
        self._open = open_model
        self._opening = asyncio.Lock()
        self._models: dict[str, Vectors] = {}
        self._careful = True
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        jobs.register(WORK, self._run, retry=_RETRY)

    def start(self) -> None:
        """Ask for a first look, and from now on for one after each `wake`."""
        self.wake()
        self._task = asyncio.create_task(self._ask())

    async def stop(self) -> None:
        """Ask no more, and embed no more here. A job that runs is the engine's to stop."""
        for task in filter(None, (self._task, self._catching_up)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._task = self._catching_up = None

    def wake(self) -> None:
        """Something was written."""
        self._wanted.set()

    async def catch_up(self, wait_s: float) -> None:
        """Embed what is missing without the engine, for a process that does not serve the home.

        It is waited for so long at most; what is left then is embedded meanwhile.
        """
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(self._embed_here())
        await asyncio.wait({self._catching_up}, timeout=wait_s)

    @property
    def embedder(self) -> Embedder | None:
        """The chosen model, once it is open."""
        opened = self._models.get(self.model_id)
        return None if opened is None else opened.embedder

    async def vectors(self) -> Vectors:
        """What searches use now: the vectors of the model that serves, else those of the chosen one."""
        serving = await serving_model(self._ledgers.embeddings)
        if serving not in {None, self.model_id}:
            try:
                return await self._opened(serving)
            except ModelFileError:
                _log.warning(
                    "The model %s is not here any more: searching with what %s has", serving, self.model_id
                )
        return await self._opened(None)

    async def backlog(self) -> Backlog:
        """How much waits, and since when."""
        return await backlog(self._ledgers, self.model_id)

    async def _run(self, context: Context, payload: Any) -> dict[str, Any]:
        try:
            return {"embedded": await self._embed(self._yielding(context.thread))}
        except ModelFileError as error:
            return {"embedded": 0, "waits_for": error.message}

    def _yielding(self, thread: Thread) -> Thread:
        async def run(work: Callable[..., Any], /, *arguments: Any) -> Any:
            if self._let_pass is not None:
                await self._let_pass()
            return await thread(work, *arguments)

        return run

    async def _embed_here(self) -> None:
        try:
            with suppress(ModelFileError):
                await self._embed(asyncio.to_thread)
        except Exception:
            # Searches go on with the vectors that are there, and the next one tries again.
            _log.exception("Embedding failed")

    async def _embed(self, thread: Thread) -> int:
        vectors = await self._opened(None)
        meanwhile = asyncio.create_task(self._keep_serving())
        try:
            made = await Pass(
                ledgers=self._ledgers, vectors=vectors, careful=self._careful, thread=thread
            ).run()
        finally:
            meanwhile.cancel()
            with suppress(asyncio.CancelledError):
                await meanwhile
        self._careful = False
        await vectors.serve()
        await succession.derive(self._ledgers, vectors, thread=thread)
        return made

    async def _keep_serving(self) -> None:
        """Embed what is written with the model that searches use, if it is another than the chosen one."""
        serving = await serving_model(self._ledgers.embeddings)
        if serving in {None, self.model_id}:
            return
        try:
            vectors = await self._opened(serving)
            while True:
                await Pass(ledgers=self._ledgers, vectors=vectors, careful=False).run()
                await asyncio.sleep(_MEANWHILE_S)
        except ModelFileError:
            _log.warning("The model %s is not installed: new texts are found by words for now", serving)
        except Exception:
            # The chosen model goes on, and will have these texts too.
            _log.exception("New texts could not be embedded with the model %s", serving)

    async def _opened(self, model_id: str | None) -> Vectors:
        key = model_id or self.model_id
        async with self._opening:
            if key not in self._models:
                embedder = await asyncio.to_thread(self._open, model_id)
                key = embedder.model_id
                if model_id is None:
                    # Another build of the chosen model may have come to this machine in the meantime.
                    self.model_id = key
                self._models.setdefault(key, Vectors(self._ledgers.embeddings, embedder))
            return self._models[key]

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
