"""One copy of each embedding model in the process, however many homes use it."""

import threading
from collections.abc import Callable

from nexus.config import MemoryConfig
from nexus.memory.embedding import make_opener
from nexus.memory.embedding.embedder import Embedder


class Embedders:
    """The models that were opened so far."""

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._open: dict[tuple[str, str, str | None], Embedder] = {}

    def opener(self, settings: MemoryConfig) -> Callable[[str | None], Embedder]:
        """As `embedding.make_opener`, for a home with those settings."""
        load = make_opener(settings)

        def open_model(model_id: str | None) -> Embedder:
            key = (settings.embedding_model, settings.embedding_model_path, model_id)
            with self._opening:
                if key not in self._open:
                    found = load(model_id)
                    same = (each for each in self._open.values() if each.model_id == found.model_id)
                    self._open[key] = next(same, found)
                return self._open[key]

        return open_model
