"""Which model a home gets: asked for, tried with a live call, and only then written down."""

import os
from dataclasses import replace
from typing import Final

import click

from nexus import secrets
from nexus.cli import init_providers as providers
from nexus.cli.init_choice import Choice, Earlier, Wishes
from nexus.cli.init_keys import EarlierKey, keyed
from nexus.cli.init_questions import Asking
from nexus.cli.init_roles import Questions
from nexus.cli.init_trial import Failure, tried
from nexus.cli.terminal import printable
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelError, ModelFileError, UsageError
from nexus.settings import refuse_credentials

_SERVER: Final = "server"
_SCHEMES: Final = ("http://", "https://")


def chosen(settings: Config, wishes: Wishes, asking: Asking, *, test: bool) -> Choice | None:
    """What the person wants, tried where it is to be; None where the models stay as they are."""
    current = ", then ".join(settings.models.manager)
    stays = current and not wishes.manager
    if stays and not asking.yes(f"Current model: {current}. Choose another?", default=False):
        return None
    earlier = None
    while True:
        choice = _asked(settings, wishes, asking, earlier)
        if choice is None or not test:
            return choice
        failure = tried(settings, choice)
        if not isinstance(failure, Failure):
            return replace(choice, trials=failure)
        if not asking.is_person:
            raise _unusable(failure)
        decision = _after(failure, asking)
        if decision != "again":
            return choice if decision == "save" else None
        wishes, earlier = Wishes(), Earlier(choice=choice, is_key_refused=failure.is_key_refused)


def _asked(settings: Config, wishes: Wishes, asking: Asking, earlier: Earlier | None) -> Choice | None:
    provider = providers.PROVIDERS[wishes.provider or _provider(settings, wishes, asking, earlier)]
    if provider.name == "none":
        return None
    name, config = _section(settings, provider, wishes, asking, earlier)
    if provider.name == "builtin" and not _downloaded(asking):
        return None
    key = earlier.key(name) if earlier else EarlierKey()
    config, typed = keyed(provider, config, wishes.key, asking, key)
    served = _on_server(config, typed) if provider.is_local and not wishes.manager else []
    questions = Questions(
        settings=settings,
        name=name,
        asking=asking,
        proposed={"manager": served[0]} if served else provider.models,
        served=served,
        earlier=earlier,
        writer_follows=provider.is_local,
    )
    return Choice(name=name, provider=config, typed_key=typed, models=questions.models(wishes.models))


def _downloaded(asking: Asking) -> bool:
    """Whether the model that Nexus runs itself is on this machine, by now."""
    # Imported here, because it takes longer than the questions before may.
    from nexus.broker.agent import builtin
    from nexus.cli.models import download

    model = builtin.DEFAULT
    try:
        builtin.weights(model.name)
    except ModelFileError:
        size = f"{model.build.size_bytes / 1e9:.1f} GB, {model.licence}"
        if not asking.yes(f"Download {model.name} ({size})?", default=True):
            return False
        download(model, os.environ.get("HF_ENDPOINT"))
    return True


def _provider(settings: Config, wishes: Wishes, asking: Asking, earlier: Earlier | None) -> str:
    named = wishes.manager.partition("/")[0] if "/" in wishes.manager else ""
    if named in providers.PROVIDERS:
        return named
    if wishes.base_url or named in settings.providers:
        return "compatible"
    found = providers.found(settings)
    options = {name: each.title for name, each in providers.PROVIDERS.items()}
    options |= {name: f"{options[name]} ({printable(each.told)})" for name, each in found.items()}
    default = next((name for name, each in found.items() if each.is_usable), "none")
    if earlier:
        default = providers.offered(earlier.choice.name)
    answer = asking.choice("\nChoose a provider:", options, default)
    if answer == "none" and wishes.any:
        raise UsageError("No provider given", hint="Pass `--provider NAME`.")
    return answer


def _section(
    settings: Config,
    provider: providers.Provider,
    wishes: Wishes,
    asking: Asking,
    earlier: Earlier | None,
) -> tuple[str, ProviderConfig]:
    """The provider's section, and what it holds. A server that is new gets a name that is free."""
    again = earlier.choice if earlier and providers.offered(earlier.choice.name) == provider.name else None
    if again and provider.name != "compatible":
        return again.name, again.provider
    named = wishes.manager.partition("/")[0]
    name = named if provider.name == "compatible" else provider.name
    if name in settings.providers:
        known = settings.providers[name]
        if provider.has_own_address and not known.base_url:
            return name, replace(known, base_url=_address(wishes, asking, ""))
        return name, replace(known, base_url=wishes.base_url or known.base_url)
    url = _address(wishes, asking, again.provider.base_url if again else "")
    if again and again.provider.base_url == url:
        return again.name, again.provider
    new = replace(again.provider if again else ProviderConfig(), base_url=url)
    for number in range(1, len(settings.providers) + 2):
        name = _SERVER if number == 1 else f"{_SERVER}-{number}"
        known = settings.providers.get(name, new)
        if known.base_url == url:
            return name, known
    raise AssertionError("one name more than there are sections is free")


def _address(wishes: Wishes, asking: Asking, default: str) -> str:
    url = wishes.base_url
    while not url.startswith(_SCHEMES):
        if not asking.is_person:
            raise _no_address(url)
        if url:
            click.echo("It must start with http:// or https://.")
            default = url if "://" in url else f"http://{url}"
        url = asking.text("Server URL, such as http://localhost:8080/v1", default)
    refuse_credentials(url, "Server URL")
    return url


def _no_address(url: str) -> UsageError:
    told = "doesn't start with http:// or https://" if url else "is missing"
    return UsageError(
        f"The server URL {told}",
        hint="Pass `--base-url`, such as `--base-url http://localhost:8080/v1`.",
    )


def _on_server(config: ProviderConfig, typed: str) -> list[str]:
    """Models of a server of one's own, shown; none where it does not tell, which is said."""
    key = typed or (secrets.read(config.api_key) if providers.key_found(config) else "")
    try:
        models = providers.served_models(config.base_url, key)
    except ModelError as error:
        click.echo(f"{printable(error.message)}.")
        return []
    if models:
        more = (
            f" and {len(models) - providers.SHOWN_MODELS} more"
            if len(models) > providers.SHOWN_MODELS
            else ""
        )
        click.echo(f"Available models: {printable(', '.join(models[: providers.SHOWN_MODELS]))}{more}")
    else:
        click.echo("The server has no models yet.")
    return models


def _after(failure: Failure, asking: Asking) -> str:
    click.echo(f"Test failed: {printable(failure.message)}\n  {printable(failure.choices)}")
    options = {
        "again": "Try again",
        "save": "Save it anyway",
        "skip": "Continue without a model",
    }
    return asking.choice("What now?", options, "again")


def _unusable(failure: Failure) -> ModelError:
    return ModelError(
        f"Nothing created or changed: the model test failed. {failure.message}",
        hint=f"{failure.hint} Pass `--no-test` to save it anyway, or `--provider none` for no model.",
    )
