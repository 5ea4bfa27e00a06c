"""Follow-ups: record promises, close them when they are kept, and raise what is open once, at its time.

One automation does all of it. At `finalize` it reads the message and its answer; as the schedule
`follow-ups-due`, which always stands at the next moment to raise something, it tells the owner.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from nexus import clock, commands, ids
from nexus.automations import quiet, registration, reminders, when
from nexus.automations.context import Context
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.scripts.script import IN_PROCESS
from nexus.config import Config
from nexus.ledgers import Ledgers, events
from nexus.ledgers.identity import senders
from nexus.ledgers.memory import follow_ups
from nexus.ledgers.memory.follow_ups import FollowUp, NewFollowUp, Promiser, Status
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.memory.views.names import load_entity_names
from nexus.request import Request
from nexus.roles.follow_ups import ALARM, NAME
from nexus.roles.follow_ups.completion import find_kept, may_tell
from nexus.roles.follow_ups.promises import Due, Promise, Speaker, Who, find_promises
from nexus.runs import Result
from nexus.text import join_lines

_OPEN_AT_ONCE: Final = 500
_DAY_BEGINS: Final = time(9)
"""When what is due on a day is raised, if no time was said."""
_DAY_ENDS: Final = time(17)
"""The same for what others promised: they have the day to do it."""
_EVENING: Final = time(18)
_LEAD: Final = timedelta(hours=1)
_SOON: Final = timedelta(days=2)
"""What is due later isn't raised when its person writes: it is raised once, and then is too early."""
_SCHEDULED: Final = "[Scheduled:"
_SHOWN: Final = 200
_CLI: Final = "cli"
_MAIN: Final = "main"
RETRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class Hours:
    """When something may be raised, in the time zone of the owner."""

    zone: str
    quiet: quiet.QuietHours | None

    @classmethod
    def of(cls, config: Config) -> "Hours":
        zone = reminders.find_zone(config.automations)
        return cls(zone=zone, quiet=quiet.parse_hours(config.followups.quiet_hours, zone))

    def is_quiet(self, at: datetime) -> bool:
        return self.quiet is not None and self.quiet.hold(at)

    def local(self, at: datetime) -> datetime:
        return at.astimezone(ZoneInfo(self.zone))

    def midnight(self, at: datetime) -> datetime:
        """The beginning of the day."""
        return self.local(at).replace(hour=0, minute=0, second=0, microsecond=0)

    def end(self, due: Due) -> datetime:
        """The moment by which a promise is to be kept."""
        at = due.at or time(23, 59, 59)
        return datetime.combine(due.day, at, ZoneInfo(self.zone)).astimezone(UTC)

    def choose_moment(self, due: Due, promiser: Promiser, now: datetime) -> datetime:
        """Choose when to raise a promise: before it is due, outside quiet hours."""
        end = self.end(due)
        if due.at is not None:
            at = end - min(_LEAD, max(end - now, timedelta()) / 2)
        else:
            wanted = _DAY_ENDS if promiser == "other" else _DAY_BEGINS
            at = datetime.combine(due.day, wanted, ZoneInfo(self.zone)).astimezone(UTC)
            if at <= now:
                evening = datetime.combine(due.day, _EVENING, ZoneInfo(self.zone)).astimezone(UTC)
                at = max(evening, now + (end - now) / 2 if end > now else now)
        return self.leave_quiet(at, end, now)

    def leave_quiet(self, at: datetime, end: datetime, now: datetime) -> datetime:
        """Move a moment out of the quiet hours: to before them if what is raised is due in them."""
        if self.quiet is None or not self.quiet.hold(at):
            return at
        local = self.local(at)
        after = local.replace(hour=self.quiet.end.hour, minute=self.quiet.end.minute, second=0, microsecond=0)
        after = after if after > local else after + timedelta(days=1)
        before = local.replace(hour=self.quiet.begin.hour, minute=self.quiet.begin.minute, second=0)
        before = (before if before <= local else before - timedelta(days=1)) - timedelta(minutes=1)
        is_late = after.astimezone(UTC) > end
        if is_late and before > now and not self.is_quiet(before):
            return before.astimezone(UTC)
        return after.astimezone(UTC)


