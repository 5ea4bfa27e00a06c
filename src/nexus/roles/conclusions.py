"""What the memory concludes by itself, by the clock, and when somebody asks for it."""

from typing import TYPE_CHECKING, Any, Final

from nexus import clock
from nexus.engine import Schedule, StartedExecution, WorkContext
from nexus.memory.conclusions import observations
from nexus.memory.profile import OwnerProfile, versions
from nexus.roles.consolidation import profile
from nexus.roles.consolidation.consolidation import SETTLED, Consolidation, Report, explain_off
from nexus.roles.reflection import tools
from nexus.roles.reflection.reflection import make_reflect_tool, refresh_stale

if TYPE_CHECKING:
    from nexus.roles.services import Services


CONSOLIDATION: Final = "memory.consolidation"
# Apart from the background, where the runs are that this waits for.
_LANE: Final = "automations"
REFRESHING: Final = "memory.refreshing"


def _make_schedule(work: str, cron: str) -> Schedule:
    """Make a schedule. Runs missed while nobody served the home are not made up for."""
    return Schedule(name=work, cron=cron, work=work, payload={"by_clock": True}, lane=_LANE, missed="skip")


_SCHEDULES: Final = (_make_schedule(CONSOLIDATION, "10,40 * * * *"), _make_schedule(REFRESHING, "25 * * * *"))


class Conclusions:
    """Consolidation and reflection in one home. Make it before the engine opens; `schedule` it afterwards."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        services.engine.register(CONSOLIDATION, self._consolidate)
        services.engine.register(REFRESHING, self._refresh)
        services.broker.add_tools(tools.make_searches(services), for_everybody=False)
        services.broker.add_tools([make_reflect_tool(services)])

    async def schedule(self) -> None:
        """See to it that the schedules are there; those that are keep their next moment."""
        schedules = self._services.engine.schedules
        for schedule in _SCHEDULES:
            await schedules.put(schedule)

    async def consolidate(self, *, again: bool = False) -> StartedExecution:
        """Consolidate everything that waits, now; `again`: also what was set aside.

        It waits its turn behind a run of the clock, and gives a `Report` as JSON.
        """
        if again:
            await observations.take_up_again(self._services.ledgers)
        return await self._services.engine.start(
            CONSOLIDATION, {"by_clock": False}, key=f"schedule:{CONSOLIDATION}", lane=_LANE
        )

    async def _consolidate(self, context: WorkContext, payload: Any) -> dict[str, Any]:
        config, by_clock = self._services.config, bool(payload["by_clock"])
        off = explain_off(config)
        if by_clock and not config.memory.consolidation:
            off = "consolidation is switched off (consolidation in [memory])"
        await context.step("profile", self._refresh_profile, bool(off))
        if off:
            return Report(stopped=off).to_json()
        now = clock.now()
        until = clock.timestamp(now - SETTLED if by_clock else now)
        begun = await context.step("begin", _same, until)
        report = await Consolidation(services=self._services, context=context, until=begun)()
        if not report.stopped:
            await profile.write_profile(self._services, context)
        return report.to_json()

    async def _refresh_profile(self, off: bool) -> None:
        """Keep the owner's profile up to date by rule, unless a model writes it."""
        version = await versions.newest(self._services.ledgers)
        if off or version is None or version.origin != "consolidation":
            await OwnerProfile(self._services.ledgers).refresh()

    async def _refresh(self, context: WorkContext, payload: Any) -> dict[str, Any]:
        return (await refresh_stale(self._services, context)).to_json()


async def _same(value: str) -> str:
    return value
