"""`nexus init`: create or complete a home; at a terminal, choose its model and start it."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from nexus import config, config_file, extras, ledgers
from nexus.broker.agent.providers import PROVIDERS, Choice
from nexus.cli import init_model, models
from nexus.cli.init_model import Defaults, KeyWish, Person, Prompter, Wishes
from nexus.cli.place import locate_home, printable
from nexus.config_file import Change
from nexus.demo import place
from nexus.errors import ModelFileError, NexusError
from nexus.home import Home
from nexus.ledgers import attach
from nexus.ledgers.connection import refuse_unknown
from nexus.serving import serving
from nexus.settings import variable

if TYPE_CHECKING:
    from nexus.memory.embedding import Model

_INTERRUPTED = 130

Download = Callable[["Model"], object]


@click.command()
@click.option("--yes", is_flag=True, help="Accept all defaults without prompting, and do not start.")
@click.option(
    "--provider",
    type=click.Choice(list(PROVIDERS)),
    help="Model provider. `compatible` is any OpenAI-compatible server.",
)
@click.option("--model", metavar="NAME", default="", help="Model you talk to.")
@click.option("--worker-model", metavar="NAME", default="", help="Model for workers.")
@click.option("--fast-model", metavar="NAME", default="", help="Model for small decisions.")
@click.option("--writer-model", metavar="NAME", default="", help="Model that writes the memory, or `none`.")
@click.option("--base-url", metavar="URL", default="", help="Server URL.")
@click.option("--key-env", metavar="VARIABLE", default="", help="Environment variable with the API key.")
@click.option("--key-file", metavar="PATH", default="", help="File with the API key.")
@click.option("--key-stdin", is_flag=True, help="Read the API key from standard input and store it.")
@click.option("--test/--no-test", default=True, help="Test the model before saving it.")
@click.option(
    "--language",
    metavar="TAG",
    default="",
    help="Your language, such as `de`; selects the embedding model. Default: your locale.",
)
@click.option("--mcp", "clients", metavar="CLIENT", multiple=True, help="Connect this agent over MCP.")
@click.option("--no-mcp", is_flag=True, help="Connect no other agents.")
@click.option("--start/--no-start", default=None, help="Start `nexus up` at the end, or not.")
@click.pass_context
def init(
    ctx: click.Context,
    yes: bool,
    test: bool,
    language: str,
    clients: tuple[str, ...],
    no_mcp: bool,
    start: bool | None,
    **about_model: Any,
) -> None:
    """Create a home: folders, a commented config.toml and six databases.

    In a terminal it asks for a model and tests it, offers to connect other agents, and offers to start. Flags
    skip their questions. Without a terminal, or with --yes, it asks nothing.

    Run it again to complete a home. It changes config.toml only where you say so.
    """
    home = locate_home(ctx)
    refuse_unknown(home.data)
    prompter: Prompter = Person() if sys.stdin.isatty() and sys.stdout.isatty() and not yes else Defaults()
    wishes = _read_wishes(**about_model)
    try:
        if not _confirm_demo_home(home, prompter):
            return
        choice = (
            _choose_models(home, wishes, prompter, test=test)
            if prompter.is_person or wishes.any or yes
            else None
        )
    except (click.Abort, KeyboardInterrupt):
        click.echo("\nStopped. Nothing was created or changed.", err=True)
        ctx.exit(_INTERRUPTED)
    is_new = not home.exists
    try:
        with _defer_interrupt():
            is_new = _create_home(home, unchanged=choice is None and not language)
            if choice is not None:
                _save_choice(home, choice)
                models.keep_trials(home, config.load(home.config_file), choice.trials)
                _print_writer_cost(config.load(home.config_file))
        if is_new:
            _offer_extras(prompter)
        if language or is_new:
            _choose_embedding(home, language, prompter, download=yes)
        if not no_mcp:
            _connect_clients(ctx, clients, prompter)
        if start is None:
            start = (
                prompter.is_person and serving(home) is None and prompter.yes("Start it now?", default=True)
            )
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"\nStopped. The home at {home.root} was created.")
        _print_next_steps(has_model=choice is not None, is_new=is_new)
        ctx.exit(_INTERRUPTED)
    if start:
        from nexus.cli.up import up

        ctx.invoke(up, host=None, port=None, as_json=False)
    else:
        _print_next_steps(has_model=choice is not None, is_new=is_new)


def _print_next_steps(*, has_model: bool, is_new: bool) -> None:
    if has_model:
        click.echo("Next: `nexus chat` to talk to it, or `nexus up` to run it with the dashboard.")
    elif is_new:
        click.echo("Next: `nexus doctor` to check it, or `nexus status` for a summary.")


def _offer_extras(prompter: Prompter) -> None:
    """Offer the packages that most people want and that aren't installed; without a person, name them."""
    missing = extras.missing_recommended()
    if not missing:
        return
    click.echo(f"Not installed: {', '.join(extras.RECOMMENDED[name].purpose for name in missing)}.")
    if not prompter.is_person:
        click.echo(extras.hint(*missing))
    elif prompter.yes("Install the packages for it?", default=True):
        init_model.install_extras(missing)


def _print_writer_cost(settings: config.Config) -> None:
    from nexus.roles.memory_writer import describe_cost

    if cost := describe_cost(settings):
        click.echo(f'{printable(cost)}. `writer = "none"` in [models] turns this off.')


