"""The automations that come with Nexus."""

from typing import TYPE_CHECKING

from nexus.automations.loading import Plugin
from nexus.roles import memory_injection, memory_reader, memory_writer

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.roles.parts import Parts


def bundled(parts: "Parts | None" = None, config: "Config | None" = None) -> tuple[Plugin, ...]:
    """All of them. Without the parts of an open home they can be listed and seeded, not run."""
    settings = config if parts is None else parts.config
    return (
        *memory_injection.plugins(parts),
        memory_writer.plugin(parts, settings),
        memory_reader.plugin(parts),
    )


def switched_off(config: "Config") -> dict[str, str]:
    """Those that do not run by the settings: why, by their script path."""
    return {each.script_path: each.off for each in bundled(config=config) if each.off is not None}
