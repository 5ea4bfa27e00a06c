"""Trying what was chosen, and what to choose next where a model does not answer."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nexus.cli import init_providers as providers
from nexus.cli import model_trial
from nexus.cli.init_choice import Choice
from nexus.config import Config, ProviderConfig
from nexus.errors import NexusError, SecretError

if TYPE_CHECKING:
    from nexus.broker.agent.trial import Trial

# Under which variable a key that was typed is read while it is tried. Nobody is told of it.
_TYPED: Final = "NEXUS_INIT_TYPED_KEY"
_REFUSED: Final = (401, 403)
_TYPED_REFUSED: Final = "The API key was rejected. Try again to enter another."


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
    provider, environ = choice.provider, dict(os.environ)
    if choice.typed_key:
        environ[_TYPED] = choice.typed_key
        provider = replace(provider, api_key=f"env:{_TYPED}", auth_token="")
    asked = replace(settings, providers={**settings.providers, choice.name: provider})
    done: list[Trial] = []
    for model in choice.tried_models:
        try:
            done.append(model_trial.run(asked, model, environ))
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
            is_asked = providers.offered(section) == "compatible"
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
    if providers.offered(section) != "compatible":
        return ""
    return f" Or the URL {provider.base_url} is wrong: check the server's documentation."
