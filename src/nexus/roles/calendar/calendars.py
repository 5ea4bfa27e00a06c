"""Calendars in the home: each event is one fact, and the next version of it replaces the last.

A calendar is a thread of the events ledger. Each version of an event is a note in it, which the fact rests
on. What was read is in the thread's metadata, so that a restored home knows what it has: hashes of addresses,
versions, times and ids, and no text, so that nothing of what was forgotten is in it.
"""

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import apsw

from nexus import clock, ids
from nexus.automations import reminders
from nexus.config import CalendarConfig, Config
from nexus.errors import MissingError, NexusError, UsageError
from nexus.history import parser_process
from nexus.history.importer import Met, People
from nexus.history.items import Card, Person
from nexus.history.mime import Series
from nexus.history.parser_process import UnreadableError
from nexus.home import Home
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import NewEvent
from nexus.memory.normalisation import normalize
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance
from nexus.roles.calendar import wording
from nexus.roles.calendar.server import Collection, Kind, Resource, Server, no_calendars
from nexus.text import pluralize

CHANNEL: Final = "calendar"
_BATCH: Final = 100
_AHEAD: Final = timedelta(days=92)
"""How far ahead the instances of a series are known; it is expanded again when a third of that is left."""
_MOST_PEOPLE: Final = 20
_WAIT_S: Final = 0.1
_FILE: Final = "file"


@dataclass(kw_only=True, slots=True)
class Entry:
    """One event or contact as it was last read."""

    collection: str
    etag: str
    kind: Kind = "events"
    fact: str = ""
    """The fact that says it. None: nothing was written, as its text is refused or it was cancelled."""
    digest: str = ""
    times: list[list[str]] = field(default_factory=list[list[str]])
    """When it takes place, as far as the instances are known."""
    until: str = ""
    """Of a series: up to which day."""
    is_forgotten: bool = False


@dataclass(kw_only=True, slots=True)
class State:
    """What is known of a calendar's server."""

    tokens: dict[str, str] = field(default_factory=dict[str, str])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    synced_at: str = ""
    error: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> "State":
        value: dict[str, Any] = json.loads(text)
        entries = {key: Entry(**each) for key, each in value.pop("entries", {}).items()}
        return cls(**value, entries=entries)


