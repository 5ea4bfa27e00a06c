"""Which model a home uses: the one that its settings name, found and opened."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nexus.config import MemoryConfig
from nexus.errors import ConfigError, ModelFileError
from nexus.ledgers import Ledgers
from nexus.memory.embedding.catalogue import DEFAULT_MODEL, MODELS, MULTILINGUAL_MODEL, Model
from nexus.memory.embedding.embedder import Embedder, load
from nexus.memory.embedding.files import ModelFiles, find, locate
from nexus.memory.embedding.vectors import Vectors


def choose_model(settings: MemoryConfig) -> Model:
    """Choose the model that the settings name."""
    model = MODELS.get(settings.embedding_model)
    if model is None or model.role != "embedder":
        known = ", ".join(name for name, each in MODELS.items() if each.role == "embedder")
        raise ConfigError(f"Unknown embedding model `{settings.embedding_model}`", hint=f"Known: {known}.")
    return model


def choose_model_id(settings: MemoryConfig) -> str:
    """Choose the id of the model's build on this machine, or of its preferred build if there is none."""
    model = choose_model(settings)
    found = locate(model, path=_path(settings))
    return model.id_of(model.builds[0]) if found is None else found.id


def find_installed(settings: MemoryConfig) -> ModelFiles:
    """Find the files of the chosen model; ModelFileError if they aren't on this machine."""
    return find(choose_model(settings), path=_path(settings))


def model_for(language: str) -> str:
    """Name the model that fits a language best, given its tag (`en`, `de_DE.UTF-8`, `pt-BR`)."""
    primary = re.split(r"[-_.@]", language.strip().lower(), maxsplit=1)[0]
    return DEFAULT_MODEL if primary in {"", "c", "posix", "en", "eng"} else MULTILINGUAL_MODEL


def make_opener(settings: MemoryConfig) -> Callable[[str | None], Embedder]:
    """Opens the chosen model, or with an id the one that made vectors before."""

    def open_model(model_id: str | None) -> Embedder:
        if model_id is None:
            return load(find_installed(settings))
        for model in MODELS.values():
            for build in model.builds:
                if model.id_of(build) == model_id:
                    return load(find(replace(model, builds=(build,))))
        raise ModelFileError(f"The model {model_id} is not known", hint=f"Known: {', '.join(MODELS)}.")

    return open_model


def _path(settings: MemoryConfig) -> Path | None:
    return Path(settings.embedding_model_path).expanduser() if settings.embedding_model_path else None


async def open_vectors(ledgers: Ledgers, settings: MemoryConfig) -> Vectors:
    """Open the vectors of a home and the chosen model, in a process that serves nothing."""
    return Vectors(ledgers.embeddings, await asyncio.to_thread(make_opener(settings), None))
