"""`nexus init`: the models for each role, and the test of the chosen ones."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import click

from nexus import extras, secrets
from nexus.broker.agent import providers
from nexus.broker.agent.providers import Choice, Provider, key_found
from nexus.broker.agent.roles import nearest_model
from nexus.cli import models
from nexus.cli.place import printable
from nexus.config import Config, ProviderConfig
from nexus.errors import ModelError, ModelFileError, NexusError, SecretError, UsageError
from nexus.settings import refuse_credentials

if TYPE_CHECKING:
    from nexus.broker.agent.trial import Trial


class Prompter(Protocol):
    """Asks questions. Each has a default, which Enter accepts."""

    is_person: bool

    def yes(self, question: str, *, default: bool) -> bool: ...

    def text(self, question: str, default: str) -> str: ...

    def secret(self, question: str) -> str: ...

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        """Choose the name of an option; the values describe them."""
        ...


class Person:
    """A person at a terminal."""

    is_person = True

    def yes(self, question: str, *, default: bool) -> bool:
        return click.confirm(question, default=default)

    def text(self, question: str, default: str) -> str:
        # Without a default, Click asks until there is an answer.
        return str(click.prompt(question, default=default or None)).strip()

    def secret(self, question: str) -> str:
        return str(click.prompt(question, default="", show_default=False, hide_input=True)).strip()

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        names = list(options)
        click.echo(question)
        for number, description in enumerate(options.values(), start=1):
            click.echo(f"  {number}  {description}")
        while True:
            typed = self.text("Choose", str(names.index(default) + 1))
            if typed.isdecimal() and 1 <= int(typed) <= len(names):
                return names[int(typed) - 1]
            click.echo(f"Type a number from 1 to {len(names)}.")


class Defaults:
    """Answers every question with its default."""

    is_person = False

    def yes(self, question: str, *, default: bool) -> bool:
        return default

    def text(self, question: str, default: str) -> str:
        return default

    def secret(self, question: str) -> str:
        return ""

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        return default


@dataclass(frozen=True, kw_only=True)
class KeyWish:
    """What the command line says about the key. Empty: ask."""

    env: str = ""
    file: str = ""
    stdin: bool = False

    @property
    def any(self) -> bool:
        return bool(self.env or self.file or self.stdin)


@dataclass(frozen=True, kw_only=True)
class PreviousKey:
    """What is known of the key from before the test failed."""

    typed: str = ""
    """A key that was typed and not rejected."""
    is_source_refused: bool = False
    """Whether the key at the configured source was rejected."""


def choose_key(
    provider: Provider, config: ProviderConfig, wish: KeyWish, prompter: Prompter, previous: PreviousKey
) -> tuple[ProviderConfig, str]:
    """Return the provider with the source of its key, or with a typed key that isn't stored yet."""
    if wish.stdin:
        return config, _read_key()
    if wish.env:
        return _with_source(config, f"env:{wish.env}"), ""
    if wish.file:
        return _with_source(config, f"file:{Path(wish.file).expanduser().absolute()}"), ""
    if not provider.needs_key or not prompter.is_person:
        return config, ""
    if previous.typed and prompter.yes("Use the API key you entered before?", default=True):
        return config, previous.typed
    source = key_found(config)
    if source and prompter.yes(f"Use the API key in {source}?", default=not previous.is_source_refused):
        return config, ""
    return ask_key(config, prompter)


def _read_key() -> str:
    # At a terminal, a typed line would be shown.
    typed = click.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not str(typed).strip():
        raise UsageError("No API key on standard input", hint="Pipe it in: `… --key-stdin < FILE`.")
    return str(typed).strip()


def ask_key(config: ProviderConfig, prompter: Prompter) -> tuple[ProviderConfig, str]:
    """Ask for a key, or where it is."""
    kept = "this machine's keyring" if secrets.keyring_usable() else "a file that only you can read"
    click.echo(f"Your API key is not shown and is stored in {kept}.")
    typed = prompter.secret("API key (press Enter to skip)")
    if typed:
        return config, typed
    while True:
        question = "Where is the API key? (env:NAME, file:PATH, keyring:SERVICE/USER or none)"
        source = prompter.text(question, config.api_key or "none")
        if source == "none":
            return _with_source(config, ""), ""
        if secrets.is_source(source):
            return _with_source(config, source), ""
        click.echo("Use env:MY_KEY, file:/path/to/key or keyring:service/user.")


