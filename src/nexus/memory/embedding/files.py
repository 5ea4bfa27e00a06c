"""Where a model's files are: a path in the settings, an installed package of weights, or a pulled copy.

Files are only ever read. One with the wrong hash is refused, wherever it came from.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nexus.errors import NexusError
from nexus.memory.embedding.catalogue import File, Model


class ModelError(NexusError):
    """A model's file is missing or is not the one that was pinned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """A model and the checked file of its weights."""

    model: Model
    weights: Path
    found_in: str


def find(model: Model, *, path: Path | None = None, pulled: Path | None = None) -> ModelFiles:
    """The model's files, or an error that says how to get them.

    `path` is what the settings name: the file itself or a folder that holds it; `pulled` is the folder
    that `nexus models pull` fills.
    """
    for found_in, candidate in _places(model, path, pulled):
        if candidate.is_file():
            check(candidate, model.weights)
            return ModelFiles(model=model, weights=candidate, found_in=found_in)
    raise ModelError(
        f"The files of the model {model.name} are not on this machine",
        hint=f"Run `nexus models pull {model.name}`, or install {_packages(model)}.",
    )


def check(file: Path, pinned: File) -> None:
    """Refuse a file that is not the pinned one."""
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != pinned.sha256:
        raise ModelError(
            f"{file} is not the pinned {pinned.name}: its sha256 is {digest}, not {pinned.sha256}",
            hint="Delete it and run `nexus models pull`.",
        )


def _places(model: Model, path: Path | None, pulled: Path | None) -> Iterator[tuple[str, Path]]:
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
    if pulled is not None:
        yield "pulled", pulled / model.name / model.weights.name


def _packages(model: Model) -> str:
    return " or ".join(f"`{distribution}`" for distribution, _ in model.weights.packages)
