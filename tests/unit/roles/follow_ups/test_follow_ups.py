"""Follow-ups in a home: recorded from messages and answers, raised once at their time, closed when kept."""

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from installed import Clock
from nexus import clock as clocks
from nexus import ids
from nexus.automations.context import Context
from nexus.automations.hook_points import SCHEDULE
from nexus.config import AutomationsConfig, Config, FollowupsConfig
from nexus.errors import MissingError
from nexus.ledgers import Ledgers, events, forgetting
from nexus.ledgers.events import NewEvent
from nexus.ledgers.forgetting import Target
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.ledgers.runtime import automations
from nexus.request import Access, Event, Request
from nexus.roles.follow_ups.follow_ups import FollowUps, describe, run
from nexus.runs import Response, Result

ZONE = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 16, 10, 0, tzinfo=ZONE)
_REFERENCE = re.compile(r"\[(\w{6})\]$", re.MULTILINE)


@dataclass
class Life:
    """A home whose owner and friends write at times that a test sets, without an engine and a model."""

    ledgers: Ledgers
    settings: FollowupsConfig = field(default_factory=FollowupsConfig)
    clock: Clock = field(default_factory=lambda: Clock(MONDAY))
    sent: list[tuple[datetime, str]] = field(default_factory=list[tuple[datetime, str]])

    @property
    def own(self) -> FollowUps:
        config = Config(automations=AutomationsConfig(zone="Europe/Berlin"), followups=self.settings)
        return FollowUps(self.ledgers, config, self.clock)

    async def say(
        self, text: str, *, by: str = "owner", answer: str = "", thread: str = "main", private: bool = True
    ) -> str:
        """Record a message and its answer, and let the automation work on them; returns the event's id."""
        is_owner, execution_id = by == "owner", ids.new("exe")
        channel = "cli" if is_owner else "telegram"
        thread_id = await self.ledgers.events.write(
            events.ensure_thread, channel=channel, external_id=thread if is_owner else by
        )
        place: dict[str, Any] = {"channel": channel, "thread_id": thread_id}
        heard = NewEvent(content=text, sender=by, **place)
        said = NewEvent(content=answer, direction="outbound", external_id=execution_id, **place)
        (event_id, *_) = await self.ledgers.events.write(events.append, [heard, *([said] if answer else [])])
        seen = Seen(channel=channel, identifier=by, display_name=by, is_owner=is_owner)
        who = await self.ledgers.identity.write(senders.resolve, seen)
        access = Access(
            level="owner" if is_owner else "known", memory="all" if is_owner and private else "own"
        )
        event = Event(id=event_id, content=text, sender_id=by, **place)
        request = Request(
            event=event,
            principal_id=who.entity_id,
            access=access,
            created_at=clocks.timestamp(self.clock()),
        )
        result = Result(execution_id=execution_id, response=Response(content=answer)) if answer else None
        await self._run(request, "finalize", ids.new("inv"), result)
        return event_id

    async def pass_time(self, until: datetime) -> None:
        """Let the schedule fire until a moment."""
        while (at := await self.alarm()) is not None and at <= until:
            self.clock.at = at
            await self.ring(ids.new("inv"))
        self.clock.at = until

    async def ring(self, invocation_id: str) -> None:
        """Fire the schedule; it stands at another time from then on, or is over."""
        row = await self.ledgers.runtime.read(automations.get, "follow-ups-due")
        assert row is not None
        event = Event(content=str(row.triggers["at"]), channel="cli")
        await self._run(Request(event=event, access=Access(level="owner")), SCHEDULE, invocation_id)
        standing = await self.ledgers.runtime.read(automations.get, "follow-ups-due")
        if standing is not None and standing.id == row.id:
            await self.ledgers.runtime.write(automations.disable, row.id, "it was to run once, and did")

    async def alarm(self) -> datetime | None:
        row = await self.ledgers.runtime.read(automations.get, "follow-ups-due")
        return clocks.parse(row.triggers["at"]) if row and row.status == "active" else None

    async def _run(
        self, request: Request, hook_point: str, invocation_id: str, result: Result | None = None
    ) -> None:
        row = await self.ledgers.runtime.read(automations.get, "follow-ups-due")
        ctx = Context(
            request=request,
            automation=row,  # pyright: ignore[reportArgumentType] - it has no settings that are read
            hook_point=hook_point,
            invocation_id=invocation_id,
            result=result,
            now=self.clock,
        )
        returned = await run(ctx, self.own)
        self.sent += [(self.clock(), reply["text"]) for reply in (returned or {}).get("reply", [])]