@dataclass(kw_only=True, slots=True)
class Report:
    """What a sync did."""

    name: str
    new: int = 0
    changed: int = 0
    cancelled: int = 0
    unread: int = 0
    events: int = 0
    contacts: int = 0
    notes: list[str] = field(default_factory=list[str])
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """Something that takes place, and the fact that says more."""

    begin: wording.Moment
    end: wording.Moment
    fact_id: str

    def __str__(self) -> str:
        return wording.format_span(self.begin, self.end)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an event is on its server, and which version was read."""

    calendar: str
    collection: str
    url: str
    etag: str
    fact_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """A version of an entry to be written down."""

    key: str
    url: str
    text: str
    entry: Entry
    is_cancelled: bool = False
    series: Series | None = None
    card: Card | None = None


class Calendars:
    """The calendars of one home."""

    def __init__(
        self, home: Home, config: Config, ledgers: Ledgers, memory: Memory, now: clock.Clock = clock.now
    ) -> None:
        self.home = home
        self.config = config
        self.ledgers = ledgers
        self.memory = memory
        self.now = now
        self._zone: ZoneInfo | None = None
        self._held: dict[str, tuple[str, State]] = {}

    async def find_zone(self) -> ZoneInfo:
        """Find the time zone of the home."""
        if self._zone is None:
            name = await asyncio.to_thread(reminders.find_zone, self.config.automations)
            self._zone = await asyncio.to_thread(ZoneInfo, name)
        return self._zone

    def get_settings(self, name: str) -> CalendarConfig:
        """Return the settings of a calendar."""
        if name not in self.config.calendar:
            known = ", ".join(self.config.calendar) or "none"
            raise UsageError(f"Unknown calendar {name}", hint=f"Calendars in config.toml: {known}.")
        return self.config.calendar[name]

    async def sync(self, names: Iterable[str] = ()) -> list[Report]:
        """Read what changed in these calendars, or in all. Failures are in the reports."""
        reports: list[Report] = []
        wanted = tuple(names) or tuple(self.config.calendar)
        for name in wanted:
            self.get_settings(name)
        async with self._hold_lock():
            for name in wanted:
                report = Report(name=name)
                state = await self.load_state(name)
                try:
                    await _Sync(self, name, state, report).run()
                    state.error = ""
                except NexusError as error:
                    state.error = report.error = " ".join(filter(None, (f"{error.message}.", error.hint)))
                state.synced_at = state.synced_at if state.error else clock.timestamp(self.now())
                report.events = sum(each.kind == "events" for each in state.entries.values())
                report.contacts = len(state.entries) - report.events
                await self.save_state(name, state)
                reports.append(report)
        return reports

    async def load_state(self, name: str) -> State:
        """Load what is known of a calendar; a copy that may be changed."""
        row = await self.ledgers.events.read(
            sql.row, sql.queries("events")["thread_metadata"], (CHANNEL, name)
        )
        return State.load(str(row[1])) if row and row[1] != "{}" else State()

    async def save_state(self, name: str, state: State) -> None:
        """Save what is known of a calendar."""

        def save(connection: apsw.Connection) -> None:
            id_ = events.ensure_thread(
                connection, channel=CHANNEL, external_id=name, kind="document", title=name
            )
            values = {"id": id_, "metadata": state.dump(), "now": clock.timestamp(clock.now())}
            connection.execute(sql.queries("events")["set_thread_metadata"], values)

        await self.ledgers.events.write(save)

    async def find_agenda(self, begin: date, end: date) -> list[Slot]:
        """Find what takes place from one day to the day before another, by the time it begins."""
        zone = await self.find_zone()
        first, last = (wording.as_utc(day, zone) for day in (begin, end))
        before, after = f"{begin - timedelta(days=2)}", f"{end + timedelta(days=2)}"
        slots: list[Slot] = []
        for name in self.config.calendar:
            for entry in (await self._look_up(name)).entries.values():
                if not entry.fact:
                    continue
                for times in entry.times:
                    if times[1] < before or times[0] > after:
                        continue  # most are, and text is compared quickly
                    begins, ends = (wording.parse(each, zone) for each in times)
                    start, stop = wording.as_utc(begins, zone), wording.as_utc(ends, zone)
                    if start < last and (stop > first or start >= first):
                        slots.append(Slot(begin=begins, end=ends, fact_id=entry.fact))
        return sorted(slots, key=lambda slot: (wording.as_utc(slot.begin, zone), slot.fact_id))

    async def find_place(self, fact_id: str) -> Place:
        """Find the event that a fact, or one that it replaced, is about."""
        seen: str | None = fact_id.strip()
        for _ in range(_MOST_PEOPLE):
            for name in self.config.calendar:
                for entry in (await self._look_up(name)).entries.values():
                    if seen and entry.fact == seen and entry.kind == "events":
                        return await self._locate(name, entry)
            row = seen and await self.ledgers.memory.read(
                sql.row, sql.queries("memory")["fact_to_correct"], (seen,)
            )
            seen = str(row[5]) if row and row[5] else None
            if seen is None:
                break
        raise MissingError(f"{fact_id} is no event of a calendar", hint="Use the id of its fact.")

    async def list_remaining(self) -> list[str]:
        """Say how much of what was forgotten here remains on the servers; it isn't read again."""
        said: list[str] = []
        for name, settings in self.config.calendar.items():
            state = await self.load_state(name)
            facts = {entry.fact for entry in state.entries.values() if entry.fact}
            kept = await self.find_facts(facts)
            gone = [each for each in state.entries.values() if each.fact and each.fact not in kept]
            if not gone:
                continue
            for entry in gone:
                entry.fact, entry.digest, entry.times, entry.is_forgotten = "", "", [], True
            await self.save_state(name, state)
            kinds = {"event": "events", "contact": "cards"}
            counts = {word: sum(each.kind == kind for each in gone) for word, kind in kinds.items()}
            many = " and ".join(pluralize(count, word) for word, count in counts.items() if count)
            verb = "remain" if len(gone) != 1 else "remains"
            place = "in the file" if settings.kind == "ics" else "on the server"
            said.append(f"{many} {verb} {place} of the calendar {name}. Nexus doesn't read them again.")
        return said

    async def _locate(self, name: str, entry: Entry) -> Place:
        query = sql.queries("memory")["texts_of_items"]
        row = await self.ledgers.memory.read(sql.row, query, (json.dumps([entry.fact]),))
        note = await self.ledgers.events.read(events.get, event_id=str(row[2]) if row else "")
        if note is None:
            raise MissingError("The event was forgotten", hint="It is on the server still.")
        return Place(
            calendar=name,
            collection=str(note.metadata["collection"]),
            url=str(note.metadata["url"]),
            etag=entry.etag,
            fact_id=entry.fact,
        )

    async def _look_up(self, name: str) -> State:
        """Return what is known of a calendar, read again only if it changed."""
        query = sql.queries("events")["thread_updated"]
        at = str(await self.ledgers.events.read(sql.value, query, (CHANNEL, name)) or "")
        held = self._held.get(name)
        if held is None or held[0] != at:
            held = self._held[name] = at, await self.load_state(name)
        return held[1]

    async def find_facts(self, facts: Iterable[str]) -> dict[str, str]:
        """Find which facts are still there: their texts by their ids."""
        query = sql.queries("memory")["texts_of_items"]
        rows = await self.ledgers.memory.read(sql.rows, query, (json.dumps(sorted(facts)),))
        return {str(row[0]): str(row[1]) for row in rows}

    @asynccontextmanager
    async def _hold_lock(self) -> AsyncGenerator[None]:
        """Wait until no other sync of this home is under way, in whatever process."""
        self.home.run.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.home.run / "calendar.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(_WAIT_S)
            yield
        finally:
            os.close(descriptor)


