"""The embedding of a home: a task of the process that runs its work embeds what has no vector yet.

A wake-up may be lost, doubled or late without harm: the task looks at the ledgers, not at a list. While a
new model catches up, searches use the vectors of the old one, which goes on embedding what is written.
A process that doesn't run the home's work calls `catch_up`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

from nexus.errors import TEMPORARY_LEDGER_ERRORS, ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory import succession
from nexus.memory.embedding.embedder import Embedder
from nexus.memory.embedding.job import Backlog, Pass, backlog
from nexus.memory.embedding.vectors import Vectors, serving_model
from nexus.watch import wait_at_most

# Writes that follow each other closely are embedded together.
_TOGETHER_S: Final = 0.2
# How long a write by another process, which cannot wake this one, may go unnoticed.
_LOOK_S: Final = 30.0
# How soon a process that stands by notices that the home's work is its own now.
_STAND_BY_S: Final = 0.5
# How often the model that serves embeds what is new while another one catches up.
_MEANWHILE_S: Final = 1.0
# After a failure; three times as long after each further one in a row.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 3600.0
# After so many failures in a row, the home need not stay open for the next attempt.
_STUBBORN: Final = 5

_log = logging.getLogger(__name__)

Open = Callable[[str | None], Embedder]
"""Opens a model: the one that the settings name for None, else the one of that id. It may take a second."""


@dataclass(frozen=True, kw_only=True)
class Turns:
    """When embedding may go on: it takes a core, and nobody waits for it."""

    may_run: Callable[[], bool] = lambda: True
    """Whether this process runs the home's work now."""
    let_pass: Callable[[], Awaitable[None]] | None = None
    """Awaited before each portion."""
    places: asyncio.Semaphore | None = None
    """How many portions may be embedded at a time, in a process of many homes."""


class Background:
    """The embedding of one home."""

    def __init__(
        self,
        ledgers: Ledgers,
        open_model: Open,
        model_id: str,
        turns: Turns | None = None,
    ) -> None:
        self.model_id = model_id
        self.is_behind = False
        """Whether something may have been written here that was not embedded yet."""
        self._ledgers = ledgers
        self._open = open_model
        self._turns = turns or Turns()
        self._opening = asyncio.Lock()
        self._models: dict[str, Vectors] = {}
        self._careful = True
        self._failures = 0
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Embed what is missing, now and after each `wake`."""
        self.wake()
        self._task = asyncio.create_task(self._keep_embedding(), name="embedding")

    async def stop(self) -> None:
        """Embed no more. What is left is found in the ledgers by the next process."""
        for task in filter(None, (self._task, self._catching_up)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._task = self._catching_up = None

    def wake(self) -> None:
        """Something was written."""
        self.is_behind = True
        self._wanted.set()

    @property
    def is_busy(self) -> bool:
        """Whether the home should stay open for it."""
        return (
            self._task is not None and self.is_behind and self._turns.may_run() and self._failures < _STUBBORN
        )

    async def catch_up(self, wait_s: float | None) -> None:
        """Embed what is missing now, for a process that does not serve the home.

        It is waited for so long at most, None: to the end; what is left then is embedded meanwhile.
        """
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.create_task(self._embed_here())
        await asyncio.wait({self._catching_up}, timeout=wait_s)

    @property
    def open_vectors(self) -> Vectors | None:
        """The vectors of the chosen model, once it is open."""
        return self._models.get(self.model_id)

    async def vectors(self) -> Vectors:
        """Open what searches use now: the vectors of the serving model, else those of the chosen one."""
        serving = await serving_model(self._ledgers.embeddings)
        if serving not in {None, self.model_id}:
            try:
                return await self._open_vectors(serving)
            except ModelFileError:
                _log.warning(
                    "The model %s is not here any more: searching with what %s has", serving, self.model_id
                )
        return await self._open_vectors(None)

    async def backlog(self) -> Backlog:
        """Count what waits, and since when."""
        return await backlog(self._ledgers, self.model_id)

    async def _keep_embedding(self) -> None:
        while True:
            if not self._turns.may_run():
                await asyncio.sleep(_STAND_BY_S)
                continue
            try:
                if await self._is_due() and self._turns.may_run():
                    self._wanted.clear()
                    await self._embed()
                    self._failures, self.is_behind = 0, self._wanted.is_set()
            except ModelFileError:
                # The next look finds the model, if it was installed since.
                self.is_behind = False
            except Exception as error:
                self._failures += 1
                self._wanted.set()
                pause_s = min(_FIRST_PAUSE_S * 3 ** min(self._failures - 1, 20), _LONGEST_PAUSE_S)
                if isinstance(error, TEMPORARY_LEDGER_ERRORS):
                    _log.warning("Embedding waits %.0f seconds: %s", pause_s, error)
                else:
                    _log.exception("Embedding failed, and is tried again in %.0f seconds", pause_s)
                await asyncio.sleep(pause_s)
            await asyncio.sleep(_TOGETHER_S)

    async def _is_due(self) -> bool:
        """Wait for a wake-up; without one, look now and then what others wrote."""
        if await wait_at_most(self._wanted.wait(), _LOOK_S):
            return True
        self.is_behind = (await self.backlog()).depth > 0
        return self.is_behind

    async def _yielding(self, work: Callable[..., Any], /, *arguments: Any) -> Any:
        """Run one portion on a thread when it is its turn."""
        if self._turns.let_pass is not None:
            await self._turns.let_pass()
        async with self._turns.places or nullcontext():
            return await asyncio.to_thread(work, *arguments)

    async def _embed_here(self) -> None:
        try:
            with suppress(ModelFileError):
                await self._embed()
        except Exception:
            # Searches go on with the vectors that are there, and the next one tries again.
            _log.exception("Embedding failed")

    async def _embed(self) -> None:
        vectors = await self._open_vectors(None)
        meanwhile = asyncio.create_task(self._keep_serving())
        try:
            await Pass(
                ledgers=self._ledgers, vectors=vectors, careful=self._careful, thread=self._yielding
            ).run()
        finally:
            meanwhile.cancel()
            await asyncio.wait({meanwhile})
        self._careful = False
        await vectors.serve()
        await succession.derive(self._ledgers, vectors, thread=self._yielding)

    async def _keep_serving(self) -> None:
        """Embed what is written with the model that searches use, if it is another than the chosen one."""
        serving = await serving_model(self._ledgers.embeddings)
        if serving in {None, self.model_id}:
            return
        try:
            vectors = await self._open_vectors(serving)
            while True:
                await Pass(ledgers=self._ledgers, vectors=vectors, careful=False).run()
                await asyncio.sleep(_MEANWHILE_S)
        except ModelFileError:
            _log.warning("The model %s is not installed: new texts are found by words for now", serving)
        except Exception:
            # The chosen model goes on, and will have these texts too.
            _log.exception("New texts could not be embedded with the model %s", serving)

    async def _open_vectors(self, model_id: str | None) -> Vectors:
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
