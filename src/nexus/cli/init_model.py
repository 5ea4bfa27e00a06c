"""`nexus init`: the models for each role, and the test of the chosen ones."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nexus import secrets
from nexus.broker.agent import providers
from nexus.broker.agent.providers import Choice
from nexus.broker.agent.roles import nearest_model
from nexus.cli import models
from nexus.cli.init_providers import Asking, Earlier, EarlierKey, Wishes, keyed
from nexus.cli.terminal import printable
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelError, ModelFileError, NexusError, SecretError, UsageError
from nexus.settings import refuse_credentials

if TYPE_CHECKING:
    from nexus.broker.agent.trial import Trial

_REFUSED: Final = (401, 403)
_TYPED_REFUSED: Final = "The API key was rejected. Try again to enter another."
_QUESTIONS: Final = {
    "manager": "Model you talk to",
    "worker": "Model for workers (`same`: same as above)",
    "fast": "Model for small decisions (`same`: the workers' model)",
    "writer": "Model that writes the memory after each turn (`none`: off)",
}
ROLES: Final = tuple(_QUESTIONS)
_NOBODY: Final = {"worker": "same", "fast": "same", "writer": "none"}
_SCHEMES: Final = ("http://", "https://")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A model that did not answer."""

    message: str
    choices: str
    """What a person can choose or type next."""
    hint: str
    """What a script can do."""
    is_key_refused: bool


def tried(settings: Config, choice: Choice) -> "Failure | tuple[Trial, ...]":
    """Try the manager's model, and the writer's where it is another; what they did where all answer."""
    asked, environ = choice.on_trial(settings)
    done: list[Trial] = []
    for model in choice.tried_models:
        try:
            done.append(models.run(asked, model, environ))
        except NexusError as error:
            return _failure(error, model, asked, choice)
    return tuple(done)


def _failure(error: NexusError, model: str, settings: Config, choice: Choice) -> Failure:
    section = model.partition("/")[0]
    provider = settings.providers.get(section, ProviderConfig())
    is_refused = _status(error) in _REFUSED
    is_chosen = section == choice.name
    is_typed = is_refused and is_chosen and bool(choice.typed_key)
    return Failure(
        message=error.message,
        choices=_TYPED_REFUSED if is_typed else _choices(error, section, provider, is_chosen=is_chosen),
        hint="The API key on standard input was rejected. Pipe in a valid one." if is_typed else error.hint,
        is_key_refused=is_refused and is_chosen,
    )


def _choices(error: NexusError, section: str, provider: ProviderConfig, *, is_chosen: bool) -> str:
    """What `nexus init` itself can mend. Of another provider than the chosen one it changes nothing."""
    if isinstance(error, SecretError):
        return f"{error.hint} Or choose again: {_other_key(is_chosen=is_chosen)}."
    match _status(error):
        case 401 | 403:
            return f"{_refused(provider)} Choose again: {_other_key(is_chosen=is_chosen)}."
        case 404:
            return f"Try again with another model name.{_other_address(section, provider)}"
        case 402 | 429:
            return "Check your account with the provider, or try again later."
        case None if provider.base_url:
            is_asked = providers.section_of(section) == "compatible"
            again = "try again with another URL" if is_asked else "choose another provider"
            return f"Start the server at {provider.base_url} and try again, or {again}."
        case None:
            return "Check your internet connection and try again."
        case _:
            return "Try again, or choose another model."


def _status(error: NexusError) -> int | None:
    """What the provider answered with; None where nobody did."""
    return getattr(error.__cause__, "status_code", None)


def _refused(provider: ProviderConfig) -> str:
    source = provider.auth_token or provider.api_key
    return f"The API key in {source} was rejected." if source else "An API key is required."


def _other_key(*, is_chosen: bool) -> str:
    return "enter another API key or where it is stored" if is_chosen else "choose another model"


