"""Mental models that are stale are made anew by themselves, a few at a time and each at most once a day."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from nexus import clock, ids
from nexus.broker.agent.roles import models_of
from nexus.errors import ConfigError, ModelError, NexusError
from nexus.memory.conclusions import mental_models
from nexus.roles import spending
from nexus.roles.reflection.reflection import ROLE, Asking, refresh

if TYPE_CHECKING:
    from nexus.engine import Context
    from nexus.roles.services import Services

# So old must a version be before it is made anew: something is learned about a busy subject every hour.
_AGE: Final = timedelta(hours=20)


@dataclass(kw_only=True)
class Report:
    """What one run did, in numbers: the engine keeps it, and keeps no content."""

    refreshed: int = 0
    failed: int = 0
    stopped: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


async def refreshed(services: "Services", context: "Context") -> Report:
    """Make anew what is stale, within the limits of the settings."""
    report = Report()
    for _ in range(services.config.memory.refreshed_models):
        given = await context.step("next", _next, services)
        report.stopped = given["stopped"]
        if given["model"] is not None:
            await _refresh(services, context, given["model"], report)
        if given["model"] is None or report.stopped:
            break
    return report


async def _next(services: "Services") -> dict[str, Any]:
    made_until = clock.timestamp(clock.now() - _AGE)
    found = await mental_models.to_refresh(services.ledgers, made_until=made_until, limit=1)
    stopped = (
        (_why_off(services) or await spending.reached(services.ledgers, services.config.memory))
        if found
        else ""
    )
    return {"model": found[0] if found and not stopped else None, "stopped": stopped}


def _why_off(services: "Services") -> str:
    try:
        models_of(services.config.models, ROLE)
    except ConfigError as error:
        return error.message
    return ""


async def _refresh(services: "Services", context: "Context", model_id: str, report: Report) -> None:
    asking = Asking(execution_id=ids.derived("exe", context.id, model_id), background=True)
    try:
        await refresh(services, model_id, asking=asking)
        report.refreshed += 1
    except ModelError:
        report.stopped = "no model answers"
    except NexusError as error:
        # Noted, so that it is not tried again until something newer is known.
        now = clock.timestamp(clock.now())
        await mental_models.note_failure(
            services.ledgers, model_id, reason=error.message, request_id=None, now=now
        )
        report.failed += 1
