"""What is said about models: whether one is set, where its key is, and whether its price is known."""

from collections.abc import Iterator
from dataclasses import fields

from nexus import secrets
from nexus.broker.agent.roles import models_of
from nexus.config import Config, ModelsConfig
from nexus.errors import ConfigError, ModelFileError


def problems(config: Config) -> Iterator[ConfigError]:
    """What would keep a model that the settings name from being asked."""
    roles = [field.name for field in fields(ModelsConfig)]
    for name in sorted({name for role in roles for name in getattr(config.models, role)}):
        provider, slash, model = name.partition("/")
        known = config.providers.get(provider)
        if not slash or not model or known is None:
            yield ConfigError(f"`{name}` is not a model name", hint="Use the form `provider/model`.")
            continue
        if known.kind == "builtin":
            yield from _builtin(name, model)
        for source in filter(None, (known.api_key, known.auth_token)):
            try:
                secrets.read(source)
            except ConfigError as error:
                yield ConfigError(f"{name}: {error.message}", hint=error.hint)

    for name in config.prices:
        if name.partition("/")[0] not in config.providers:
            yield ConfigError(
                f"[prices.{name}] is not a model name",
                hint='Write `[prices."provider/model"]`, with the quotes.',
            )


def _builtin(name: str, model: str) -> Iterator[ConfigError]:
    # Imported here, because it takes longer than a command that names no such model may.
    from nexus.broker.agent.builtin import weights

    try:
        weights(model)
    except (ConfigError, ModelFileError) as error:
        yield ConfigError(f"{name}: {error.message}", hint=error.hint)


def unlimited(config: Config) -> Iterator[ConfigError]:
    """The models that no budget in money limits, because their price is not known."""
    # Imported here, because the list of prices is long.
    from nexus.broker.agent import prices

    budgets = ", ".join(f"`{name}`" for name in prices.budgets_in_money(config.budgets))
    for name in prices.unpriced(config):
        yield ConfigError(
            f"{budgets} in [budgets] can't limit {name}: its price is unknown",
            hint=f'Write `[prices."{name}"]` with `fresh_usd`, `cached_usd` and `output_usd`, in US dollars '
            "for a million tokens, into config.toml (0: it is free), or set a budget in tokens.",
        )


def warnings(config: Config) -> list[str]:
    """The same in a sentence each, with what to do."""
    return [f"{problem.message}. {problem.hint}" for problem in unlimited(config)]


def chosen(config: Config) -> str:
    """The manager's models in a line; an error that says what to do where there is none."""
    return ", then ".join(models_of(config.models, "manager"))
