"""`nexus models`: the small networks that turn texts into vectors, and where their files are."""

import click


@click.group()
def models() -> None:
    """See and fetch the models that the memory uses. They run on this machine."""


@models.command("list")
def list_() -> None:
    """Every model that Nexus knows, and whether its file is here."""
    from nexus.errors import ModelFileError
    from nexus.memory.embedding import DEFAULT_MODEL, MODELS, find

    for model in MODELS.values():
        try:
            state = f"here, {find(model).found_in}"
        except ModelFileError as error:
            state = f"not here. {error.hint}"
        mark = " (default)" if model.name == DEFAULT_MODEL else ""
        size = f"{model.weights.size_bytes / 1e6:.0f} MB, {model.licence}"
        click.echo(f"{click.style(model.name, bold=True)}{mark}: {model.role}, {size}")
        click.echo(f"  {model.about}")
        click.echo(f"  {state}")


@models.command()
@click.argument("name")
@click.option("--endpoint", envvar="HF_ENDPOINT", help="Another hub than the public one.")
def pull(name: str, endpoint: str | None) -> None:
    """Fetch the model NAME: the pinned revision, checked by its hash."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from nexus.errors import UsageError
    from nexus.memory.embedding import MODELS
    from nexus.memory.embedding.pull import pull as fetch

    if name not in MODELS:
        raise UsageError(f"There is no model `{name}`", hint=f"Known: {', '.join(MODELS)}.")
    model = MODELS[name]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=model.weights.size_bytes)
        place = fetch(model, endpoint=endpoint, told=lambda count: progress.advance(task, count))
        progress.update(task, completed=model.weights.size_bytes)
    click.echo(f"{place}: complete, and its hash is the pinned one.")
