"""Which model a home gets: asked for, tried with one live call, and only then written down."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import click

from nexus import secrets
from nexus.cli import init_providers as providers
from nexus.cli.init_keys import KeyWish, keyed
from nexus.cli.init_questions import Asking
from nexus.cli.init_settings import Change
from nexus.cli.terminal import printable
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelError, NexusError, UsageError
from nexus.home import Home

_QUESTIONS: Final = {
    "manager": "Model that talks with you",
    "worker": "Model of its workers (`same`: the same)",
    "fast": "Model for small decisions (`same`: the workers')",
    "writer": "Model that writes the memory after each turn (`none`: nobody)",
}
ROLES: Final = tuple(_QUESTIONS)
_NOBODY: Final = {"worker": "same", "fast": "same", "writer": "none"}
# Under which variable a key that was typed is read while it is tried.
_TYPED: Final = "NEXUS_INIT_TYPED_KEY"
_SERVER: Final = "server"


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says already. Empty: it is asked."""

    provider: str = ""
    models: dict[str, str] = field(default_factory=dict[str, str])
    base_url: str = ""
    key: KeyWish = field(default_factory=KeyWish)

    @property
    def manager(self) -> str:
        return self.models.get("manager", "")

    @property
    def any(self) -> bool:
        return bool(self.provider or any(self.models.values()) or self.base_url or self.key.any)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model, its provider and where the key is, before anything is written."""

    name: str
    """The section of the provider: [providers.NAME]."""
    provider: ProviderConfig
    models: dict[str, str]
    """`provider/model` by role, nothing for nobody; a role that stays as it is is left out."""
    typed_key: str = ""

    def kept(self, home: Home) -> "Choice":
        """The same, with a key that was typed in the place where it stays."""
        if not self.typed_key:
            return self
        source = secrets.keep(self.typed_key, self.name, home.secrets)
        return replace(self, provider=replace(self.provider, api_key=source, auth_token=""), typed_key="")

    def changes(self, settings: Config) -> Iterator[Change]:
        """What config.toml must say that it does not yet."""
        known = settings.providers.get(self.name, ProviderConfig())
        for key in ("base_url", "api_key", "auth_token"):
            value = getattr(self.provider, key)
            if value != getattr(known, key):
                yield Change(section=f"providers.{self.name}", key=key, value=value)
        for role, model in self.models.items():
            names = (model,) if model else ()
            if getattr(settings.models, role) != names:
                yield Change(section="models", key=role, value=model or [])


def chosen(settings: Config, wishes: Wishes, asking: Asking, *, test: bool) -> Choice | None:
    """What the person wants, tried where it is to be; None where the models stay as they are."""
    current = ", then ".join(settings.models.manager)
    stays = current and not wishes.manager
    if stays and not asking.yes(f"The model is {current}. Choose another?", default=False):
        return None
    while True:
        choice = _asked(settings, wishes, asking)
        if choice is None or not test:
            return choice
        try:
            _try(settings, choice)
        except NexusError as error:
            if not asking.is_person:
                raise _unusable(error) from error
            decision = _after(error, asking)
            if decision != "again":
                return choice if decision == "save" else None
            wishes = Wishes()
        else:
            return choice


def _asked(settings: Config, wishes: Wishes, asking: Asking) -> Choice | None:
    provider = providers.PROVIDERS[wishes.provider or _provider(settings, wishes, asking)]
    if provider.name == "none":
        return None
    name, config = _section(settings, provider, wishes, asking)
    config, typed = keyed(provider, config, wishes.key, asking)
    proposed = dict(provider.models)
    if provider.is_local and not wishes.manager:
        proposed = _on_server(config, typed)
    models = _models(settings, name, proposed, wishes, asking)
    return Choice(name=name, provider=config, typed_key=typed, models=models)


def _provider(settings: Config, wishes: Wishes, asking: Asking) -> str:
    named = wishes.manager.partition("/")[0] if "/" in wishes.manager else ""
    if named in providers.PROVIDERS:
        return named
    if wishes.base_url or named in settings.providers:
        return "compatible"
    found = providers.found(settings)
    options = {name: each.title for name, each in providers.PROVIDERS.items()}
    options |= {name: f"{options[name]} ({printable(each.told)})" for name, each in found.items()}
    default = next((name for name, each in found.items() if each.is_usable), "none")
    answer = asking.choice("\nWho serves the model?", options, default)
    if answer == "none" and wishes.any:
        raise UsageError("It is not said who serves the model", hint="Say it with `--provider NAME`.")
    return answer


def _section(
    settings: Config, provider: providers.Provider, wishes: Wishes, asking: Asking
) -> tuple[str, ProviderConfig]:
    """The provider's section, and what it holds. A server that is new gets a name that is free."""
    named = wishes.manager.partition("/")[0]
    name = named if provider.name == "compatible" else provider.name
    if name in settings.providers:
        known = settings.providers[name]
        return name, replace(known, base_url=wishes.base_url or known.base_url)
    url = _address(wishes, asking)
    for number in range(1, len(settings.providers) + 2):
        name = _SERVER if number == 1 else f"{_SERVER}-{number}"
        known = settings.providers.get(name, ProviderConfig(base_url=url))
        if known.base_url == url:
            return name, known
    raise AssertionError("one name more than there are sections is free")


