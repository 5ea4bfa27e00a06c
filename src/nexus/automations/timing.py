"""When an automation runs by the clock: the `cron` and `zone` of its registration."""

from typing import Any, Final

from nexus.automations.hook_points import SCHEDULE
from nexus.engine import Schedule
from nexus.errors import AutomationError
from nexus.ledgers.runtime.automations import NewAutomation

KEYS: Final = frozenset({"cron", "zone"})
WORK: Final = "automations.due"
PREFIX: Final = "automation:"
"""What the names of these schedules begin with on the engine."""


def schedule(name: str, triggers: dict[str, Any]) -> Schedule:
    """The engine's schedule of an automation. What was missed while nobody served is made up for once."""
    return Schedule(
        name=f"{PREFIX}{name}",
        cron=str(triggers["cron"]),
        zone=str(triggers.get("zone", "UTC")),
        work=WORK,
        payload={"automation": name},
    )


def check(new: NewAutomation) -> None:
    """Refuse a schedule that could never come due, or that would not be looked at."""
    said = KEYS & new.triggers.keys()
    if new.hook_point != SCHEDULE:
        if said:
            raise AutomationError(
                f"{new.hook_point} does not run by the clock",
                hint="Leave out --hook-point, or --schedule and --zone.",
            )
        return
    if "cron" not in said:
        raise AutomationError(
            "What runs by the clock needs a schedule",
            hint="Such as `--schedule '0 8 * * *'`: daily at eight.",
        )
    if others := ", ".join(sorted(new.triggers.keys() - KEYS)):
        raise AutomationError(
            f"What runs by the clock has no other conditions, such as {others}", hint="Leave out --trigger."
        )
    if new.blocking:
        raise AutomationError("What runs by the clock keeps nobody waiting", hint="Leave out --blocking.")
    schedule(new.name, new.triggers)