class _Sync:
    """One reading of one calendar."""

    def __init__(self, own: Calendars, name: str, state: State, report: Report) -> None:
        self._own = own
        self._name = name
        self._state = state
        self._report = report
        self._settings = own.get_settings(name)
        self._today = own.now().date()
        self._provenance = Provenance(actor=f"calendar {name}", kind="owner")
        self._people = People(own.ledgers, own.memory, CHANNEL, own.config.memory.phone_region)

    async def run(self) -> None:
        self._zone = await self._own.find_zone()
        await self._people.open()
        await self._note_forgotten()
        async with Server(self._settings) as server:
            if self._settings.kind == "ics":
                await self._read_file(server)
                return
            is_one = ids.digest(server.url) in self._state.tokens
            found = await server.find_collections(contacts=self._settings.contacts, direct=is_one)
            if not found and not self._state.tokens:
                raise no_calendars(server.host)
            # Contacts first: whoever an event names is known by then.
            for collection in sorted(found, key=lambda each: each.kind):
                await self._read_collection(server, collection)
            await self._drop_collections({ids.digest(each.url) for each in found})

    async def _note_forgotten(self) -> None:
        """What is gone from the memory was forgotten: it stays so, whatever the server has."""
        facts = {entry.fact for entry in self._state.entries.values() if entry.fact}
        kept = await self._own.find_facts(facts)
        for entry in self._state.entries.values():
            if entry.fact and entry.fact not in kept:
                entry.fact, entry.digest, entry.times, entry.is_forgotten = "", "", [], True

    async def _read_file(self, server: Server) -> None:
        version = "" if self._is_due(_FILE) else self._state.tokens.get(_FILE, "")
        found = await server.read_file(version)
        if found is None:
            return
        collection = Collection(url=_FILE, name=self._name, kind="events")
        token, resources = found
        listed = {ids.digest(each.url) for each in resources}
        changed = [each for each in resources if self._is_changed(each)]
        for start in range(0, len(changed), _BATCH):
            await self._take(collection, changed[start : start + _BATCH])
        await self._remove([key for key in self._list_keys(_FILE) if key not in listed])
        self._state.tokens[_FILE] = token

    async def _read_collection(self, server: Server, collection: Collection) -> None:
        place = ids.digest(collection.url)
        token = self._state.tokens.get(place, "")
        is_due = self._is_due(place)
        if token and collection.state == token and not is_due:
            return
        changes = await server.find_changes(collection, "" if is_due else token)
        changed = [each.url for each in changes.changed if self._is_changed(each)]
        for start in range(0, len(changed), _BATCH):
            await self._take(collection, await server.fetch(collection, changed[start : start + _BATCH]))
        removed = [ids.digest(url) for url in changes.removed]
        if changes.is_whole:
            listed = {ids.digest(each.url) for each in changes.changed}
            removed = [key for key in self._list_keys(place) if key not in listed]
        await self._remove(removed)
        self._state.tokens[place] = changes.token or collection.state
        # Until here, whoever reads it again writes nothing twice: notes are known by what they say.
        await self._own.save_state(self._name, self._state)

    def _is_due(self, place: str) -> bool:
        """Whether a series of a collection is to be expanded further."""
        soon = f"{self._today + _AHEAD / 3}"
        return any(
            each.until and each.until <= soon and each.collection == place
            for each in self._state.entries.values()
        )

    def _is_changed(self, resource: Resource) -> bool:
        known = self._state.entries.get(ids.digest(resource.url))
        if known is None:
            return True
        ends = bool(known.until) and known.until <= f"{self._today + _AHEAD / 3}"
        return known.etag != resource.etag or ends

    def _list_keys(self, collection: str) -> list[str]:
        return [key for key, each in self._state.entries.items() if each.collection == collection]

    async def _take(self, collection: Collection, resources: Sequence[Resource]) -> None:
        """Write down a batch: the notes, whom they name, the facts, and last that they were read."""
        place = ids.digest(collection.url)
        versions: list[_Version] = []
        parsed = await asyncio.to_thread(self._parse, collection.kind, resources)
        for resource, found in zip(resources, parsed, strict=True):
            key = ids.digest(resource.url)
            known = self._state.entries.get(key)
            entry = Entry(collection=place, etag=resource.etag, kind=collection.kind)
            if found is None:
                self._report.unread += 1
            if known is not None:
                entry = replace(known, etag=resource.etag)
            self._state.entries[key] = entry
            if found is None or entry.is_forgotten:
                continue
            try:
                if isinstance(found, Series):
                    version = self._describe_event(key, resource.url, found, entry)
                else:
                    version = self._describe_card(key, resource.url, found, entry)
            except (ValueError, OverflowError):  # a time that no calendar has
                self._report.unread += 1
                continue
            if version is not None:
                versions.append(version)
        await self._write(collection.url, versions)

    def _parse(self, kind: Kind, resources: Sequence[Resource]) -> list[Series | Card | None]:
        """Read entries in the parser's process; None for what can't be read."""
        found: list[Series | Card | None] = []
        for each in resources:
            try:
                if kind == "events":
                    end = self._today + _AHEAD
                    found.append(parser_process.read_series(each.data, self._today - timedelta(days=1), end))
                    continue
                card = parser_process.read_card(each.data)
                aliases = [*((text, "email") for text in card.emails)] if card else []
                aliases += [*((text, "phone") for text in card.phones)] if card else []
                found.append(card and Card(name=card.name, aliases=tuple(aliases), facts=card.facts))
            except (UnreadableError, ValueError, OverflowError):
                found.append(None)
        return found

    def _describe_event(self, key: str, url: str, series: Series, entry: Entry) -> _Version | None:
        """Note when an event takes place; returns what it says now, if that is something else."""
        zone, recurs = self._zone, bool(series.appointment.repetition)
        said = series.appointment
        given = [
            said.start,
            series.end,
            said.written_at or said.start,
            *(at for each in series.times for at in each),
        ]
        for each in given:
            wording.as_utc(wording.parse(each, zone), zone)  # before anything of it is kept
        entry.times = [[_store(wording.parse(each, zone)) for each in times] for times in series.times]
        entry.until = f"{self._today + _AHEAD}" if recurs and series.times else ""
        kept = replace(series, times=(), appointment=replace(said, written_at=None))
        digest = ids.digest(repr(kept))
        if digest == entry.digest or (series.is_cancelled and not entry.fact):
            return None
        entry.digest = digest
        text = wording.describe(series, zone, self._today)
        return _Version(
            key=key, url=url, text=text, entry=entry, is_cancelled=series.is_cancelled, series=series
        )

    def _describe_card(self, key: str, url: str, card: Card, entry: Entry) -> _Version | None:
        digest = ids.digest(repr(card))
        if digest == entry.digest:
            return None
        entry.digest = digest
        said = [card.name, *(text for text, _ in card.aliases)]
        said += [f"{type_.replace('_', ' ')}: {value}" for _, type_, value in card.facts]
        return _Version(key=key, url=url, text=wording.CONTACT + ", ".join(said), entry=entry, card=card)

    async def _write(self, collection: str, versions: Sequence[_Version]) -> None:
        if not versions:
            return
        notes = await self._append_notes(collection, versions)
        met = [
            Met(person, note)
            for each, note in zip(versions, notes, strict=True)
            for person in self._list_people(each)
        ]
        await self._people.meet(met)
        described = await self._describe_people(versions, notes)
        query = sql.queries("memory")["facts_of_events"]
        rows = await self._own.ledgers.memory.read(sql.rows, query, (json.dumps(notes),))
        written = {str(row[2]): str(row[0]) for row in rows}
        old = await self._own.find_facts({each.entry.fact for each in versions})
        waiting: list[tuple[_Version, dict[str, Any]]] = []
        for each, note in zip(versions, notes, strict=True):
            if note in written:
                each.entry.fact = written[note]
            else:
                waiting.append((each, self._build_fact(each, note, old, described.get(each.key))))
        await self._write_facts(waiting)

    async def _describe_people(
        self, versions: Sequence[_Version], notes: Sequence[str]
    ) -> dict[str, str | None]:
        """Give people what their contacts say, and take from them what only earlier versions said."""
        cards = [
            (each, note) for each, note in zip(versions, notes, strict=True) if each.entry.kind == "cards"
        ]
        if not cards:
            return {}
        prefixes = {each.key: f"{self._name}/{each.key[:32]}#" for each, _ in cards}

        def find_earlier(connection: apsw.Connection) -> dict[str, str]:
            query = sql.queries("events")["events_between"]
            found = {
                key: [str(id_) for (id_,) in connection.execute(query, (CHANNEL, begin, f"{begin}~"))]
                for key, begin in prefixes.items()
            }
            return {key: json.dumps(each) for key, each in found.items() if len(each) > 1}

        earlier = await self._own.ledgers.events.read(find_earlier)
        region = self._own.config.memory.phone_region

        def withdraw(connection: apsw.Connection) -> set[str]:
            queries, touched = sql.queries("identity"), set[str]()
            for each, _ in cards:
                if each.key not in earlier:
                    continue
                aliases = each.card.aliases if each.card else ()
                kept = [f"{type_} {normalize(text, type_, phone_region=region)}" for text, type_ in aliases]
                given = {"notes": earlier[each.key], "kept": json.dumps(kept)}
                touched |= {str(id_) for (id_,) in connection.execute(queries["withdraw_aliases"], given)}
                facts = connection.execute(queries["withdraw_person_facts"], {"notes": earlier[each.key]})
                touched |= {str(id_) for (id_,) in facts}
            now = clock.timestamp(self._own.now())
            connection.executemany(queries["touch_entity"], [(now, id_) for id_ in touched])
            return touched

        if earlier:
            touched = await self._own.ledgers.identity.write(withdraw)
            await self._own.memory.note_written("entity", sorted(touched))
        given = [(each.card, note) for each, note in cards if each.card is not None]
        found = await self._people.describe(given)
        return dict(zip([each.key for each, _ in cards if each.card is not None], found, strict=True))

    def _build_fact(
        self, version: _Version, note: str, old: Mapping[str, str], described: str | None
    ) -> dict[str, Any]:
        entities = [described, *(self._people.entity_of(person) for person in self._list_people(version))]
        given: dict[str, Any] = {
            "operation": "fact",
            "fact": version.text,
            "event": note,
            "as_of": clock.timestamp(self._find_written(version)),
            "entities": list(dict.fromkeys(filter(None, entities))),
            # Two appointments of the same name are both true: nothing but their own calendar replaces them.
            "metadata": {"calendar": self._name, "only_stated": True},
        }
        if version.series is not None:
            begin = wording.as_utc(wording.parse(version.series.appointment.start, self._zone), self._zone)
            given["valid_at"] = clock.timestamp(begin)
            if not version.entry.until:
                ends = [version.series.end, *(end for _, end in version.series.times)]
                moments = [wording.as_utc(wording.parse(end, self._zone), self._zone) for end in ends]
                given["valid_until"] = clock.timestamp(max(moments))
        if version.entry.fact in old:
            given |= {"replaces": [version.entry.fact]}
            given["how"] = "cancelled" if version.is_cancelled else "changed"
        return given

    async def _write_facts(self, waiting: Sequence[tuple[_Version, dict[str, Any]]]) -> None:
        """Write facts in one batch. One that the memory refuses, such as for a password, loses its notes."""
        if not waiting:
            return
        try:
            answer = await self._own.memory.run("batch", [each for _, each in waiting], self._provenance)
        except UsageError:
            if len(waiting) > 1:
                half = len(waiting) // 2
                await self._write_facts(waiting[:half])
                await self._write_facts(waiting[half:])
                return
            [(version, given)] = waiting
            plain = given["fact"]
            if version.series is not None:
                plain = wording.describe(version.series, self._zone, self._today, notes=False)
            if plain == given["fact"]:
                self._report.unread += 1
            else:
                await self._write_facts([(version, {**given, "fact": plain})])
            return
        results = cast("list[dict[str, Any]]", answer["results"])
        for (version, given), result in zip(waiting, results, strict=True):
            version.entry.fact = str(result["id"])
            if version.is_cancelled:
                self._report.cancelled += 1
            elif "replaces" in given:
                self._report.changed += 1
            else:
                self._report.new += 1

    async def _append_notes(self, collection: str, versions: Sequence[_Version]) -> list[str]:
        """Record the versions; one that was recorded before gives the same id."""

        def append(connection: apsw.Connection) -> list[str]:
            thread_id = events.ensure_thread(
                connection, channel=CHANNEL, external_id=self._name, kind="document", title=self._name
            )
            new = [
                NewEvent(
                    channel=CHANNEL,
                    content=each.text,
                    kind="note",
                    thread_id=thread_id,
                    external_id=self._make_external_id(each),
                    sender=f"the calendar {self._name}",
                    metadata={"collection": collection, "url": each.url},
                    occurred_at=self._find_written(each),
                )
                for each in versions
            ]
            return events.append(connection, new)

        return await self._own.ledgers.events.write(append)

    def _make_external_id(self, version: _Version) -> str:
        """Identify a version by what it says and what it replaces: an event may be moved back."""
        said = ids.digest(f"{version.text}\n{version.entry.digest}\n{version.entry.fact}")
        return f"{self._name}/{version.key[:32]}#{said[:32]}"

    def _find_written(self, version: _Version) -> datetime:
        """Return when a version was written, as the server says; never later than now."""
        now = self._own.now()
        if version.series is None or not version.series.appointment.written_at or version.entry.fact:
            return now
        written = wording.parse(version.series.appointment.written_at, self._zone)
        return min(wording.as_utc(written, self._zone), now)

    def _list_people(self, version: _Version) -> list[Person]:
        if version.series is None:
            return []
        given = version.series.appointment.attendees[:_MOST_PEOPLE]
        found: list[Person] = []
        for address, name in given:
            plain = address.casefold().removeprefix("mailto:").strip()
            if "@" in plain and plain != self._settings.user.casefold():
                found.append(Person(identifier=plain, kind="email", name=name))
        return found

    async def _remove(self, keys: Sequence[str]) -> None:
        """What is gone from the server and was still to come is cancelled; what is over stays as it was."""
        now, versions = self._own.now(), list[_Version]()
        gone = [key for key in keys if key in self._state.entries]
        texts = await self._own.find_facts({self._state.entries[key].fact for key in gone})
        for key in gone:
            entry = self._state.entries[key]
            ends = [wording.as_utc(wording.parse(end, self._zone), self._zone) for _, end in entry.times]
            is_to_come = entry.kind == "cards" or max(ends, default=now) > now
            if entry.fact in texts and is_to_come:
                text = wording.cancel(texts[entry.fact])
                versions.append(_Version(key=key, url="", text=text, entry=entry, is_cancelled=True))
        for start in range(0, len(versions), _BATCH):
            await self._write("", versions[start : start + _BATCH])
        for key in gone:
            del self._state.entries[key]

    async def _drop_collections(self, found: set[str]) -> None:
        """Of a collection that was deleted on the server, what was read stays, and isn't looked for again."""
        gone = self._state.tokens.keys() - found
        kept = {key: each for key, each in self._state.entries.items() if each.collection in found}
        if not gone:
            return
        lost = len(self._state.entries) - len(kept)
        for place in gone:
            del self._state.tokens[place]
        self._state.entries = kept
        entries = "entry" if lost == 1 else "entries"
        self._report.notes.append(
            f"A calendar was deleted on the server. Its {lost:,} {entries} stay in the memory; "
            f"`nexus calendar remove {self._name}` erases what was read."
        )


def _store(moment: wording.Moment) -> str:
    return moment.astimezone(UTC).isoformat() if isinstance(moment, datetime) else moment.isoformat()
