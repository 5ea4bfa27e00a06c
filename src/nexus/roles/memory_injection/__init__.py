"""Memory injection: adds the few memories that a message or a task needs, or none."""

from typing import Final

from nexus.automations.context import Context
from nexus.automations.loading import Plugin
from nexus.errors import AutomationError
from nexus.roles.services import Services, role_text

NAME: Final = "memory-injection"
CHAT: Final = "memory-injection-chat"
TIMEOUT_MS: Final = 3_000


def plugins(services: Services | None) -> tuple[Plugin, ...]:
    """Return the automations that inject, for workers and conversations, and the one that records use."""
    if services is None:
        inject = feedback = _refuse
    else:
        # A command that only lists automations doesn't load what recall needs.
        from nexus.roles.memory_injection.formatting import Feedback
        from nexus.roles.memory_injection.injection import Injection

        inject, feedback = Injection(services), Feedback(services.ledgers)
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
            run=feedback,
            description="Records which of the injected memories an answer used.",
            triggers={"enriched": ["memories"]},
            timeout_ms=TIMEOUT_MS,
        ),
    )


def _refuse(context: Context) -> None:
    raise AutomationError("The home is not open here", hint="It runs where the home is served.")
