"""`nexus models`: the small networks that turn texts into vectors, and where their files are."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nexus.memory.embedding import Model


@click.group()
def models() -> None:
    """List and download the models that the memory uses. They run on this machine."""


@models.command("list")
def list_() -> None:
    """List the models that Nexus knows, and whether they are installed."""
    from nexus.errors import ModelFileError
    from nexus.memory.embedding import DEFAULT_MODEL, MODELS, find

    for model in MODELS.values():
        try:
            found = find(model)
            build, state = found.build, f"Installed: {found.found_in}."
        except ModelFileError as error:
            build, state = None, f"Not installed. {error.hint}"
        mark = " (default)" if model.name == DEFAULT_MODEL else ""
        size = f"{(build or model.builds[0]).size_bytes / 1e6:.0f} MB, {model.licence}"
        click.echo(f"{click.style(model.name, bold=True)}{mark}: {model.role}, {size}")
        click.echo(f"  {model.about}")
        click.echo(f"  {state}")


@models.command()
@click.argument("name")
@click.option("--endpoint", envvar="HF_ENDPOINT", help="Another hub than the public one.")
def pull(name: str, endpoint: str | None) -> None:
    """Download the model NAME and check its hashes."""
    from nexus.errors import UsageError
    from nexus.memory.embedding import MODELS

    if name not in MODELS:
        raise UsageError(f"There is no model `{name}`", hint=f"Known: {', '.join(MODELS)}.")
    folder = download(MODELS[name], endpoint)
    click.echo(f"Installed {name} in {folder}; its hashes match.")


def download(model: "Model", endpoint: str | None = None) -> Path:
    """Download a model with a progress bar, and return its folder."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from nexus.memory.embedding.pull import pull as fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(model.name, total=model.hub_build.size_bytes if model.hub_build else None)
        return fetch(model, endpoint=endpoint, told=lambda count: progress.advance(task, count))
