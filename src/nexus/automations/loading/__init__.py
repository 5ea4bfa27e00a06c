"""What becomes a row at startup: HOOK.md folders, plugins of installed packages, rows from before."""

from nexus.automations.loading.plugin import Loaded, Plugin, load

__all__ = ["Loaded", "Plugin", "load"]
