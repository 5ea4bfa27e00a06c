"""The memory reader: an agent that searches the memory before a worker begins. It ships switched off."""

from typing import TYPE_CHECKING, Any

from nexus.automations.loading import Plugin
from nexus.roles.services import role_text

if TYPE_CHECKING:
    from nexus.automations.context import Context
    from nexus.roles.services import Services

NAME = "memory-reader"
PEER = "memory-writer"
TIMEOUT_MS = 10_000
# Behind the injection, whose few lines its own answer then replaces.
_PRIORITY = 120


def plugin(services: "Services | None") -> Plugin:
    """Return the automation. Without the services of an open home it can be listed, not run."""

    async def run(ctx: "Context") -> dict[str, Any] | None:
        # Imported when it first runs: listing automations needs neither the engine nor recall.
        from nexus.roles.memory_reader.reader import Reader

        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        return await Reader(services)(ctx)

    return Plugin(
        name=NAME,
        hook_point="worker:pre_execution",
        run=run,
        description="Searches the memory in depth before a worker starts.",
        timeout_ms=TIMEOUT_MS,
        priority=_PRIORITY,
        config={"reflect_every": 20},
        workspace=True,
        peers=(PEER,),
        self_improvement=True,
        enabled=False,
        role=role_text(__package__ or ""),
    )
