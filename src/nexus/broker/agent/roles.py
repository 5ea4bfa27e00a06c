"""Which models answer in which role, by the settings alone: no client is made for it."""

from nexus.config import ModelsConfig
from nexus.errors import ConfigError

# What a role without models of its own uses.
_INSTEAD = {
    "worker": "manager",
    "fast": "worker",
    "writer": "worker",
    "consolidation": "writer",
    "reflection": "worker",
}


def models_of(models: ModelsConfig, role: str) -> tuple[str, ...]:
    """The models of a role, the first choice first; an error that says what to do where there is none."""
    asked = role if hasattr(models, role) else "worker"
    while not (names := getattr(models, asked)) and asked in _INSTEAD:
        asked = _INSTEAD[asked]
    if not names:
        raise ConfigError(
            "No model is set, so no agent can answer",
            hint='Write `manager = "anthropic/claude-opus-5"` below [models] in config.toml and set '
            'ANTHROPIC_API_KEY, or `manager = "ollama/qwen3"` for a model on this machine.',
        )
    return names
