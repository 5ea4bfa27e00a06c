"""The agent room: models, their providers, the loop of requests and tool calls, and MCP servers.

Nothing outside imports the agent library or a provider's own. It is slow to import, so whoever runs no
agent imports `records` alone.
"""

import asyncio
import importlib
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_LOOP: Final = "nexus.broker.agent.loop"
# Where two threads import packages that import each other, Python gives one of them a half-made module.
_ONE_AT_A_TIME: Final = threading.Lock()
_loaded = False


async def load_library() -> None:
    """Import the agent library."""
    global _loaded  # noqa: PLW0603 - modules are imported once for a process
    if not _loaded:
        await import_module(_LOOP)
        _loaded = True


async def import_module(module: str) -> Any:
    """Import a module in a thread: that takes longer than the event loop may stand still."""
    return await call_importing(importlib.import_module, module)


async def call_importing(function: Callable[[T], R], argument: T) -> R:
    """Call a function that imports modules, in a thread and while nobody else does."""

    def call() -> R:
        with _ONE_AT_A_TIME:
            return function(argument)

    return await asyncio.to_thread(call)
