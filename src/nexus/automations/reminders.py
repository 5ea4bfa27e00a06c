"""Reminders: automations that people and agents make with words, and that run by the clock.

A reminder says its text at its time, or asks the agent to answer it, where it was made. It is a row of the
one table like every automation, so it is listed, paused and deleted like one.

The functions wait for the disk: in a program with an event loop they belong on a thread.
"""

import asyncio
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import apsw

from nexus import clock
from nexus.automations import hook_points, registration, registry, when
from nexus.automations.hook_points import SCHEDULE
from nexus.automations.registration import Write
from nexus.automations.scripts.script import IN_PROCESS, SANDBOX
from nexus.automations.when import TimeError, When
from nexus.config import AutomationsConfig
from nexus.errors import AutomationError, MissingError, UsageError
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.agents import sessions
from nexus.ledgers.runtime import automations
from nexus.ledgers.runtime.automations import Automation, NewAutomation

SCRIPT: Final = f"{IN_PROCESS}reminder"
"""The script path of every reminder: the code comes with Nexus, the row says what and when."""
MOST: Final = 200
"""How many may be active: an agent that makes them in a loop is stopped."""
_MOST_CHARACTERS: Final = 4_000
_RETRIES: Final = 3
_NAME: Final = "reminder"
_ME: Final = r"(?:please\s+)?(?:remind\s+)?me\s+"
# What leads over from the time to the text, and what tells a task for the agent from a text to be said.
_LEADS: Final = re.compile(rf"^(?:{_ME})?(?:(?:to|that|about)\s+|[^\w\s\"'(]\s*)?", re.IGNORECASE)
_SAID: Final = re.compile(rf"^(?:{_ME})?(?:to|that|about)\s", re.IGNORECASE)
_ASKS: Final = re.compile(
    r"^(?:please\s+)?(?:(?:tell|show|send|give|read|write|list|find|get|bring)\s+me\b|summari[sz]e\b"
    r"|look up\b|find out\b|report\b|what\b|what's\b|which\b|who\b|how\b|where\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a reminder was asked for, and by whom: it arrives there, with the rights that person has then."""

    channel: str
    thread: str
    """What the channel calls the conversation."""
    session: str
    sender: str
    is_owner: bool
    address: str = ""
    """How the channel named the owner. They have the owner's rights for as long as the settings say so."""
    is_group: bool = False
    """Whether others read along."""
    thread_id: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reminder:
    """A saved reminder, as people see it."""

    name: str
    text: str
    asks: bool
    """Whether the agent answers the text; otherwise the text itself is said."""
    when: str
    next_at: str | None
    state: str
    """active, paused, done or missed."""
    session: str
    channel: str
    made_by: str
    created_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A reminder that is not saved yet."""

    text: str
    when: When
    asks: bool
    """Whether the agent is asked to answer the text; otherwise the text itself is said."""

    def describe(self, now: datetime) -> tuple[str, ...]:
        """What a person approves: the time with its zone, and what happens then."""
        triggers = self.when.triggers
        said = when.describe(triggers)
        first = said[:1].upper() + said[1:]
        following = "" if self.when.at else f" Next: {when.describe_next(triggers, now)}."
        return (f"{first}.{following}", f"{'The agent answers' if self.asks else 'Nexus says'}: {self.text}")


def read_draft(words: str, now: datetime, zone: str, *, asks: bool | None = None) -> Draft:
    """The reminder that words ask for, such as `in two hours call Anna`."""
    found = when.find(re.sub(rf"^{_ME}", "", words.strip(), flags=re.IGNORECASE), now, zone)
    return build_draft(found.rest, found.when, asks=asks)


def build_draft(text: str, at: When, *, asks: bool | None = None) -> Draft:
    """A reminder of a text at a time."""
    is_said = _SAID.match(text.strip()) is not None
    text = _LEADS.sub("", text.strip()).strip()
    if not text:
        raise TimeError(
            "A reminder needs some text", hint="Add it to the time, such as `in two hours call Anna`."
        )
    if len(text) > _MOST_CHARACTERS:
        raise AutomationError(f"A reminder has at most {_MOST_CHARACTERS:,} characters, not {len(text):,}")
    return Draft(
        text=text, when=at, asks=asks if asks is not None else not is_said and bool(_ASKS.match(text))
    )


def save(
    home: Home, write: Write, new: Draft, place: Place, *, agent: str | None = None, key: str | None = None
) -> Automation:
    """Register a reminder. What is saved again under the same key is the same."""
    made: Automation = write(_save, new=new, place=place, agent=agent, key=key)
    registry.touch(home)
    return made


def load_rows(connection: apsw.Connection) -> list[Automation]:
    """Every reminder that was not deleted, in the order in which they were made."""
    found = [each for each in automations.list_current(connection) if each.script_path == SCRIPT]
    return sorted(found, key=lambda each: each.id)


def find(connection: apsw.Connection, said: str) -> str:
    """The name of the reminder that somebody means: by that name, by its words, or by some of them."""
    rows = load_rows(connection)
    if any(row.name == said for row in rows):
        return said
    texts = {row.name: str(row.config.get("text", "")).casefold() for row in rows}
    words = said.casefold().strip()
    part = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
    found = [row for row in rows if texts[row.name] == words]
    found = found or [row for row in rows if part.search(texts[row.name])]
    # Those that are over stay in the list.
    found = [row for row in found if state_of(row) in {"active", "paused"}] or found
    if not found:
        raise MissingError(f"No reminder matches `{said}`", hint="List them with `nexus remind list`.")
    if len(found) > 1:
        names = ", ".join(f"{row.name} ({when.describe(row.triggers)})" for row in found)
        raise UsageError(f"{len(found)} reminders match `{said}`", hint=f"Pass one of these names: {names}.")
    return found[0].name


def change(home: Home, write: Write, name: str, to: str, now: datetime) -> Automation:
    """Pause, resume or delete a reminder. What was due once and has passed is not resumed."""
    made: Automation = write(_change, name=name, to=to, now=now)
    registry.touch(home)
    return made


def describe_row(row: Automation, now: datetime) -> Reminder:
    """A reminder as people see it."""
    due = hook_points.upcoming(row.triggers, now) if row.status == "active" else None
    return Reminder(
        name=row.name,
        text=str(row.config.get("text", "")),
        asks=bool(row.config.get("asks")),
        when=when.describe(row.triggers),
        next_at=due and clock.timestamp(due),
        state=state_of(row),
        session=str(row.config.get("session", "")),
        channel=str(row.config.get("channel", "")),
        made_by=row.created_by_agent or str(row.config.get("sender", "")),
        created_at=row.created_at,
    )


def state_of(row: Automation) -> str:
    """`active`, `paused`, `done`, or `missed` where the settings say that what was missed is skipped."""
    if row.status == "active":
        return "active"
    if row.mode == "once" and row.trigger_count:
        return "done"
    return "missed" if (row.disabled_reason or "").startswith("missed") else "paused"


class Reminders:
    """The reminders of an open home."""

    def __init__(self, ledgers: Ledgers, settings: AutomationsConfig, now: clock.Clock = clock.now) -> None:
        self._ledgers = ledgers
        self._settings = settings
        self.now = now

    async def zone(self) -> str:
        """The time zone in which words are read."""
        return await asyncio.to_thread(find_zone, self._settings)

    async def draft(self, words: str) -> Draft:
        return await asyncio.to_thread(read_draft, words, self.now(), await self.zone())

    async def read(self, at: str, text: str, *, asks: bool) -> Draft:
        """A reminder whose time and text are given apart."""
        zone = await self.zone()
        return build_draft(text, await asyncio.to_thread(when.read, at, self.now(), zone), asks=asks)

    async def save(
        self, new: Draft, place: Place, *, agent: str | None = None, key: str | None = None
    ) -> Automation:
        session = await self._ledgers.agents.read(sessions.get, label=place.session)
        known = replace(place, session_id=session and session.id)
        write = registration.writer(self._ledgers)
        return await asyncio.to_thread(save, self._ledgers.home, write, new, known, agent=agent, key=key)

    async def load_all(self) -> list[Reminder]:
        return [describe_row(row, self.now()) for row in await self._ledgers.runtime.read(load_rows)]

    async def change(self, name: str, to: str) -> Automation:
        write = registration.writer(self._ledgers)
        return await asyncio.to_thread(change, self._ledgers.home, write, name, to, self.now())


def find_zone(settings: AutomationsConfig) -> str:
    """The time zone of the settings, or that of this machine."""
    return when.check_zone(settings.zone) if settings.zone else when.local_zone()


def _save(
    connection: apsw.Connection, new: Draft, place: Place, agent: str | None, key: str | None
) -> Automation:
    standing = load_rows(connection)
    if key is not None and (same := next((e for e in standing if e.config.get("key") == key), None)):
        return same
    if sum(each.status == "active" for each in standing) >= MOST:
        raise AutomationError(
            f"You already have {MOST} active reminders",
            hint="Delete some: `nexus remind list`, `nexus remind delete`.",
        )
    config: dict[str, Any] = {
        "text": new.text,
        "asks": new.asks,
        "channel": place.channel,
        "thread": place.thread,
        "session": place.session,
        "sender": place.sender,
        "is_owner": place.is_owner,
        "address": place.address,
        "is_group": place.is_group,
        SANDBOX: False,  # an agent may have made it, and its code is ours
        **({} if key is None else {"key": key}),
    }
    registered = NewAutomation(
        name=_free_name(connection),
        script_path=SCRIPT,
        script_hash=None,
        hook_point=SCHEDULE,
        description=new.text,
        mode="once" if new.when.at else "persistent",
        triggers=new.when.triggers,
        config=config,
        blocking=False,
        retries=_RETRIES,
        created_by_agent=agent,
        created_by_session=place.session_id,
        created_by_thread=place.thread_id,
    )
    registration.check(registered)
    return automations.register(connection, registered)


def _free_name(connection: apsw.Connection) -> str:
    """Numbered: a name outlives what is forgotten, so it says nothing of the text."""
    number = automations.count_names(connection, f"{_NAME}-") + 1
    while automations.versions(connection, f"{_NAME}-{number}"):
        number += 1
    return f"{_NAME}-{number}"


def _change(connection: apsw.Connection, name: str, to: str, now: datetime) -> Automation:
    found = automations.get(connection, name)
    if found is None or found.script_path != SCRIPT:
        raise MissingError(f"No reminder named `{name}`", hint="List them with `nexus remind list`.")
    match to:
        case "pause":
            automations.disable(connection, found.id, "paused")
        case "resume":
            if at := found.triggers.get("at"):
                when.require_future(clock.parse(str(at)), now, str(found.triggers.get("zone", "UTC")))
            automations.enable(connection, found.id)
        case _:
            automations.remove(connection, found.name)
    return found