def _with_source(config: ProviderConfig, source: str) -> ProviderConfig:
    return replace(config, api_key=source, auth_token="")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line says. Empty: ask."""

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
class PreviousSetup:
    """The answers from before the test failed: the defaults of the next round."""

    choice: Choice
    is_key_refused: bool

    def key(self, name: str) -> PreviousKey:
        """Return what is known of the provider's key."""
        if name != self.choice.name:
            return PreviousKey()
        if self.is_key_refused:
            return PreviousKey(is_source_refused=not self.choice.typed_key)
        return PreviousKey(typed=self.choice.typed_key)

    def model(self, role: str, name: str) -> str | None:
        """Return the model of a role, empty for none; None if nothing was said about it."""
        model = self.choice.models.get(role) if name == self.choice.name else None
        return model and model.removeprefix(f"{name}/")


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
    """A model that failed its test."""

    message: str
    choices: str
    """What a person can do next."""
    hint: str
    """What a script can do."""
    is_key_refused: bool


def try_models(settings: Config, choice: Choice) -> "Failure | tuple[Trial, ...]":
    """Test the manager's model, and the writer's if it differs; return the trials if all answer."""
    asked, environ = choice.on_trial(settings)
    done: list[Trial] = []
    for model in choice.tried_models:
        try:
            done.append(models.try_model(asked, model, environ))
        except NexusError as error:
            return _make_failure(error, model, asked, choice)
    return tuple(done)


def _make_failure(error: NexusError, model: str, settings: Config, choice: Choice) -> Failure:
    section = model.partition("/")[0]
    provider = settings.providers.get(section, ProviderConfig())
    is_refused = _status_code(error) in _REFUSED
    is_chosen = section == choice.name
    is_typed = is_refused and is_chosen and bool(choice.typed_key)
    return Failure(
        message=error.message,
        choices=_TYPED_REFUSED
        if is_typed
        else _suggest_next_step(error, section, provider, is_chosen=is_chosen),
        hint="The API key on standard input was rejected. Pipe in a valid one." if is_typed else error.hint,
        is_key_refused=is_refused and is_chosen,
    )


def _suggest_next_step(error: NexusError, section: str, provider: ProviderConfig, *, is_chosen: bool) -> str:
    """Suggest what to do in `nexus init`. It changes nothing of other providers than the chosen one."""
    if isinstance(error, SecretError):
        return f"{error.hint} Or choose again: {_suggest_other_key(is_chosen=is_chosen)}."
    match _status_code(error):
        case 401 | 403:
            return f"{_describe_refusal(provider)} Choose again: {_suggest_other_key(is_chosen=is_chosen)}."
        case 404:
            return f"Try again with another model name.{_suggest_other_url(section, provider)}"
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


def _status_code(error: NexusError) -> int | None:
    """Return the provider's status code; None if it didn't respond."""
    return getattr(error.__cause__, "status_code", None)


def _describe_refusal(provider: ProviderConfig) -> str:
    source = provider.auth_token or provider.api_key
    return f"The API key in {source} was rejected." if source else "An API key is required."


def _suggest_other_key(*, is_chosen: bool) -> str:
    return "enter another API key or where it is stored" if is_chosen else "choose another model"


