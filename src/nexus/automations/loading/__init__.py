"""What becomes a row at startup: HOOK.md folders, plugins of installed packages, rows from before."""

from nexus.automations.loading.load import Loaded, load
from nexus.automations.loading.plugin import Plugin

__all__ = ["Loaded", "Plugin", "load"]
