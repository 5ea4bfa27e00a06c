"""`nexus models`: the models that run on this machine, and where their files are."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nexus.broker.agent.builtin import BuiltinModel
    from nexus.memory.embedding import Model


@click.group()
def models() -> None:
    """List and download local models for the memory and the built-in agent."""


@models.command("list")
def list_() -> None:
    """List known models and whether they are installed."""
    from nexus.broker.agent import builtin
    from nexus.errors import ModelFileError, NexusError
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
    for each in builtin.BUILTIN.values():
        try:
            state = f"Installed: {builtin.weights(each.name)}."
        except NexusError as error:
            state = f"Not installed. {error.hint}"
        size = f"{each.build.size_bytes / 1e6:.0f} MB, {each.licence}"
        click.echo(f"{click.style(each.name, bold=True)}: language model, {size}")
        click.echo(f"  {each.about} Use it as `builtin/{each.name}`.")
        click.echo(f"  {state}")


@models.command()
@click.argument("name")
@click.option("--endpoint", envvar="HF_ENDPOINT", help="Hub URL.")
def pull(name: str, endpoint: str | None) -> None:
    """Download model NAME and verify its hashes."""
    from nexus.broker.agent.builtin import BUILTIN
    from nexus.errors import UsageError
    from nexus.memory.embedding import MODELS

    known: dict[str, Model | BuiltinModel] = {**MODELS, **BUILTIN}
    if name not in known:
        raise UsageError(f"Unknown model `{name}`", hint=f"Known: {', '.join(known)}.")
    folder = download(known[name], endpoint)
    click.echo(f"Installed {name} in {folder}. Hashes verified.")


def download(model: "Model | BuiltinModel", endpoint: str | None = None) -> Path:
    """Download a model with a progress bar, and return its folder."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from nexus.memory.embedding import Model
    from nexus.memory.embedding.pull import pull as fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        build = model.hub_build if isinstance(model, Model) else model.build
        task = progress.add_task(model.name, total=build.size_bytes if build else None)

        def told(count: int) -> None:
            progress.advance(task, count)

        if isinstance(model, Model):
            return fetch(model, endpoint=endpoint, told=told)
        return model.pull(endpoint=endpoint, told=told).parent
