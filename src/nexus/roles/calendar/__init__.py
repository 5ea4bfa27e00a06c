"""Calendars: events of CalDAV servers and ICS files are read into the home, and today's go to tasks."""

from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from nexus import clock
from nexus.automations.loading import Plugin
from nexus.engine import Schedule

if TYPE_CHECKING:
    from nexus.automations.context import Context
    from nexus.config import Config
    from nexus.engine import WorkContext
    from nexus.roles.calendar.calendars import Calendars
    from nexus.roles.services import Services

WORK: Final = "calendar.sync"
_SCHEDULE: Final = Schedule(name=WORK, cron="*/15 * * * *", work=WORK, payload={}, missed="skip")
_TIMEOUT_MS: Final = 3_000
# After the memories, which it adds to.
_PRIORITY: Final = 110
_OFF: Final = "no calendar is connected: run `nexus calendar add`"
_HOOK_POINTS: Final = {"agenda-chat": "after:assembleContext", "agenda": "worker:pre_execution"}


def plugins(services: "Services | None", config: "Config | None") -> tuple[Plugin, ...]:
    """Return the automations that put events before tasks. Without services they can be listed, not run."""

    @cache
    def open_() -> "Calendars":
        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        return open_calendars(services)

    async def run(ctx: "Context") -> dict[str, Any] | None:
        # Imported when it first runs: most homes have no calendar.
        from nexus.roles.calendar import agenda

        assert services is not None, "automations run in an open home"  # noqa: S101 - an invariant, for the reader and the type checker
        return await agenda.run(ctx, open_(), services)

    off = None if config is None or config.calendar else _OFF
    return tuple(
        Plugin(
            name=name,
            hook_point=hook_point,
            run=run,
            description="Adds events of the calendar to a task that names a day, a person or a place.",
            timeout_ms=_TIMEOUT_MS,
            priority=_PRIORITY,
            off=off,
        )
        for name, hook_point in _HOOK_POINTS.items()
    )


def open_calendars(services: "Services", now: clock.Clock = clock.now) -> "Calendars":
    """Open the calendars of a home."""
    from nexus.roles.calendar.calendars import Calendars

    return Calendars(services.home, services.config, services.ledgers, services.memory, now)


async def list_day(services: "Services", day: date) -> list[str]:
    """List what takes place on a day, a line for each."""
    from nexus.roles.calendar.agenda import describe_slot
    from nexus.roles.calendar.wording import PREFIX

    slots = await open_calendars(services).find_agenda(day, day + timedelta(days=1))
    items = await (await services.open_recall()).load_items([slot.fact_id for slot in slots])
    texts = {item.id: item.text for item in items if item.replaced_by is None}
    found = [describe_slot(slot, texts[slot.fact_id]) for slot in slots if slot.fact_id in texts]
    return [each.removeprefix(PREFIX) for each in found]


class CalendarSync:
    """The calendars of one home, by the clock. Make it before the engine opens; `schedule` it afterwards.

    Without a calendar in the settings, nothing is loaded or scheduled.
    """

    def __init__(self, services: "Services", now: clock.Clock) -> None:
        self._services = services
        self._now = now
        services.engine.register(WORK, self._sync)
        if any(each.kind == "caldav" for each in services.config.calendar.values()):
            from nexus.roles.calendar.tool import make_calendar_tool

            services.broker.add_tools([make_calendar_tool(open_calendars(services, now))])

    async def schedule(self) -> None:
        """See to it that calendars are read by the clock; without any, nothing is."""
        schedules = self._services.engine.schedules
        if self._services.config.calendar:
            await schedules.put(_SCHEDULE)
        else:
            await schedules.remove(WORK)

    async def _sync(self, context: "WorkContext", payload: Any) -> dict[str, str]:
        if not self._services.config.calendar:
            return {}
        reports = await open_calendars(self._services, self._now).sync()
        return {each.name: each.error for each in reports}