def _confirm_demo_home(home: Home, prompter: Prompter) -> bool:
    """Ask before using the home of `nexus demo`; False if the person wants another."""
    if not place.file(home).exists():
        return True
    click.echo(f"The home at {home.root} contains the `nexus demo` month.")
    click.echo("Use a separate home for your own data: `nexus --home DIR init`.")
    if not prompter.is_person or prompter.yes("Use this one anyway?", default=False):
        return True
    click.echo("Nothing changed.")
    return False


def _read_wishes(
    provider: str | None,
    model: str,
    worker_model: str,
    fast_model: str,
    writer_model: str,
    base_url: str,
    key_env: str,
    key_file: str,
    key_stdin: bool,
) -> Wishes:
    return Wishes(
        provider=provider or "",
        models=dict(zip(init_model.ROLES, (model, worker_model, fast_model, writer_model), strict=True)),
        base_url=base_url,
        key=KeyWish(env=key_env, file=key_file, stdin=key_stdin),
    )


def _choose_models(home: Home, wishes: Wishes, prompter: Prompter, *, test: bool) -> Choice | None:
    settings = config.load(home.config_file)
    if prompter.is_person and not home.exists:
        click.echo(f"This creates a home for your agent at {home.root}.")
        click.echo(
            "Press Enter to accept a default, or Ctrl-C to stop. Nothing is created until you choose a model."
        )
    choice = init_model.choose_models(settings, wishes, prompter, test=test)
    if choice is None and wishes.any and settings.models.manager and not prompter.is_person:
        click.echo(f"Keeping the model {settings.models.manager[0]}. Change it with `--model`.")
    return choice


@contextmanager
def _defer_interrupt() -> Generator[None]:
    """Hold a Ctrl-C back until the end of the block, so that what it creates is complete."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _create_home(home: Home, *, unchanged: bool) -> bool:
    """Create what is missing; False if nothing was."""
    made = home.create_files()
    databases = ledgers.create(home)
    made += attach.ensure(home)
    if not made and not databases:
        click.echo(f"The home at {home.root} is complete{'; nothing changed' * unchanged}.")
        return False
    click.echo(
        f"Created a home at {home.root}" if home.root in made else f"Completed the home at {home.root}"
    )
    if home.root in made and sys.stdout.isatty():
        return True  # somebody who begins has more to read than the names of all files
    for path in made:
        if path != home.root:
            click.echo(f"  {path.relative_to(home.root)}{'/' if path.is_dir() else ''}")
    for name in databases:
        click.echo(f"  data/{name}.db")
    return True


def _save_choice(home: Home, choice: Choice) -> None:
    # Compare with the file alone: an environment variable of this moment may be gone tomorrow.
    changes = list(choice.keep_key(home).changes(config.load(home.config_file, {})))
    if not changes:
        click.echo(f"{home.config_file} is already up to date.")
        return
    _save_changes(home, changes)


def _choose_embedding(home: Home, language: str, prompter: Prompter, *, download: bool) -> None:
    """Set the embedding model for the given language, or for the locale's."""
    spoken = language or locale_language()
    name = choose_embedding_model(spoken, prompter, download=download or bool(language))
    if name != config.load(home.config_file, {}).memory.embedding_model:
        _save_changes(home, [Change(section="memory", key="embedding_model", value=name)])


def _save_changes(home: Home, changes: list[Change]) -> None:
    config_file.save(home.config_file, changes)
    click.echo(f"Saved to {home.config_file}:")
    for change in changes:
        click.echo(f"  {change}")
        name = variable(change.section, change.key)
        if name in os.environ:
            click.echo(f"  The environment variable {name} is set and overrides it.")


def _connect_clients(ctx: click.Context, named: tuple[str, ...], prompter: Prompter) -> None:
    """Connect the agents that were named or that the person agrees to. A failure doesn't stop the others."""
    from nexus.cli.mcp import install as install_into
    from nexus.cli.mcp_clients import find_installed

    wanted = list(named)
    if not named and prompter.is_person:
        wanted = [
            client.name
            for client in find_installed()
            if prompter.yes(f"Connect {client.title} to this memory?", default=True)
        ]
    for name in wanted:
        try:
            ctx.invoke(install_into, client=name, project=None, only_print=False, replace=False)
        except (NexusError, OSError) as error:
            click.echo(f"nexus: {printable(str(error))}", err=True)


def locale_language(environment: Mapping[str, str] = os.environ) -> str:
    """Return the language of the locale, as `de_DE.UTF-8`, or nothing if none is set."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    return next((environment[name] for name in names if environment.get(name)), "")


def choose_embedding_model(
    language: str, prompter: Prompter, *, download: bool, fetch: Download | None = None
) -> str:
    """Name the embedding model for a language, and say which it is unless it is the default.

    A model that is not installed is downloaded if a person agrees or `download` says so; without it,
    the home gets the default model.
    """
    # Imported here, because it brings numpy with it.
    from nexus.memory.embedding import DEFAULT_MODEL, MODELS, locate, model_for

    name = model_for(language)
    model = MODELS[name]
    if name == DEFAULT_MODEL:
        return name
    if locate(model) is None and not _download_if_agreed(model, prompter, download, fetch or models.download):
        click.echo(
            f"Embedding model: {DEFAULT_MODEL}, which reads English. For other languages run "
            f"`nexus models pull {name}`, then `nexus init --language {printable(language)}`."
        )
        return DEFAULT_MODEL
    click.echo(f"Embedding model: {name}, for the language {printable(language)}.")
    return name


def _download_if_agreed(model: "Model", prompter: Prompter, download: bool, fetch: Download) -> bool:
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
