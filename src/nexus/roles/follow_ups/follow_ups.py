"""Follow-ups: record promises, close them when they are kept, and raise what is open once, at its time.

One automation does all of it. At `finalize` it reads the message and its answer; as the schedule
`follow-ups-due`, which always stands at the next moment to raise something, it tells the owner.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from nexus import clock, commands, ids
from nexus.automations import registration, reminders, when
from nexus.automations.context import Context
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.scripts.script import IN_PROCESS
from nexus.config import Config
from nexus.context.wrapping import split_quotes
from nexus.ledgers import Ledgers, events
from nexus.ledgers.identity import senders
from nexus.ledgers.memory import follow_ups
from nexus.ledgers.memory.follow_ups import FollowUp, NewFollowUp, Promiser, Status
from nexus.ledgers.runtime.automations import NewAutomation
from nexus.memory.languages import speech
from nexus.memory.languages.lexicon import lexicon, stem
from nexus.memory.views.names import load_entity_names
from nexus.request import Request
from nexus.roles.follow_ups import ALARM, NAME
from nexus.roles.follow_ups.promises import Due, Promise, Speaker, Who, find_promises
from nexus.runs import Result
from nexus.text import join_lines

_WORD: Final = re.compile(r"\w[\w-]*")
_SELF: Final = re.compile(r"\b(?:i|we|i've|we've)\b", re.IGNORECASE)
_PRONOUN: Final = re.compile(r"\b(?:it|that|this|them|those|him|her)\b", re.IGNORECASE)
_PASSIVE: Final = re.compile(r"\b(?:is|are|was|were|been)(?: now| already| finally)? \w+", re.IGNORECASE)
_FUTURE: Final = re.compile(
    r"\b(?:will|'ll|shall|going to|gonna|would|should|might|tomorrow)\b", re.IGNORECASE
)
_LONGEST: Final = 20_000
# Words of a promise that say nothing about what is promised.
_EMPTY: Final = frozenset(
    {"promis", "told", "said", "say", "tell", "back", "ok", "okay", "sure", "hi", "hey", "yes", "get", "go"}
    | {"let", "know", "have", "will", "would", "also", "thing", "as"}
)


@dataclass(frozen=True, slots=True)
class _Words:
    """The stems of a sentence, and which of them are verbs of the past."""

    all: frozenset[str]
    past: frozenset[str]


def may_tell(text: str) -> bool:
    """Whether a message may show that something is done, so that it is worth loading what is open."""
    plain = speech.normalize(text[:_LONGEST])
    for code in speech.languages(plain):
        patterns = lexicon(code).promises
        if patterns and re.search(f"{patterns['arrived']}|ed\\b|\\b(?:{'|'.join(_pasts(code))})\\b", plain):
            return True
    return False


def find_kept(
    text: str, standing: Sequence[FollowUp], *, speaker: Speaker, thread_id: str | None
) -> list[FollowUp]:
    """Find the follow-ups that a message shows to be done."""
    kept: dict[str, FollowUp] = {}
    if not standing:
        return []
    for sentence in speech.sentences(split_quotes(text[:_LONGEST])[0]):
        spoken = speech.languages(sentence)
        code = next((each for each in spoken if lexicon(each).promises), None)
        if code is None or sentence.endswith("?") or _FUTURE.search(sentence):
            continue
        if speech.negates(sentence, spoken) or speech.says("hypothetical", sentence, spoken):
            continue
        left = [each for each in standing if each.id not in kept]
        for each in _find_in(sentence, left, code, speaker, thread_id):
            kept[each.id] = each
    return list(kept.values())


def _find_in(
    sentence: str, standing: Sequence[FollowUp], code: str, speaker: Speaker, thread_id: str | None
) -> list[FollowUp]:
    patterns = lexicon(code).promises
    if re.search(patterns["done"], sentence, re.IGNORECASE):
        # A bare "Done" answers what was raised last in this conversation.
        raised = [each for each in standing if each.raised_at and each.reply_thread_id in (thread_id, None)]
        newest = max((each.raised_at or "" for each in raised), default="")
        last = [each for each in raised if each.raised_at == newest]
        return last if speaker == "owner" and len(last) == 1 else []
    said = _split(sentence, code)
    arrived = re.search(patterns["arrived"], sentence, re.IGNORECASE) is not None
    if not said.past and not arrived:
        return []
    names_self = _SELF.search(sentence) is not None
    named = _find_names(sentence, code)
    strong: list[tuple[int, FollowUp]] = []
    weak: list[FollowUp] = []
    for each in standing:
        names = _find_names(f"{each.promise} {each.promiser_name or ''}", code)
        is_elsewhere = bool(named and names and not named & names)
        if is_elsewhere or not _is_actor(sentence, each, speaker, names_self=names_self, arrived=arrived):
            continue
        promised = _split(each.promise, code)
        verbs = said.past & promised.all
        topic = promised.all - _EMPTY - names - verbs
        shared = topic & said.all
        told = verbs or (arrived and each.promiser != "owner")
        if told and (shared or (not topic and named & names)):
            strong.append((len(shared) + len(named & names), each))
        elif verbs and (_PRONOUN.search(sentence) or not topic):
            weak.append(each)
    if strong:
        # One sentence tells of one promise: the likeliest, the oldest of those that are alike.
        best = max(score for score, _ in strong)
        return [min((each for score, each in strong if score == best), key=lambda each: each.created_at)]
    # "I sent it" could be about any of several.
    return weak if len(weak) == 1 else []


def _is_actor(sentence: str, found: FollowUp, speaker: Speaker, *, names_self: bool, arrived: bool) -> bool:
    """Whether a sentence is about the one who promised."""
    if speaker == "agent":
        return found.promiser == "agent" and names_self
    if speaker == "other":
        return found.promiser == "other"
    name = (found.promiser_name or "").split()
    is_named = bool(name) and re.search(rf"\b{re.escape(name[-1])}\b", sentence, re.IGNORECASE) is not None
    if found.promiser == "owner":
        return names_self or _names_nobody(sentence) or _PASSIVE.search(sentence) is not None
    return arrived or (found.promiser == "other" and is_named)


def _find_names(sentence: str, code: str) -> frozenset[str]:
    """Find the stems of the words with a capital that are neither function words, days nor verbs."""
    known = lexicon(code)
    left_out = known.function_words | known.time_words | _pasts(code).keys() | known.nobody
    words = (word.lower() for word in _WORD.findall(sentence) if word[0].isupper())
    return (
        frozenset(stem(word, code) for word in words if word not in left_out and not word.endswith("ed"))
        - _EMPTY
    )


def _names_nobody(sentence: str) -> bool:
    """Whether a sentence has no subject but its speaker: "Sent Jonas the slides"."""
    first = next(iter(_WORD.findall(speech.normalize(sentence))), "")
    return first in _pasts("en") or first.endswith("ed") or first in {"just", "already", "finally"}


def _split(sentence: str, code: str) -> _Words:
    known = lexicon(code)
    empty = known.function_words | known.time_words
    irregular = _pasts(code)
    found: set[str] = set()
    past: set[str] = set()
    for word in _WORD.findall(speech.normalize(sentence)):
        if word in empty and word not in irregular:
            continue
        base = irregular.get(word, word)
        own = stem(base, code)
        found.add(own)
        if word in irregular or word.endswith("ed"):
            past.add(own)
    return _Words(frozenset(found), frozenset(past))


@cache
def _pasts(code: str) -> dict[str, str]:
    """Past forms with their verbs."""
    pairs = (pair.split(":") for pair in lexicon(code).promises.get("past", "").split())
    return {form: base for base, forms in pairs for form in forms.split(",")}


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
    quiet: when.QuietHours | None

    @classmethod
    def of(cls, config: Config) -> "Hours":
        zone = reminders.find_zone(config.automations)
        return cls(zone=zone, quiet=when.parse_hours(config.followups.quiet_hours, zone))

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
