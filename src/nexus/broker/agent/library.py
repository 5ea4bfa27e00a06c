"""The agent library, imported when the first run needs it: a home is served before that."""

import asyncio
import importlib

_LOOP = "nexus.broker.agent.loop"
_loaded = False


async def load() -> None:
    """Import it, in a thread: that takes longer than the event loop may stand still."""
    global _loaded  # noqa: PLW0603 - modules are imported once for a process
    if not _loaded:
        await asyncio.to_thread(importlib.import_module, _LOOP)
        _loaded = True
