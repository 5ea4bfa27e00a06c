"""The automations that come with Nexus."""

from typing import TYPE_CHECKING

from nexus.automations.loading import Plugin
from nexus.roles import calendar, daily_brief, follow_ups, memory_injection, memory_reader, memory_writer

if TYPE_CHECKING:
    from nexus.config import Config
    from nexus.roles.services import Services


def bundled_plugins(services: "Services | None" = None, config: "Config | None" = None) -> tuple[Plugin, ...]:
    """List all of them. Without the services of an open home they can be listed and seeded, not run."""
    settings = config if services is None else services.config
    return (
        *memory_injection.plugins(services),
        memory_writer.plugin(services, settings),
        memory_reader.plugin(services),
        follow_ups.plugin(services, settings),
        daily_brief.plugin(services, settings),
        *calendar.plugins(services, settings),
    )


def switched_off(config: "Config") -> dict[str, str]:
    """Find those that the settings switch off: why, by their script path."""
    return {each.script_path: each.off for each in bundled_plugins(config=config) if each.off is not None}
