"""Which models answer in which role, by the settings alone: no client is made for it."""

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
