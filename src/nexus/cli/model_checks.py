"""What `nexus doctor` says about models: whether one is set, and whether its key is where it should be."""

from collections.abc import Iterator
from dataclasses import fields

from nexus import secrets
from nexus.broker.agent.roles import models_of
from nexus.config import Config, ModelsConfig
from nexus.errors import ConfigError


def problems(config: Config) -> Iterator[ConfigError]:
    """What would keep a model that the settings name from being asked."""
    roles = [field.name for field in fields(ModelsConfig)]
    for name in sorted({name for role in roles for name in getattr(config.models, role)}):
        provider, slash, model = name.partition("/")
        known = config.providers.get(provider)
        if not slash or not model or known is None:
            yield ConfigError(f"`{name}` does not name a model", hint="Write `provider/model`.")
            continue
        for source in filter(None, (known.api_key, known.auth_token)):
            try:
                secrets.read(source)
            except ConfigError as error:
                yield ConfigError(f"{name}: {error.message}", hint=error.hint)


def chosen(config: Config) -> str:
    """The manager's models in a line; an error that says what to do where there is none."""
    return ", then ".join(models_of(config.models, "manager"))
