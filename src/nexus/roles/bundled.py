"""The automations that come with Nexus."""

from nexus.automations.loading import Plugin
from nexus.roles.parts import Parts


def bundled(parts: Parts | None = None) -> tuple[Plugin, ...]:
    """All of them. Without the parts of an open home they can be listed and seeded, not run."""
    return ()