def _other_address(section: str, provider: ProviderConfig) -> str:
    """A wrong address looks like an unknown model to whoever asks a server of one's own."""
    if providers.section_of(section) != "compatible":
        return ""
    return f" Or the URL {provider.base_url} is wrong: check the server's documentation."


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions about the models of one provider."""

    settings: Config
    name: str
    """The section of the provider."""
    asking: Asking
    proposed: Mapping[str, str]
    served: Sequence[str]
    """What the server was seen to have; nothing where that is not known."""
    earlier: Earlier | None
    writer_follows: bool
    """Whether the manager's model is proposed for the writer."""

    def models(self, wished: Mapping[str, str]) -> dict[str, str]:
        """The model of each role. What config.toml says of a role is the default, where it still fits."""
        models: dict[str, str] = {}
        manager = ""
        for role in ROLES:
            current = self._current(role)
            nobody = _NOBODY.get(role, "")
            answer = wished.get(role) or self._answer(role, manager)
            manager = manager or answer
            if role == "writer" and answer == nobody:
                models[role] = nobody
            elif role == "manager" or answer != (current or nobody):
                models[role] = "" if answer == nobody else _full(answer, self.name, self.settings)
        if not models["manager"]:
            hint = f"Pass `--model`, such as `--model {self.name}/NAME`."
            raise UsageError("No model given", hint=hint)
        return models

    def _current(self, role: str) -> str:
        current = "".join(getattr(self.settings.models, role)[:1])
        return "" if (role, current) == ("writer", "manager") else current

    def _answer(self, role: str, manager: str) -> str:
        default = self._default(role, manager)
        while True:
            answer = self.asking.text(_QUESTIONS[role], default)
            if not self._is_unknown(role, answer):
                return answer
            question = f"The server doesn't list a model named {printable(answer)!r}. Use it anyway?"
            if self.asking.yes(question, default=False):
                return answer

    def _default(self, role: str, manager: str) -> str:
        nobody, current = _NOBODY.get(role, ""), self._current(role)
        before = self.earlier.model(role, self.name) if self.earlier else None
        if before is not None:
            return before or nobody
        stays = current == nobody or current.startswith(f"{self.name}/") or not self.asking.is_person
        fits = role != "manager" and stays
        follows = manager if role == "writer" and self.writer_follows else ""
        proposed = (current if fits else "") or follows or self.proposed.get(role)
        return proposed or (manager if role == "writer" else nobody)

    def _is_unknown(self, role: str, answer: str) -> bool:
        """Whether a person names what the server, whose models were just shown, does not have."""
        if not self.asking.is_person or not self.served or answer == _NOBODY.get(role):
            return False
        section, _, model = _full(answer, self.name, self.settings).partition("/")
        return section == self.name and model not in self.served


def _full(model: str, name: str, settings: Config) -> str:
    """`provider/model`: what is typed may leave the provider out, and a model's own name may have a slash."""
    head, slash, _ = model.partition("/")
    return model if slash and head in {name, *settings.providers} else f"{name}/{model}"


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
    if provider.name == "builtin":
        model = wishes.manager.removeprefix("builtin/")
        if model.endswith(".gguf"):
            model = str(Path(model).expanduser().absolute())
            wishes = replace(wishes, models={**wishes.models, "manager": model})
        _install(model, asking)
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


def _install(name: str, asking: Asking) -> None:
    """Download a model that Nexus runs itself if it is missing; saying no to that ends the setup."""
    # Imported here, because it takes longer than the questions before may.
    from nexus.broker.agent import builtin
    from nexus.cli.models import download

    model = builtin.BUILTIN.get(name, builtin.DEFAULT)
    try:
        builtin.weights(name or model.name)
    except ModelFileError:
        size = f"{model.build.size_bytes / 1e9:.1f} GB, {model.licence}"
        if not asking.yes(f"Download {model.name} ({size})?", default=True):
            raise click.Abort from None
        download(model, os.environ.get("HF_ENDPOINT"))


def _provider(settings: Config, wishes: Wishes, asking: Asking, earlier: Earlier | None) -> str:
    named = wishes.manager.partition("/")[0] if "/" in wishes.manager else ""
    if named in providers.PROVIDERS:
        return named
    if wishes.base_url or named in settings.providers:
        return "compatible"
    if meant := nearest_model(wishes.manager, settings.providers):
        hint = f"Did you mean `{meant}`? If not, pass `--provider NAME`."
        raise UsageError(f"`{wishes.manager}` is not a model name", hint=hint)
    found = providers.found(settings)
    options = {name: each.title for name, each in providers.PROVIDERS.items()}
    options |= {name: f"{options[name]} ({printable(each.told)})" for name, each in found.items()}
    default = next((name for name, each in found.items() if each.is_usable), "none")
    if earlier:
        default = providers.section_of(earlier.choice.name)
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
    again = earlier.choice if earlier and providers.section_of(earlier.choice.name) == provider.name else None
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
    return providers.server_section(settings, new)


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
