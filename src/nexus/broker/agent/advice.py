"""What a person can do about a model that did not answer."""

from pydantic_ai.exceptions import (
    ModelAuthenticationError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)

from nexus.broker.agent.models import Candidate
from nexus.broker.agent.overflow import overflow
from nexus.errors import NexusError

_OTHERWISE = "Check the error above, or add a fallback model in [models] in config.toml."
_BUSY = (
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)


def own_error(error: BaseException) -> NexusError | None:
    """Our own error beneath a client's: why a model that Nexus runs itself could not be started."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NexusError):
        cause = cause.__cause__ or cause.__context__
    return cause


def advice(error: Exception, candidate: Candidate) -> str:
    """What to do next, in a sentence or two."""
    if own := own_error(error):
        return own.hint
    match error:
        case ModelAuthenticationError():
            return _refused_key(candidate)
        case ModelNotFoundError():
            return (
                f"Fix the name `{candidate.name}` in [models] in config.toml, or run `nexus init` "
                f"to choose a model.{_address(candidate)}"
            )
        case _ if overflow(error) is not None:
            return (
                f"The message is longer than what {candidate.name} takes. Send less at a time, or serve the "
                "model with a larger window. `context_tokens` in [agents] in config.toml limits how much "
                "of the conversation is sent along."
            )
        case ModelQuotaExceededError():
            return "Check your account with the provider: its credit or quota is used up."
        case ModelConnectionError():
            return _out_of_reach(candidate)
        case _ if isinstance(error, _BUSY):
            return "Try again later, or add a fallback model in [models] in config.toml."
        case _:
            return _OTHERWISE


def _refused_key(candidate: Candidate) -> str:
    source = candidate.config.auth_token or candidate.config.api_key
    if not source:
        return f"Set `api_key` in [providers.{candidate.provider}] in config.toml."
    return f"Put a valid API key in {source}, or run `nexus init` to enter one."


def _out_of_reach(candidate: Candidate) -> str:
    if not candidate.config.base_url:
        return "Check your internet connection and try again."
    where = f"`base_url` in [providers.{candidate.provider}] in config.toml"
    return f"Start the server at {candidate.config.base_url}, or fix {where}."


def _address(candidate: Candidate) -> str:
    """A wrong address looks like an unknown model to whoever asks a server of one's own."""
    url = candidate.config.base_url
    return f" Or the URL {url} is wrong: check the server's documentation." if url else ""