class FollowUps:
    """The follow-ups of one home, for the automation and for people."""

    def __init__(self, ledgers: Ledgers, config: Config, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._config = config
        self.now = now

    async def load(self, status: Status | None = None, limit: int = _OPEN_AT_ONCE) -> list[FollowUp]:
        """Load follow-ups: the open ones first, by when they are due."""
        return await self._ledgers.memory.read(follow_ups.load_all, status=status, limit=limit)

    async def close(self, reference: str, status: Status) -> FollowUp:
        """Mark one as done, or as wrongly recognized."""
        found = await self._ledgers.memory.read(follow_ups.find, reference)
        await self._ledgers.memory.write(
            follow_ups.close, [found.id], status, now=clock.timestamp(self.now())
        )
        return await self._ledgers.memory.read(follow_ups.find, found.id)

    async def postpone(self, reference: str, words: str) -> FollowUp:
        """Raise one again at another time, such as `tomorrow at 9`; it is open until then."""
        found = await self._ledgers.memory.read(follow_ups.find, reference)
        hours = await asyncio.to_thread(Hours.of, self._config)
        said = await asyncio.to_thread(when.read, words, self.now(), hours.zone)
        if said.at is None:
            raise when.TimeError("A follow-up is raised once", hint="Such as `tomorrow at 9`.")
        at = clock.timestamp(said.at)
        await self._ledgers.memory.write(follow_ups.postpone, found.id, due_at=at, raise_at=at)
        await self.set_alarm()
        return await self._ledgers.memory.read(follow_ups.find, found.id)

    async def record(self, ctx: Context) -> list[FollowUp]:
        """Record what a message and its answer promise, and close what they show to be done.

        A turn that promises nothing costs at most one read.
        """
        request, now = ctx.request, self.now()
        text = request.event.content
        if request.event.id is None or text.startswith(_SCHEDULED) or commands.parse(text) is not None:
            return []
        is_owner = request.access.level == "owner"
        hours = await asyncio.to_thread(Hours.of, self._config)
        said: list[tuple[Speaker, str]] = [("owner" if is_owner else "other", text)]
        if ctx.result is not None:
            said.append(("agent", ctx.result.response.content))
        ids_: dict[Speaker, str | None] = {said[0][0]: request.event.id}
        is_changed = False
        standing = await self.load("open") if any(may_tell(each) for _, each in said) else []
        new: list[NewFollowUp] = []
        for speaker, each in said:
            kept: list[FollowUp] = []
            if standing:
                kept = await asyncio.to_thread(
                    find_kept,
                    each,
                    _leave_out_others(standing, speaker, request),
                    speaker=speaker,
                    thread_id=request.event.thread_id,
                )
            found = await asyncio.to_thread(
                find_promises, each, speaker=speaker, said_at=now, zone=hours.zone
            )
            if speaker == "agent" and (kept or found):
                ids_["agent"] = await self._find_answer(request, ctx.result)
            event_id = ids_.get(speaker)
            if event_id is None or not (kept or found):
                continue
            done = [one.id for one in kept if one.event_id != event_id]
            await self._ledgers.memory.write(
                follow_ups.close, done, "done", now=clock.timestamp(now), event_id=event_id
            )
            is_changed |= bool(done)
            name = "" if is_owner else await self.find_sender_name(request)
            new += [
                _build(request, event_id, number, promise, speaker, now, hours, name)
                for number, promise in enumerate(found)
            ]
        if new:
            new = [await self._resolve_names(each) for each in new]
            await self._ledgers.memory.write(follow_ups.add, new)
        if is_changed or any(each.raise_at for each in new):
            await self.set_alarm()
        return await self.raise_of_person(ctx, hours, now) if not is_owner else []

    async def raise_of_person(self, ctx: Context, hours: Hours, now: datetime) -> list[FollowUp]:
        """Take what is open with the person who writes, unless it is quiet or enough was raised today."""
        entity_id, event_id = ctx.request.principal_id, ctx.request.event.id
        if entity_id is None or event_id is None or not await self._may_raise(ctx, hours, now):
            return []
        return await self._ledgers.memory.write(
            follow_ups.take_of_person,
            by=ctx.invocation_id,
            entity_id=entity_id,
            before=ctx.request.created_at,
            until=clock.timestamp(now + _SOON),
            now=clock.timestamp(now),
        )

    async def raise_due(self, ctx: Context) -> list[FollowUp]:
        """Take what is to be raised now; in quiet hours, or if enough was raised, later."""
        hours, now = await asyncio.to_thread(Hours.of, self._config), self.now()
        if not await self._may_raise(ctx, hours, now):
            await self.set_alarm()
            return []
        found = await self._ledgers.memory.write(
            follow_ups.take_due, by=ctx.invocation_id, now=clock.timestamp(now)
        )
        await self.set_alarm()
        return found

    async def set_alarm(self) -> None:
        """Let the schedule fire when the next follow-up is to be raised."""
        first = await self._ledgers.memory.read(follow_ups.find_next)
        if first is None or not self._config.followups.most_a_day:
            return
        hours, now = await asyncio.to_thread(Hours.of, self._config), self.now()
        at = max(clock.parse(first), now + timedelta(seconds=1))
        if at <= now + timedelta(minutes=1) and await self._has_raised_enough(hours, now, by=""):
            at = (hours.midnight(now) + timedelta(days=1, hours=_DAY_BEGINS.hour)).astimezone(UTC)
        at = hours.leave_quiet(at, at, at)
        alarm = NewAutomation(
            name=ALARM,
            script_path=f"{IN_PROCESS}{NAME}",
            script_hash=None,
            hook_point=SCHEDULE,
            description="Raises follow-ups before they are due.",
            mode="once",
            triggers={"at": clock.timestamp(at.replace(microsecond=0)), "zone": hours.zone},
            blocking=False,
            retries=RETRIES,
        )
        write = registration.writer(self._ledgers)
        await asyncio.to_thread(registration.register, self._ledgers.home, write, alarm)

    async def reply(self, found: Sequence[FollowUp], opening: str) -> list[dict[str, str]]:
        """Write the messages that raise some follow-ups, one for each conversation of the owner's."""
        by_thread: dict[str | None, list[FollowUp]] = defaultdict(list)
        for each in found:
            by_thread[each.reply_thread_id].append(each)
        hours = await asyncio.to_thread(Hours.of, self._config)
        replies: dict[tuple[str, str], list[str]] = defaultdict(list)
        for thread_id, ours in by_thread.items():
            place = thread_id and await self._ledgers.events.read(events.thread, thread_id=thread_id)
            replies[place or (_CLI, _MAIN)] += [f"- {describe(each, hours.zone)}" for each in ours]
        return [
            {"channel": channel, "session": session, "text": "\n".join((opening, *lines))}
            for (channel, session), lines in replies.items()
        ]

    async def _may_raise(self, ctx: Context, hours: Hours, now: datetime) -> bool:
        return not hours.is_quiet(now) and not await self._has_raised_enough(hours, now, by=ctx.invocation_id)

    async def _has_raised_enough(self, hours: Hours, now: datetime, *, by: str) -> bool:
        since = clock.timestamp(hours.midnight(now).astimezone(UTC))
        count = await self._ledgers.memory.read(follow_ups.count_messages, since=since, by=by)
        return count >= self._config.followups.most_a_day

    async def find_sender_name(self, request: Request) -> str:
        """Find what the memory calls whoever wrote."""
        names = await load_entity_names(self._ledgers, [request.principal_id])
        return names.get(request.principal_id or "") or request.event.sender_id or "Somebody"

    async def _find_answer(self, request: Request, result: Result | None) -> str | None:
        """Find the message that the answer was sent as."""
        if request.event.channel is None or result is None:
            return None
        found = await self._ledgers.events.read(
            events.find_by_external_id, channel=request.event.channel, external_id=result.execution_id
        )
        return found and found.id

    async def _resolve_names(self, new: NewFollowUp) -> NewFollowUp:
        """Link a name to the one entity that it means, if there is one."""

        async def resolve(name: str | None, known: str | None) -> str | None:
            if known or not name:
                return known
            found = await self._ledgers.identity.read(senders.find_named, name)
            return found[0][0] if len(found) == 1 else None

        return replace(
            new,
            promiser_entity_id=await resolve(new.promiser_name, new.promiser_entity_id),
            recipient_entity_id=await resolve(new.recipient_name, new.recipient_entity_id),
        )


def _leave_out_others(standing: list[FollowUp], speaker: Speaker, request: Request) -> list[FollowUp]:
    """Leave out the promises of others: nobody but the owner says of them that they are done."""
    if speaker != "other":
        return standing
    own = request.principal_id
    return [each for each in standing if own is not None and each.promiser_entity_id == own]


def describe(found: FollowUp, zone: str) -> str:
    """Describe a follow-up in a line: who promised it to whom, in which words, by when."""
    due = f" Due {format_due(found.due_at, zone)}." if found.due_at else ""
    text = join_lines(found.promise)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    whom = f"promised {found.recipient_name}" if found.recipient_name else "said"
    whose = {
        "owner": f"You {whom}",
        "agent": "I took on",
        "other": f"{found.promiser_name or 'Somebody'} {whom}",
    }
    return f"{whose[found.promiser]}: “{text}”{due} [{found.id[-6:]}]"


def format_due(due_at: str, zone: str) -> str:
    """Format a due date; the end of a day is that day."""
    local = clock.parse(due_at).astimezone(ZoneInfo(zone))
    is_day = (local.hour, local.minute) == (23, 59)
    return f"{local:%A} {local:%Y-%m-%d}" + ("" if is_day else f" {local:%H:%M}")


def _build(
    request: Request,
    event_id: str,
    number: int,
    promise: Promise,
    speaker: Speaker,
    said_at: datetime,
    hours: Hours,
    sender_name: str,
) -> NewFollowUp:
    is_owner = request.access.level == "owner"
    by: dict[Who, Promiser] = {"speaker": speaker, "agent": "agent", "named": "other"}
    promiser = by[promise.who]
    writer = None if is_owner else request.principal_id
    entity_id = writer if promiser == "other" and promise.who == "speaker" else None
    to_you = promise.recipient == "you"
    # Whoever an agent answers is whom it promises something to.
    recipient_id = writer if speaker == "agent" and to_you else None
    name = promise.name or (sender_name if entity_id else None)
    # In company the owner's memory is cut down: there nothing is raised.
    is_private = is_owner and request.access.memory == "all"
    raise_at = hours.choose_moment(promise.due, promiser, said_at) if promise.due else None
    return NewFollowUp(
        id=ids.derived("fup", event_id, f"{number}:{promise.who}"),
        event_id=event_id,
        reply_thread_id=request.event.thread_id if is_private else None,
        source_request_id=request.request_id,
        promiser=promiser,
        promiser_entity_id=entity_id,
        promiser_name=name,
        recipient_entity_id=recipient_id,
        recipient_name=(sender_name if recipient_id else None) if to_you else promise.recipient or None,
        promise=promise.text,
        due_at=clock.timestamp(hours.end(promise.due)) if promise.due else None,
        raise_at=raise_at and clock.timestamp(raise_at),
        created_at=clock.timestamp(said_at),
    )


async def run(ctx: Context, own: FollowUps) -> dict[str, Any] | None:
    """Work on a message at `finalize`, and on what is due at the schedule."""
    if ctx.hook_point == SCHEDULE:
        found = await own.raise_due(ctx)
        return {"reply": await own.reply(found, "Still open:")} if found else None
    found = await own.record(ctx)
    if not found:
        return None
    opening = f"{await own.find_sender_name(ctx.request)} wrote. Still open:"
    return {"reply": await own.reply(found, opening)}