@pytest.fixture
def life(opened: Ledgers) -> Life:
    return Life(opened)


async def test_a_promise_is_raised_once_on_the_morning_of_its_day(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.")
    (found,) = await life.own.load()
    assert (found.promiser, found.recipient_name) == ("owner", "Jonas")
    assert describe(found, "Europe/Berlin").startswith("You promised Jonas: “I'll send Jonas the slides")
    await life.pass_time(MONDAY + timedelta(days=5))
    ((at, text),) = life.sent
    assert at == datetime(2026, 11, 17, 9, 0, tzinfo=ZONE)
    assert text.splitlines()[0] == "Still open:"
    assert found.id[-6:] in text


async def test_what_a_message_shows_to_be_done_is_not_raised(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.")
    life.clock.forward(hours=2)
    event_id = await life.say("I sent Jonas the slides.")
    (found,) = await life.own.load()
    assert (found.status, found.closed_by_event_id) == ("done", event_id)
    await life.pass_time(MONDAY + timedelta(days=5))
    assert life.sent == []


async def test_done_answers_what_was_raised_last(life: Life) -> None:
    await life.say("I'll call the bank on Tuesday.")
    await life.pass_time(MONDAY + timedelta(days=1))
    await life.say("Done!")
    assert [each.status for each in await life.own.load()] == ["done"]


async def test_the_answers_promise_is_linked_to_the_answer(life: Life) -> None:
    await life.say("Is the flight cheaper now?", answer="Not yet. I'll check again on Friday and tell you.")
    (found,) = await life.own.load()
    assert found.promiser == "agent"
    event = await life.ledgers.events.read(events.get, found.event_id)
    assert event is not None
    assert event.direction == "outbound"


async def test_an_answer_that_promises_nothing_leaves_nothing(life: Life) -> None:
    await life.say("Is the flight cheaper now?", answer="No, it costs 120 euros.")
    assert await life.own.load() == []


async def test_the_owner_is_told_what_is_open_when_its_person_writes(life: Life) -> None:
    await life.say("I'll look for the photos and send them to you", by="Jonas")
    life.clock.forward(days=1)
    await life.say("Good morning", by="Jonas")
    await life.say("How are you?", by="Jonas")
    ((_, text),) = life.sent
    (found,) = await life.own.load()
    assert text.splitlines() == [
        "Jonas wrote. Still open:",
        f"- Jonas said: “I'll look for the photos and send them to you” [{found.id[-6:]}]",
    ]


async def test_a_guest_closes_no_promises_but_their_own(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.")
    await life.say("I'll send the photos tomorrow", by="Jonas")
    await life.say("Here are the slides, and I sent the slides", by="Mallory")
    assert [each.status for each in await life.own.load()] == ["open", "open"]
    await life.say("I sent the photos", by="Jonas")
    assert sorted(each.status for each in await life.own.load()) == ["done", "open"]


async def test_nothing_is_raised_in_company(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.", thread="group", private=False)
    (found,) = await life.own.load()
    assert found.reply_thread_id is None


async def test_what_is_due_in_quiet_hours_is_raised_before_them(life: Life) -> None:
    await life.say("I'll call Ada tonight at 22:30.")
    await life.pass_time(MONDAY + timedelta(days=2))
    ((at, _),) = life.sent
    assert at.astimezone(ZONE).date() == MONDAY.date()
    assert at.astimezone(ZONE).time() <= time(21)


async def test_a_repeated_invocation_sends_the_same(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.")
    life.clock.at = MONDAY + timedelta(days=1)
    for _ in range(2):  # as after a crash before its message was sent
        await life.ring("inv_1")
    assert len(life.sent) == 2
    assert life.sent[0] == life.sent[1]
    await life.ring("inv_2")
    assert len(life.sent) == 2


async def test_a_message_that_is_worked_on_again_is_recorded_once(life: Life) -> None:
    event_id = await life.say("I'll send Jonas the slides tomorrow.")
    event = await life.ledgers.events.read(events.get, event_id)
    assert event is not None
    request = Request(
        event=Event(id=event_id, content=event.content, channel="cli"), access=Access(level="owner")
    )
    await life._run(request, "finalize", "inv_1")  # pyright: ignore[reportPrivateUsage]
    assert len(await life.own.load()) == 1


async def test_later_raises_it_again_and_wrong_never(life: Life) -> None:
    await life.say("I'll send Jonas the slides tomorrow.")
    await life.say("I'll pay the rent tomorrow.")
    await life.pass_time(MONDAY + timedelta(days=1))
    assert len(life.sent) == 1
    slides, rent = sorted(await life.own.load(), key=lambda each: each.promise, reverse=True)
    await life.own.postpone(slides.id[-6:].lower(), "tomorrow at 15:00")
    await life.own.close(rent.id, "wrong")
    await life.pass_time(MONDAY + timedelta(days=5))
    assert [at for at, _ in life.sent[1:]] == [datetime(2026, 11, 18, 15, 0, tzinfo=ZONE)]
    with pytest.raises(MissingError, match="Unknown follow-up"):
        await life.own.close("NOSUCH", "done")


async def test_forgetting_the_message_forgets_the_promise(life: Life) -> None:
    event_id = await life.say("I'll send Jonas the slides tomorrow.")
    event = await life.ledgers.events.read(events.get, event_id)
    assert event is not None
    target = Target(kind="thread", value=event.thread_id or "")
    await forgetting.forget(life.ledgers, target, actor="test")
    assert await life.own.load() == []


async def test_thirty_days(life: Life) -> None:
    """Every due one is raised once, none in quiet hours, none after it was done, at most three a day."""
    chance = random.Random(43)
    begin, end = datetime.combine(MONDAY.date(), time(), ZONE), MONDAY + timedelta(days=30)
    done: set[str] = set()
    minutes = [day * 1440 + minute for day in range(30) for minute in sorted(chance.sample(range(1440), 3))]
    for minute in minutes:
        await life.pass_time(begin + timedelta(minutes=minute))
        known = {each.id for each in await life.own.load()}
        is_own = chance.random() < 0.5
        who = chance.choice(["Jonas", "Priya", "Sam"])
        thing = f"{chance.choice(['slides', 'contract', 'photos', 'invoice', 'keys'])} {minute}"
        due = chance.choice(["tomorrow", "tonight", "on Friday", "in three days", "on Monday at 7"])
        begun = f"I'll send {who}" if is_own else f"{who} said he'd send me"
        await life.say(f"{begun} the {thing} {due}.")
        (new,) = [each for each in await life.own.load() if each.id not in known]
        if chance.random() < 0.3:
            life.clock.forward(minutes=5)
            await life.say(f"I sent {who} the {thing}." if is_own else f"{who} sent me the {thing}.")
            done.add(new.id)
    await life.pass_time(end)
    found = {each.id: each for each in await life.own.load()}
    references = [short for _, text in life.sent for short in _REFERENCE.findall(text)]
    raised = Counter(next(id_ for id_ in found if id_.endswith(short)) for short in references)
    open_ = {each.id for each in found.values() if each.status == "open"}
    due_ids = {each.id for each in found.values() if each.raise_at and clocks.parse(each.raise_at) < end}
    assert len(found) == 90
    assert (len(done), open_) == (len(found) - len(open_), found.keys() - done)
    assert raised == Counter(due_ids & open_)
    local = [at.astimezone(ZONE) for at, _ in life.sent]
    assert all(time(8) <= at.time() < time(21) for at in local)
    assert max(Counter(at.date() for at in local).values()) <= 3