def _address(wishes: Wishes, asking: Asking) -> str:
    url = wishes.base_url
    while not url.startswith(("http://", "https://")):
        if not asking.is_person:
            raise UsageError(
                "A server is chosen, and its address is not said",
                hint="Say it with `--base-url`, such as `--base-url http://localhost:8080/v1`.",
            )
        url = asking.text("Its address, such as http://localhost:8080/v1", "")
    return url


def _on_server(config: ProviderConfig, typed: str) -> dict[str, str]:
    """Models of a server of one's own: the first that it has does everything."""
    key = typed or (secrets.read(config.api_key) if providers.key_found(config) else "")
    models = providers.served_models(config.base_url, key)
    if not models:
        return {}
    click.echo(f"Models there: {printable(', '.join(models))}")
    return {"manager": models[0], "writer": models[0]}


def _models(
    settings: Config, name: str, proposed: dict[str, str], wishes: Wishes, asking: Asking
) -> dict[str, str]:
    """The model of each role. What config.toml says of a role is the default, where it still fits."""
    models: dict[str, str] = {}
    for role, question in _QUESTIONS.items():
        current = "".join(getattr(settings.models, role)[:1])
        fits = role != "manager" and (current.startswith(f"{name}/") or not asking.is_person)
        nobody = _NOBODY.get(role, "")
        default = (current if fits else "") or proposed.get(role) or nobody
        answer = wishes.models.get(role) or asking.text(question, default)
        if role == "manager" or answer != (current or nobody):
            models[role] = "" if answer == nobody else _full(answer, name, settings)
    if not models["manager"]:
        raise UsageError("No model is named", hint=f"Name it with `--model`, such as `--model {name}/NAME`.")
    return models


def _full(model: str, name: str, settings: Config) -> str:
    """`provider/model`: what is typed may leave the provider out, and a model's own name may have a slash."""
    head, slash, _ = model.partition("/")
    return model if slash and head in {name, *settings.providers} else f"{name}/{model}"


def _try(settings: Config, choice: Choice) -> None:
    """Ask the manager's model one question."""
    # Imported here, because the providers' libraries take seconds.
    from nexus.broker.agent.trial import tried

    model, provider, environ = choice.models["manager"], choice.provider, dict(os.environ)
    if choice.typed_key:
        environ[_TYPED] = choice.typed_key
        provider = replace(provider, api_key=f"env:{_TYPED}", auth_token="")
    asked = replace(settings, providers={**settings.providers, choice.name: provider})
    click.echo(f"Asking {model} one question …")
    bill = asyncio.run(tried(asked, model, environ))
    used = bill.input_tokens + bill.cache_read_tokens + bill.cache_write_tokens + bill.output_tokens
    click.echo(f"It answered, in {bill.duration_ms / 1000:.1f} s, and used {used} tokens.")


def _after(error: NexusError, asking: Asking) -> str:
    click.echo(f"That did not work. {printable(error.message)}\n  {printable(error.hint)}")
    options = {
        "again": "Choose again",
        "save": "Write it down all the same",
        "skip": "Go on without a model",
    }
    return asking.choice("What now?", options, "again")


def _unusable(error: NexusError) -> ModelError:
    return ModelError(
        f"Nothing was made or changed: the model cannot be used. {error.message}",
        hint=f"{error.hint} `--no-test` writes it down all the same, `--provider none` goes without.",
    )
