"""The embedding of one home: its models, opened once, and the vectors that searches use.

It needs no engine: whoever uses the memory in a process of their own calls `catch_up`. While a new model
catches up, searches use the vectors of the old one, which goes on embedding what is written.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from nexus.errors import ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory import succession
from nexus.memory.embedding.embedder import Embedder
from nexus.memory.embedding.job import Backlog, Pass, Thread, backlog
from nexus.memory.embedding.vectors import Vectors, serving_model

# How often the model that serves embeds what is new while another one catches up.
_MEANWHILE_S: Final = 1.0

_log = logging.getLogger(__name__)

Open = Callable[[str | None], Embedder]
"""Opens a model: the one that the settings name for None, else the one of that id. It may take a second."""


class HomeEmbedding:
    """The embedding of one home, done in this process when it is asked for."""

    def __init__(
        self,
        ledgers: Ledgers,
        open_model: Open,
        model_id: str,
        let_pass: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`let_pass` is awaited before each batch: embedding takes a core, and nobody waits for it."""
        self.model_id = model_id
        self._ledgers = ledgers
        self._open = open_model
        self._let_pass = let_pass
        self._opening = asyncio.Lock()
        self._models: dict[str, Vectors] = {}
        self._careful = True
        self._catching_up: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Embed no more here."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            with suppress(asyncio.CancelledError):
                await self._catching_up
        self._catching_up = None

    async def catch_up(self, wait_s: float | None) -> None:
        """Embed what is missing without the engine, for a process that does not serve the home.

        It is waited for so long at most, None: to the end; what is left then is embedded meanwhile.
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

    async def _embed_here(self) -> None:
        try:
            with suppress(ModelFileError):
                await self._embed(asyncio.to_thread)
        except Exception:
            # Searches go on with the vectors that are there, and the next one tries again.
            _log.exception("Embedding failed")

    async def _embed(self, on_thread: Thread) -> int:
        async def thread(work: Callable[..., Any], /, *arguments: Any) -> Any:
            if self._let_pass is not None:
                await self._let_pass()
            return await on_thread(work, *arguments)

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
