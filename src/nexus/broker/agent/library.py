"""The agent library and its like, imported when they are first needed: a home is served before that."""

import asyncio
import importlib
import threading
from typing import Any, Final

_LOOP: Final = "nexus.broker.agent.loop"
# Where two threads import packages that import each other, Python gives one of them a half-made module.
_ONE_AT_A_TIME: Final = threading.Lock()


_loaded = False


async def load() -> None:
    """Import the agent library."""
    global _loaded  # noqa: PLW0603 - modules are imported once for a process
    if not _loaded:
        await import_module(_LOOP)
        _loaded = True


async def import_module(module: str) -> Any:
    """Import a module in a thread: that takes longer than the event loop may stand still."""
    return await asyncio.to_thread(_import, module)


def _import(module: str) -> Any:
    with _ONE_AT_A_TIME:
        return importlib.import_module(module)
