"""`nexus models`: list, test and download models."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nexus import config
from nexus.broker.agent.knowledge import concerns, facts
from nexus.broker.agent.roles import models_of
from nexus.cli.place import open_home, printable
from nexus.config import Config
from nexus.errors import NexusError
from nexus.home import Home
from nexus.ledgers.runtime.models import Capabilities

if TYPE_CHECKING:
    from nexus.broker.agent.builtin import BuiltinModel
    from nexus.broker.agent.trial import Trial
    from nexus.memory.embedding import Model


def try_model(settings: Config, name: str, environ: Mapping[str, str] = os.environ) -> "Trial":
    """Test a model, and print what it can do."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent import trial

    last = ""

    def print_step(step: str) -> None:
        nonlocal last
        if step != last:
            click.echo(f" {printable(step)}…", nl=False)
        last = step

    click.echo(f"Testing {printable(name)}…", nl=False)
    try:
        done = asyncio.run(trial.try_model(settings, name, environ, on_progress=print_step))
    finally:
        click.echo()
    click.echo(f"  Answered in {done.duration_ms / 1000:.1f} s: {', '.join(facts(done.known))}.")
    for line in concerns(done.known):
        click.echo(f"  {line}")
    return done


def keep_trials(home: Home, settings: Config, trials: "Sequence[Trial]") -> None:
    """Store in a home what trials of its models showed."""
    from nexus.broker.agent import trial
    from nexus.ledgers import Ledgers

    async def keep() -> None:
        async with Ledgers(home, settings.ledgers) as ledgers:
            for each in trials:
                await trial.keep(ledgers.runtime, each)

    if trials:
        asyncio.run(keep())


@click.group(invoke_without_command=True)
@click.pass_context
def models(ctx: click.Context) -> None:
    """Show this home's models and their capabilities; test and download models."""
    if ctx.invoked_subcommand is not None:
        return
    home, settings = open_home(ctx)
    known = asyncio.run(_load_capabilities(home, settings))
    used = settings.models.roles
    for name, roles in used.items():
        click.echo(f"{click.style(printable(name), bold=True)}: {', '.join(roles)}")
        found = known.get(name, Capabilities())
        tested = f"Tested {found.tested_at[:10]}" if found.tested_at else "Not tested"
        click.echo(f"  {', '.join(facts(found)) or 'Nothing is known of it'}. {tested}.")
        for line in concerns(found):
            click.echo(f"  {line}")
    if not used:
        click.echo("No model is set. Run `nexus init` to choose one.")
    elif any(not known.get(name, Capabilities()).tested_at for name in used):
        click.echo("Run `nexus models test` to find out what they can do.")


@models.command("test")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.pass_context
def test(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Test models and store what they can do.

    Each is asked a question, a tool call and a JSON answer, which costs a few hundred tokens. NAME is
    `provider/model`. Without one, all models of this home are tested.
    """
    home, settings = open_home(ctx)
    tried = names or tuple(settings.models.roles)
    if not tried:
        models_of(settings.models, "manager")  # says that none is set, and what to do
    failed = False
    for name in tried:
        try:
            keep_trials(home, settings, [try_model(settings, name)])
        except NexusError as error:
            click.echo(f"  {printable(error.message)}\n  {printable(error.hint)}".rstrip(), err=True)
            failed = True
    if failed:
        ctx.exit(1)


async def _load_capabilities(home: Home, settings: config.Config) -> dict[str, Capabilities]:
    from nexus.broker.agent.knowledge import Knowledge
    from nexus.broker.agent.models import Models
    from nexus.ledgers import Ledgers

    found: dict[str, Capabilities] = {}
    async with (
        Ledgers(home, settings.ledgers) as ledgers,
        Models(settings, knowledge=Knowledge(ledgers.runtime)) as models,
    ):
        for name in settings.models.roles:
            with suppress(NexusError):  # `nexus doctor` reports a missing key
                found[name] = await models.capabilities(name)
    return found


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
    from nexus.memory.embedding.files import pull as fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        build = model.hub_build if isinstance(model, Model) else model.build
        task = progress.add_task(model.name, total=build.size_bytes if build else None)

        advance = partial(progress.advance, task)
        if isinstance(model, Model):
            return fetch(model, endpoint=endpoint, told=advance)
        return model.pull(endpoint=endpoint, told=advance).parent