def _suggest_other_url(section: str, provider: ProviderConfig) -> str:
    """Mention the URL of an own server: with a wrong one, every model looks unknown."""
    if providers.section_of(section) != "compatible":
        return ""
    return f" Or the URL {provider.base_url} is wrong: check the server's documentation."


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The questions about the models of one provider."""

    settings: Config
    name: str
    """The section of the provider."""
    prompter: Prompter
    proposed: Mapping[str, str]
    served: Sequence[str]
    """The models that the server lists; empty if unknown."""
    previous: PreviousSetup | None
    writer_follows: bool
    """Whether the manager's model is proposed for the writer."""

    def ask_models(self, wished: Mapping[str, str]) -> dict[str, str]:
        """Ask for the model of each role. The one in config.toml is the default if it still fits."""
        models: dict[str, str] = {}
        manager = ""
        for role in ROLES:
            current = self._current_model(role)
            nobody = _NOBODY.get(role, "")
            answer = wished.get(role) or self._ask_model(role, manager)
            manager = manager or answer
            if role == "writer" and answer == nobody:
                models[role] = nobody
            elif role == "manager" or answer != (current or nobody):
                models[role] = "" if answer == nobody else _add_provider(answer, self.name, self.settings)
        if not models["manager"]:
            hint = f"Pass `--model`, such as `--model {self.name}/NAME`."
            raise UsageError("No model given", hint=hint)
        return models

    def _current_model(self, role: str) -> str:
        current = "".join(getattr(self.settings.models, role)[:1])
        return "" if (role, current) == ("writer", "manager") else current

    def _ask_model(self, role: str, manager: str) -> str:
        default = self._default_model(role, manager)
        while True:
            answer = self.prompter.text(_QUESTIONS[role], default)
            if not self._is_unknown(role, answer):
                return answer
            question = f"The server doesn't list a model named {printable(answer)!r}. Use it anyway?"
            if self.prompter.yes(question, default=False):
                return answer

    def _default_model(self, role: str, manager: str) -> str:
        nobody, current = _NOBODY.get(role, ""), self._current_model(role)
        before = self.previous.model(role, self.name) if self.previous else None
        if before is not None:
            return before or nobody
        stays = current == nobody or current.startswith(f"{self.name}/") or not self.prompter.is_person
        fits = role != "manager" and stays
        follows = manager if role == "writer" and self.writer_follows else ""
        proposed = (current if fits else "") or follows or self.proposed.get(role)
        return proposed or (manager if role == "writer" else nobody)

    def _is_unknown(self, role: str, answer: str) -> bool:
        """Whether a person names a model that the server, whose models were just shown, doesn't have."""
        if not self.prompter.is_person or not self.served or answer == _NOBODY.get(role):
            return False
        section, _, model = _add_provider(answer, self.name, self.settings).partition("/")
        return section == self.name and model not in self.served


def _add_provider(model: str, name: str, settings: Config) -> str:
    """Return `provider/model`. The provider may be left out, and a model's own name may have a slash."""
    head, slash, _ = model.partition("/")
    return model if slash and head in {name, *settings.providers} else f"{name}/{model}"


def choose_models(settings: Config, wishes: Wishes, prompter: Prompter, *, test: bool) -> Choice | None:
    """Ask for the models and test them; None if they stay as they are."""
    current = ", then ".join(settings.models.manager)
    stays = current and not wishes.manager
    if stays and not prompter.yes(f"Current model: {current}. Choose another?", default=False):
        return None
    previous = None
    while True:
        choice = _ask_choice(settings, wishes, prompter, previous)
        if choice is None or not test:
            return choice
        failure = try_models(settings, choice)
        if not isinstance(failure, Failure):
            return replace(choice, trials=failure)
        if not prompter.is_person:
            raise ModelError(
                f"Nothing created or changed: the model test failed. {failure.message}",
                hint=f"{failure.hint} Pass `--no-test` to save it anyway, or `--provider none` for no model.",
            )
        decision = _ask_after_failure(failure, prompter)
        if decision != "again":
            return choice if decision == "save" else None
        wishes, previous = Wishes(), PreviousSetup(choice=choice, is_key_refused=failure.is_key_refused)


def _ask_choice(
    settings: Config, wishes: Wishes, prompter: Prompter, previous: PreviousSetup | None
) -> Choice | None:
    provider = providers.PROVIDERS[wishes.provider or _choose_provider(settings, wishes, prompter, previous)]
    if provider.name == "none":
        return None
    name, config = _choose_section(settings, provider, wishes, prompter, previous)
    if provider.name == "builtin":
        model = wishes.manager.removeprefix("builtin/")
        if model.endswith(".gguf"):
            model = str(Path(model).expanduser().absolute())
            wishes = replace(wishes, models={**wishes.models, "manager": model})
        _install_builtin(model, prompter)
    _install_provider(config.kind, prompter)
    key = previous.key(name) if previous else PreviousKey()
    config, typed = choose_key(provider, config, wishes.key, prompter, key)
    served = _list_served_models(config, typed) if provider.is_local and not wishes.manager else []
    while served is None:
        if not prompter.is_person or not prompter.yes("Enter another API key?", default=True):
            break
        refused = config, typed
        config, typed = ask_key(config, prompter)
        if (config, typed) == refused:
            break
        served = _list_served_models(config, typed)
    proposed = {"manager": served[0]} if served else provider.models
    runs_here = provider.is_local or provider.name == "builtin"
    if runs_here and wishes.manager:
        proposed = {}  # whoever names a model of this machine may not have the usual ones
    questions = Questions(
        settings=settings,
        name=name,
        prompter=prompter,
        proposed=proposed,
        served=served or (),
        previous=previous,
        writer_follows=runs_here,
    )
    return Choice(name=name, provider=config, typed_key=typed, models=questions.ask_models(wishes.models))


