"""Memory injection: what the memory knows about a task, put before it, or nothing."""

from typing import Final

from nexus.automations.context import AutomationContext, Handler
from nexus.automations.loading import Plugin
from nexus.errors import AutomationError
from nexus.roles.parts import Parts

NAME: Final = "memory-injection"
TIMEOUT_MS: Final = 3_000


def plugins(parts: Parts | None) -> tuple[Plugin, ...]:
    """The automation that injects, and the one that records what came of it."""
    inject, notice = _handlers(parts)
    return (
        Plugin(
            name=NAME,
            hook_point="worker:pre_execution",
            run=inject,
            description="Puts what the memory knows about a worker's task before it, or nothing.",
            timeout_ms=TIMEOUT_MS,
        ),
        Plugin(
            name="memory-use",
            hook_point="after:runAgent",
            run=notice,
            description="Records which of the injected memories an answer used.",
            triggers={"enriched": ["memories"]},
            timeout_ms=TIMEOUT_MS,
        ),
    )


def _handlers(parts: Parts | None) -> tuple[Handler, Handler]:
    if parts is None:
        return _closed, _closed
    # A command that only lists automations does not load what recall needs.
    from nexus.roles.memory_injection.injection import Injection
    from nexus.roles.memory_injection.use import Use

    return Injection(parts), Use(parts.ledgers)


def _closed(context: AutomationContext) -> None:
    raise AutomationError("The home is not open here", hint="It runs where the home is served.")
