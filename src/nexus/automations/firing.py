"""When an automation fires: its schedule, and the conditions that a request must meet.

By the clock it has a `cron` expression, or one moment `at`, and a `zone`. Of conditions, all that are given
must hold.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from nexus import clock
from nexus.automations.hook_points import SCHEDULE
from nexus.engine import cron as crons
from nexus.engine.cron import Schedule
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.request import Request

KEYS: Final = frozenset({"cron", "at", "zone"})
WORK: Final = "automations.due"
PREFIX: Final = "automation:"
"""What the names of these schedules begin with on the engine."""


def build_schedule(name: str, triggers: dict[str, Any]) -> Schedule:
    """The engine's schedule of an automation. What was missed while nobody served is made up for once."""
    cron, zone = str(triggers.get("cron", "")), str(triggers.get("zone", "UTC"))
    if "at" in triggers:
        cron, zone = crons.once(_parse_moment(triggers["at"])), "UTC"
    return Schedule(name=f"{PREFIX}{name}", cron=cron, zone=zone, work=WORK, payload={"automation": name})


def upcoming(triggers: dict[str, Any], after: datetime) -> datetime | None:
    """When it runs next, in its own time zone; None if that has passed."""
    found = build_schedule("", triggers)
    due = crons.upcoming(found.cron, found.zone, after)
    return due and due.astimezone(ZoneInfo(str(triggers.get("zone", "UTC"))))


def check(new: NewAutomation) -> None:
    """Refuse a condition that is none, and a schedule that could never come due or would not be looked at."""
    _check_conditions(new.triggers)
    said = KEYS & new.triggers.keys()
    if new.hook_point != SCHEDULE:
        if said:
            raise AutomationError(
                f"{new.hook_point} has no schedule",
                hint="Leave out --hook-point, or --schedule and --zone.",
            )
        return
    if len({"cron", "at"} & said) != 1:
        raise AutomationError(
            "A schedule is missing",
            hint="Such as `--schedule '0 8 * * *'`: daily at eight.",
        )
    if others := ", ".join(sorted(new.triggers.keys() - KEYS)):
        raise AutomationError(
            f"A scheduled automation can't have triggers ({others})", hint="Leave out --trigger."
        )
    if new.blocking:
        raise AutomationError("A scheduled automation can't be blocking", hint="Leave out --blocking.")
    if "at" in said and new.mode != "once":
        raise AutomationError("An automation with a single date runs once", hint="Pass --once.")
    if "cron" in said and upcoming(new.triggers, clock.now()) is None:
        raise AutomationError(f"The schedule `{new.triggers['cron']}` never comes due")
    build_schedule(new.name, new.triggers)


def _parse_moment(given: object) -> datetime:
    try:
        return clock.parse(str(given))
    except ValueError:
        raise AutomationError(
            f"`{given}` is not a moment", hint="Such as `2026-05-01T09:00:00.000Z`."
        ) from None


CONDITIONS: dict[str, Callable[[Request, list[str]], bool]] = {
    "channels": lambda request, given: (request.event.channel or "") in given,
    "contains": lambda request, given: any(
        text.casefold() in request.event.content.casefold() for text in given
    ),
    "enriched": lambda request, given: any(name in request.enrichment for name in given),
    "levels": lambda request, given: request.access.level in given,
    "roles": lambda request, given: request.agent.role in given,
    "sessions": lambda request, given: any(
        fnmatchcase(request.agent.session_label, pattern) for pattern in given
    ),
}


def are_met(triggers: dict[str, Any], request: Request, ignoring: Collection[str] = ()) -> bool:
    """Whether a request meets the conditions. What this program does not know is no condition."""
    return all(
        CONDITIONS[name](request, _as_list(given))
        for name, given in triggers.items()
        if name in CONDITIONS and name not in ignoring
    )


def _check_conditions(triggers: dict[str, Any]) -> None:
    """Refuse a registration with a condition that would never be looked at."""
    for name in triggers:
        if name not in CONDITIONS and name not in KEYS:
            raise AutomationError(f"`{name}` is not a trigger", hint=f"Known: {', '.join(CONDITIONS)}.")


def _as_list(given: object) -> list[str]:
    return list(map(str, cast("list[Any]", given))) if isinstance(given, list) else [str(given)]
