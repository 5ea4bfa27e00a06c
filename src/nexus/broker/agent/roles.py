"""Which models answer in which role, by the settings alone: no client is made for it."""

import difflib
from collections.abc import Collection

from nexus.config import ModelsConfig
from nexus.errors import ConfigError

# What a role without models of its own uses. The writer's setting says it by itself.
_INSTEAD = {
    "worker": "manager",
    "fast": "worker",
    "consolidation": "writer",
    "reflection": "worker",
}


def models_of(models: ModelsConfig, role: str) -> tuple[str, ...]:
    """The models of a role, the first choice first; an error that says what to do where there is none."""
    asked = role if hasattr(models, role) else "worker"
    while (
        not (names := models.writers if asked == "writer" else getattr(models, asked)) and asked in _INSTEAD
    ):
        asked = _INSTEAD[asked]
    if not names and asked == "writer" and models.manager:
        raise ConfigError(
            "The memory writer is off",
            hint='Set `writer = "manager"` or another model in [models] in config.toml.',
        )
    if not names:
        raise ConfigError(
            "No model configured",
            hint="Run `nexus init` in a terminal to choose one, or set "
            '`manager = "anthropic/claude-opus-5"` '
            "in [models] in config.toml and ANTHROPIC_API_KEY in the environment.",
        )
    return names


def unknown_model(name: str, providers: Collection[str]) -> ConfigError:
    """The error for a name without a known provider, with the name that was probably meant."""
    known = ", ".join(providers)
    hint = f"Use the form `provider/model`. Known providers: {known}. More go to [providers.NAME]."
    if meant := nearest_model(name, providers):
        hint = f"Did you mean `{meant}`?"
    return ConfigError(f"`{name}` is not a model name", hint=hint)


def nearest_model(name: str, providers: Collection[str]) -> str:
    """The name with its provider spelled right; empty if it isn't a slip of the pen."""
    provider, _, model = name.partition("/")
    near = difflib.get_close_matches(provider.lower(), list(providers), n=1, cutoff=0.75) if model else []
    return f"{near[0]}/{model}" if near else ""
