"""When an automation runs by the clock: its `cron` expression, or its one moment `at`, and its `zone`."""

from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from nexus import clock
from nexus.automations.hook_points import SCHEDULE
from nexus.engine import cron as crons
from nexus.engine.cron import Schedule
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import NewAutomation

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
    """Refuse a schedule that could never come due, or that would not be looked at."""
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
