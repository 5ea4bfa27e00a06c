"""Memory injection: what the memory knows about a message or a task, put before it, or nothing."""

from typing import Final

from nexus.automations.context import Context, Handler
from nexus.automations.loading import Plugin
from nexus.errors import AutomationError
from nexus.roles.instructions import role_text
from nexus.roles.services import Services

NAME: Final = "memory-injection"
CHAT: Final = "memory-injection-chat"
TIMEOUT_MS: Final = 3_000


def plugins(services: Services | None) -> tuple[Plugin, ...]:
    """Those that inject, for workers and for conversations, and the one that records what came of it."""
    inject, notice = _handlers(services)
    role = role_text(__package__ or "")
    return (
        Plugin(
            name=NAME,
            hook_point="worker:pre_execution",
            run=inject,
            description="Adds the few memories that a worker's task needs, or none.",
            timeout_ms=TIMEOUT_MS,
            workspace=True,
            role=role,
        ),
        Plugin(
            name=CHAT,
            hook_point="after:assembleContext",
            run=inject,
            description="Adds the few memories that a message needs, or none.",
            timeout_ms=TIMEOUT_MS,
            workspace=True,
            role=role,
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


def _handlers(services: Services | None) -> tuple[Handler, Handler]:
    if services is None:
        return _closed, _closed
    # A command that only lists automations does not load what recall needs.
    from nexus.roles.memory_injection.formatting import Use
    from nexus.roles.memory_injection.injection import Injection

    return Injection(services), Use(services.ledgers)


def _closed(context: Context) -> None:
    raise AutomationError("The home is not open here", hint="It runs where the home is served.")
