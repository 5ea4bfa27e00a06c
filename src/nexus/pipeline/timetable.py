"""Automations that run by the clock: what is due becomes a request, and what it answers is delivered.

A moment is started once, however many processes serve the home. Its invocation is durable, and its message
is recorded under an id that follows from the moment, so that after a crash it arrives once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any, Final

from nexus import clock, ids
from nexus.automations import hook_points, registry, when
from nexus.automations.context import Context as AutomationContext
from nexus.automations.context import Occasion
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.registry import Entry
from nexus.automations.runner import Runner
from nexus.config import Config
from nexus.engine import Engine, Schedule, WorkContext
from nexus.errors import NexusError
from nexus.ledgers import Ledgers, events
from nexus.ledgers.runtime import automations, requests
from nexus.ledgers.runtime.automations import Automation
from nexus.pipeline import incoming
from nexus.pipeline.delivery import CHANNEL, SESSION
from nexus.pipeline.incoming import Incoming
from nexus.request import Agent, Event, Request
from nexus.watch import Watch

_PAUSE_S = 1.0
_log = logging.getLogger(__name__)
LATE: Final = "late"
"""The enrichment of a request whose moment was missed and is made up for."""
Accept = Callable[[Incoming], Awaitable[object]]
"""Takes in a message as a channel hands it over."""
IsOwners = Callable[[str, str], bool]
"""Whether an address on a channel is the owner's, by the settings."""


class Timetable:
    """The schedules of one home's automations. Make it before the engine opens; `start` it afterwards."""

    def __init__(
        self, ledgers: Ledgers, config: Config, engine: Engine, runner: Runner, now: clock.Clock = clock.now
    ) -> None:
        self._ledgers = ledgers
        self._config = config
        self._engine = engine
        self._runner = runner
        self._now = now
        self._marker = registry.marker_file(ledgers.home)
        self._seen_ns = 0
        self._keeping: asyncio.Task[None] | None = None
        engine.register(hook_points.WORK, self._begin)

    async def start(self) -> None:
        """Keep the engine's schedules as the table of automations says, whoever changes it."""
        self._marker.parent.mkdir(parents=True, exist_ok=True)
        watch = Watch([self._marker], pause_s=_PAUSE_S)
        self._seen_ns = registry.touched_ns(str(self._marker))
        await self.keep()
        self._keeping = asyncio.create_task(self._keep_on(watch), name="timetable")

    async def stop(self) -> None:
        """Look once more: under a host, what was registered just now wakes the closed home."""
        if self._keeping is not None:
            self._keeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeping
            await self._look()

    async def keep(self) -> None:
        """Put what is registered on the engine, and take off what is not any more."""
        found = await self._ledgers.runtime.read(automations.list_current)
        wanted = [schedule for each in found if (schedule := _schedule(each)) is not None]
        schedules = self._engine.schedules
        names = {schedule.name for schedule in wanted}
        for row in await schedules.list_schedules():
            if row["name"].startswith(hook_points.PREFIX) and row["name"] not in names:
                await schedules.remove(row["name"])
        for schedule in wanted:
            await schedules.put(schedule, after=self._now())

    async def _keep_on(self, watch: Watch) -> None:
        with closing(watch):
            while True:
                is_kept = await self._look()
                await watch.wait(None if is_kept else _PAUSE_S)

    async def _look(self) -> bool:
        touched_ns = registry.touched_ns(str(self._marker))
        if touched_ns == self._seen_ns:
            return True
        try:
            await self.keep()
        except NexusError:  # a busy ledger is looked at again
            return False
        self._seen_ns = touched_ns
        return True

    async def _begin(self, context: WorkContext, payload: Any) -> None:
        """A moment has come: write the request down, and queue the invocation."""
        entry = await self._runner.find_active(payload["automation"], SCHEDULE)
        if entry is None:
            return
        is_late = bool(payload.get("late"))
        request = await self._request(entry.automation, context.id, payload["scheduled_at"], is_late=is_late)
        if is_late and self._config.automations.missed == "skip":
            await self._skip(entry, request)
            return
        if not await self._runner.enqueue_again(
            entry, SCHEDULE, Occasion(request=request, key=request.request_id)
        ):
            await self._fail(request, "its circuit is open")

    async def _skip(self, entry: Entry, request: Request) -> None:
        """By the settings what was missed is not made up for; its log says so, and what ran once is over."""
        reason = f"missed: due at {request.event.content}, when Nexus was not running"
        await self._runner.skip(entry, SCHEDULE, Occasion(request=request), reason)
        if entry.automation.mode == "once":
            await self._ledgers.runtime.write(
                automations.disable, automation_id=entry.automation.id, reason=reason
            )
            registry.touch(self._ledgers.home)
        await self._fail(request, reason)

    async def _request(
        self, automation: Automation, execution_id: str, due: str, *, is_late: bool
    ) -> Request:
        session = str(automation.config.get("session") or SESSION)
        channel = str(automation.config.get("channel") or CHANNEL)
        external_id = str(automation.config.get("thread") or session)
        thread_id = await self._ledgers.events.write(
            events.ensure_thread, channel=channel, external_id=external_id
        )
        request = Request(
            request_id=ids.derived("req", execution_id, SCHEDULE),
            event=Event(content=due, channel=channel, thread_id=thread_id),
            agent=Agent(session_label=f"{SCHEDULE}:{automation.name}"),
            access=incoming.owner(self._config.tools, self._ledgers.home),
            enrichment={LATE: True} if is_late else {},
        )
        await self._ledgers.runtime.write(requests.create, request=request)
        return request

    async def _fail(self, request: Request, error: str) -> None:
        await self._ledgers.runtime.write(
            requests.end, request_id=request.request_id, status="failed", error=error
        )