def _install_provider(kind: str, prompter: Prompter) -> None:
    """Offer to install a provider's packages if they are missing. Declining shows in the test."""
    extra = extras.extra_of_provider(kind)
    if extras.has_provider(kind) or not prompter.is_person:
        return
    if prompter.yes(
        f"The packages for this provider aren't installed ({extra}). Install them?", default=True
    ):
        install_extras([extra])


def install_extras(names: Sequence[str]) -> None:
    """Install extras, showing what the installer prints, or say how to."""
    if not extras.install(names):
        click.echo(f"Not installed. Try it yourself: `{shlex.join(extras.install_command(names))}`", err=True)


def _install_builtin(name: str, prompter: Prompter) -> None:
    """Download a built-in model if it is missing. Declining ends the setup."""
    # Imported here, because it takes longer than the questions before may.
    from nexus.broker.agent import builtin
    from nexus.cli.models import download

    model = builtin.BUILTIN.get(name, builtin.DEFAULT)
    try:
        builtin.weights(name or model.name)
    except ModelFileError:
        size = f"{model.build.size_bytes / 1e9:.1f} GB, {model.licence}"
        if not prompter.yes(f"Download {model.name} ({size})?", default=True):
            raise click.Abort from None
        download(model, os.environ.get("HF_ENDPOINT"))


def _choose_provider(
    settings: Config, wishes: Wishes, prompter: Prompter, previous: PreviousSetup | None
) -> str:
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
    if previous:
        default = providers.section_of(previous.choice.name)
    answer = prompter.choice("\nChoose a provider:", options, default)
    if answer == "none" and wishes.any:
        raise UsageError("No provider given", hint="Pass `--provider NAME`.")
    return answer


def _choose_section(
    settings: Config,
    provider: providers.Provider,
    wishes: Wishes,
    prompter: Prompter,
    previous: PreviousSetup | None,
) -> tuple[str, ProviderConfig]:
    """Choose the provider's section and settings. A new server gets a free name."""
    is_same = previous is not None and providers.section_of(previous.choice.name) == provider.name
    again = previous.choice if previous and is_same else None
    if again and provider.name != "compatible":
        return again.name, again.provider
    named = wishes.manager.partition("/")[0]
    name = named if provider.name == "compatible" else provider.name
    if name in settings.providers:
        known = settings.providers[name]
        if provider.has_own_address and not known.base_url:
            return name, replace(known, base_url=_ask_url(wishes, prompter, ""))
        return name, replace(known, base_url=wishes.base_url or known.base_url)
    url = _ask_url(wishes, prompter, again.provider.base_url if again else "")
    if again and again.provider.base_url == url:
        return again.name, again.provider
    new = replace(again.provider if again else ProviderConfig(), base_url=url)
    return providers.server_section(settings, new)


def _ask_url(wishes: Wishes, prompter: Prompter, default: str) -> str:
    url = wishes.base_url
    while not url.startswith(_SCHEMES):
        if not prompter.is_person:
            raise _no_url_error(url)
        if url:
            click.echo("It must start with http:// or https://.")
            default = url if "://" in url else f"http://{url}"
        url = prompter.text("Server URL, such as http://localhost:8080/v1", default)
    refuse_credentials(url, "Server URL")
    return url


def _no_url_error(url: str) -> UsageError:
    problem = "doesn't start with http:// or https://" if url else "is missing"
    return UsageError(
        f"The server URL {problem}",
        hint="Pass `--base-url`, such as `--base-url http://localhost:8080/v1`.",
    )


def _list_served_models(config: ProviderConfig, typed: str) -> list[str] | None:
    """Print and return an own server's models: `[]` if it doesn't list them, None if it rejects the key."""
    key = typed or (secrets.read(config.api_key) if providers.key_found(config) else "")
    try:
        models = providers.served_models(config.base_url, key)
    except ModelError as error:
        click.echo(f"{printable(error.message)}.")
        response = getattr(error.__cause__, "response", None)
        return None if getattr(response, "status_code", None) in _REFUSED else []
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


def _ask_after_failure(failure: Failure, prompter: Prompter) -> str:
    click.echo(f"Test failed: {printable(failure.message)}\n  {printable(failure.choices)}")
    options = {
        "again": "Try again",
        "save": "Save it anyway",
        "skip": "Continue without a model",
    }
    return prompter.choice("What now?", options, "again")
