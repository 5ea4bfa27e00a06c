"""Which embedding model a home gets: the one for its owner's language."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from nexus.cli.init_providers import Prompter
from nexus.cli.terminal import printable
from nexus.errors import ModelFileError

if TYPE_CHECKING:
    from nexus.memory.embedding import Model

Download = Callable[["Model"], object]


def of_locale(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language of the locale, as `de_DE.UTF-8`, or nothing if none is set."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    return next((environment[name] for name in names if environment.get(name)), "")


def embedding_model(
    language: str, prompter: Prompter, *, download: bool, fetch: Download | None = None
) -> str:
    """Name the embedding model for a language, and say which it is unless it is the default.

    A model that is not installed is downloaded if a person agrees or `download` says so; without it,
    the home gets the default model.
    """
    # Imported here, because it brings numpy with it.
    from nexus.cli.models import download as downloaded
    from nexus.memory.embedding import DEFAULT_MODEL, MODELS, locate, model_for

    name = model_for(language)
    model = MODELS[name]
    if name == DEFAULT_MODEL:
        return name
    if locate(model) is None and not _download_model(model, prompter, download, fetch or downloaded):
        click.echo(
            f"Embedding model: {DEFAULT_MODEL}, which reads English. For other languages run "
            f"`nexus models pull {name}`, then `nexus init --language {printable(language)}`."
        )
        return DEFAULT_MODEL
    click.echo(f"Embedding model: {name}, for the language {printable(language)}.")
    return name


def _download_model(model: "Model", prompter: Prompter, download: bool, fetch: Download) -> bool:
    build = model.hub_build
    if build is None:
        return False
    question = (
        f"Download {model.name} ({build.size_bytes / 1e6:.0f} MB) to search in languages other than English?"
    )
    if not prompter.yes(question, default=prompter.is_person or download):
        return False
    try:
        fetch(model)
    except ModelFileError as error:
        click.echo(printable(f"{error.message}."), err=True)
        return False
    return True