def _schedule(automation: Automation) -> Schedule | None:
    if automation.status != "active" or automation.hook_point != SCHEDULE:
        return None
    try:
        return hook_points.build_schedule(automation.name, automation.triggers)
    except (NexusError, KeyError) as error:
        # A row that was written with plain SQL: it must not keep the home from being served.
        _log.warning("%s has no schedule that can be read: %s", automation.name, error)
        return None


class Reminding:
    """The code of every reminder."""

    def __init__(self, accept: Accept, is_owners: IsOwners) -> None:
        self._accept = accept
        self._is_owners = is_owners

    async def __call__(self, ctx: AutomationContext) -> dict[str, Any] | None:
        given, triggers = ctx.config, ctx.automation.triggers
        text = str(given["text"])
        late = ""
        if ctx.request.enrichment.get(LATE):
            due = when.format_moment(clock.parse(ctx.request.event.content), str(triggers.get("zone", "UTC")))
            late = f"due {due}, delivered late because Nexus was not running"
        if not given.get("asks"):
            return {"response": f"{text}\n\n({late[:1].upper()}{late[1:]}.)" if late else text}
        scheduled = ", ".join(filter(None, (when.describe(triggers), late)))
        channel, address = str(given["channel"]), str(given.get("address") or "")
        was_owner = bool(given["is_owner"])
        is_owner = was_owner and self._is_owners(channel, address)
        await self._accept(
            Incoming(
                channel=channel,
                content=f"[Scheduled: {scheduled}] {text}",
                # The address gets the answer, where a channel sends one to it.
                sender=address or str(given["sender"]),
                thread=str(given["thread"]),
                session_label=str(given["session"]),
                # Who made it is on record from the server's side; what they may reach is looked up anew.
                is_owner=is_owner,
                is_group=bool(given.get("is_group")),
                # Whoever is the owner no longer didn't write just now: they are not told a code.
                wants_answer=is_owner or not was_owner,
                is_scheduled=True,
                # An invocation that a crash cut short is run again, and asks the same question.
                external_id=ctx.invocation_id,
            )
        )
        return None
