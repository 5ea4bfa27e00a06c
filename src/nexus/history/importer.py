"""Importing: items of a source, recorded in batches, resumed where they stopped, and never twice.

An import only records. No hook fires, no agent runs and no writer reads: messages of the past are history,
not something to answer. They are found by words immediately, and by meaning once they are embedded.
"""

import asyncio
import io
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import apsw

from nexus import attachments, clock
from nexus.config import AttachmentsConfig
from nexus.errors import UsageError
from nexus.history.files import Files
from nexus.history.items import Attachment, Card, Mark, Message, Person, SessionMessage, SetAside, Thread
from nexus.history.source import Source
from nexus.home import Home
from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.agents import imported
from nexus.ledgers.agents.imported import PastMessage
from nexus.ledgers.events import Direction, Participant, imports
from nexus.ledgers.events.imports import (
    AttachedFile,
    Import,
    PastEvent,
    PastThread,
    SetAsides,
    UnrecordedFiles,
    key,
)
from nexus.ledgers.identity import senders
from nexus.ledgers.identity.senders import Seen
from nexus.memory.normalisation import normalize
from nexus.memory.operations import Memory
from nexus.memory.writing import Provenance

_BATCH: Final = 1_000
# A conversation may hold more messages than this. Those after the last mark are read again on resuming, and
# known by their ids.
_MOST_HELD: Final = 5_000
_BATCH_BYTES: Final = 8 * 1024 * 1024
_LONGEST_CONTENT: Final = 2_000_000
_DIRECTIONS: Final[dict[str, Direction]] = {
    "owner": "inbound", "person": "inbound", "assistant": "outbound",
    "system": "internal", "tool": "internal",
}  # fmt: skip

Progress = Callable[[int, int], None]
"""Called with the messages so far and the bytes read so far."""


@dataclass(slots=True)
class Chunk:
    """Items that are recorded together."""

    threads: dict[str, Thread] = field(default_factory=dict[str, Thread])
    messages: list[Message] = field(default_factory=list[Message])
    session_messages: list[SessionMessage] = field(default_factory=list[SessionMessage])
    set_aside: list[SetAside] = field(default_factory=list[SetAside])
    cursor: str | None = None
    size_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.threads or self.messages or self.session_messages or self.set_aside or self.cursor)


def chunks(source: Source, cursor: str | None) -> Iterator[Chunk]:
    """Group the items of a source so that they fit into memory; each group ends at a mark if possible."""
    chunk = Chunk()
    for item in source.read(cursor):
        if isinstance(item, Mark):
            chunk.cursor = item.cursor
            if (
                len(chunk.messages) >= _BATCH
                or chunk.size_bytes >= _BATCH_BYTES
                or len(chunk.set_aside) >= _BATCH
            ):
                yield chunk
                chunk = Chunk()
            continue
        if isinstance(item, Message):
            if len(chunk.messages) >= _MOST_HELD or chunk.size_bytes >= 2 * _BATCH_BYTES:
                yield chunk
                chunk = Chunk()
            chunk.messages.append(item)
            chunk.size_bytes += len(item.content) + sum(len(each.data or b"") for each in item.attachments)
        elif isinstance(item, SessionMessage):
            chunk.session_messages.append(item)
            chunk.size_bytes += len(item.content) + sum(len(each.arguments_json) for each in item.calls)
            chunk.size_bytes += sum(len(each.content) for each in item.results)
        elif isinstance(item, Thread):
            chunk.threads.setdefault(item.external_id, item)
        else:
            chunk.set_aside.append(item)
    if not chunk.is_empty:
        yield chunk


_MOST_OF_A_MESSAGE: Final = 200


class KeptFiles:
    """The files that come with messages, copied from an export into the home and kept by their hash.

    At most `most_bytes` of one are copied, piece by piece.
    """

    def __init__(self, home: Home, source: Files, most_bytes: int, import_id: str) -> None:
        self._home = home
        self._source = source
        self._most_bytes = most_bytes
        self._unrecorded = UnrecordedFiles(home, import_id)

    def settle(self) -> None:
        """Note that the messages of all files are recorded."""
        self._unrecorded.settle()

    def keep(self, message: Message, set_aside: SetAsides) -> tuple[AttachedFile, ...]:
        """Copy the files of a message. What can't be copied is described, and counted as set aside."""
        return tuple(self._keep_file(each, set_aside) for each in message.attachments[:_MOST_OF_A_MESSAGE])

    def _keep_file(self, file: Attachment, set_aside: SetAsides) -> AttachedFile:
        description = AttachedFile(
            filename=file.name, media_type=file.media_type, size_bytes=file.size_bytes, sha256=None
        )
        if self._most_bytes <= 0 or (file.data is None and file.member is None):
            return description
        try:
            content = io.BytesIO(file.data) if file.data is not None else self._source.open(file.member or "")
            with content as stream:
                kept = attachments.keep_stream(
                    self._home,
                    stream,
                    name=file.name,
                    media_type=file.media_type,
                    most_bytes=self._most_bytes,
                    note=self._unrecorded.note,
                )
        except (OSError, EOFError, KeyError) as error:
            set_aside.add(f"an attachment is damaged: {error}", file.member or file.name or "")
            return description
        if kept is None:
            reason = f"an attachment is larger than {self._most_bytes:,} bytes; only its name is kept"
            set_aside.add(reason, file.member or file.name or "")
            return description
        return AttachedFile(
            filename=file.name,
            media_type=kept.media_type,
            size_bytes=kept.size_bytes,
            sha256=kept.sha256,
            path=kept.path,
        )


OWNER: Final = "owner"
_REMEMBERED: Final = 50_000
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Met:
    """Somebody, and the message in which they were met."""

    person: Person
    event_id: str


class People:
    """The entities of an import's participants, by the memory's own rules. It remembers the latest ones.

    Somebody is known by an address, a number or a handle that an entity goes by. An unknown one becomes an
    entity, and the memory notes which others it may be; nothing is merged. No contact is made: an import must
    not decide from whom live messages are believed to come.
    """

    def __init__(self, ledgers: Ledgers, memory: Memory, import_id: str, phone_region: str = "") -> None:
        self._ledgers = ledgers
        self._memory = memory
        self._provenance = Provenance(actor=f"import {import_id}", kind="owner")
        self._phone_region = phone_region
        self._known: OrderedDict[tuple[str, str], str | None] = OrderedDict()
        self.owner_id = ""

    async def open(self) -> None:
        """Look up the owner, who is made if this home has none yet."""
        seen = Seen(channel="cli", identifier=OWNER, is_owner=True)
        found = await self._ledgers.identity.write(senders.resolve, seen)
        self.owner_id = found.entity_id

    def entity_of(self, person: Person) -> str | None:
        """Return the entity of somebody whom `meet` has seen."""
        return self._known.get(self._key(person))

    async def meet(self, met: Iterable[Met]) -> None:
        """Find or make the entities of these people."""
        new: dict[tuple[str, str], Met] = {}
        for each in met:
            key = self._key(each.person)
            if key in self._known:
                self._known.move_to_end(key)
            elif not each.person.is_automated:
                new.setdefault(key, each)
        if not new:
            return
        found = await self._ledgers.identity.read(_find_entities, list(new))
        unknown = [(key, each) for key, each in new.items() if key not in found and key[1]]
        made = await self._write([_entity(each) for _, each in unknown])
        found |= {key: str(new["id"]) for (key, _), new in zip(unknown, made, strict=True) if new}
        for key in new:
            self._known[key] = found.get(key)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def describe(self, cards: Sequence[tuple[Card, str]]) -> list[str | None]:
        """Record whom contact cards describe, each of a message; returns entities, None for the refused."""
        found = list[str | None]([None] * len(cards))
        waiting = list(range(len(cards)))
        while waiting:
            keys = {
                place: {
                    (type_, normalize(text, type_, phone_region=self._phone_region))
                    for text, type_ in cards[place][0].aliases
                }
                for place in waiting
            }
            known = await self._ledgers.identity.read(
                _find_entities, sorted(set[Any]().union(*keys.values()))
            )
            operations: dict[int, dict[str, Any]] = {}
            seen, now, waiting = set[tuple[str, str]](), list[int](), list[int]()
            for place, own in keys.items():
                card, event_id = cards[place]
                entity = found[place] = next((known[key] for key in sorted(own) if key in known), None)
                if entity is None and own & seen:
                    waiting.append(place)  # it meets the entity of an earlier card with that address
                    continue
                now.append(place)
                seen |= own
                aliases = [{"alias": _plain(text), "type": type_} for text, type_ in card.aliases]
                given: dict[str, Any] = {"alias": aliases, "event": event_id}
                if entity is None:
                    name = _plain(card.name)
                    operations[place] = {"operation": "entity", "name": name, "type": "Person", **given}
                elif aliases:
                    operations[place] = {"operation": "alias", "entity": entity, **given}
            written = await self._write(list(operations.values()))
            for place, result in zip(operations, written, strict=True):
                found[place] = found[place] or (None if result is None else str(result["id"]))
            facts: list[dict[str, Any]] = []
            for place in now:
                card, event_id = cards[place]
                for category, type_, value in card.facts if found[place] else ():
                    fact = {"category": category, "type": type_, "value": value, "event": event_id}
                    facts.append({"operation": "person-fact", "entity": found[place], **fact})
            await self._write(facts)
        return found

    async def _write(self, operations: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """Write a batch. What the memory refuses, such as a name that is a secret, is None in its place."""
        if not operations:
            return []
        try:
            written = await self._memory.run("batch", operations, self._provenance)
        except UsageError:
            if len(operations) == 1:
                return [None]
            half = len(operations) // 2
            return [*await self._write(operations[:half]), *await self._write(operations[half:])]
        return cast("list[dict[str, Any] | None]", written["results"])

    def _key(self, person: Person) -> tuple[str, str]:
        return person.kind, normalize(_plain(person.identifier), person.kind, phone_region=self._phone_region)


def _entity(met: Met) -> dict[str, Any]:
    person = met.person
    name = _plain(person.name or "")
    if not normalize(name):
        name = _plain(person.identifier.rpartition("/")[2] or person.identifier)
    return {
        "operation": "entity",
        "name": name,
        "type": "Person",
        "alias": [{"alias": _plain(person.identifier), "type": person.kind}],
        "event": met.event_id,
        "source_type": "observed",
    }


def _plain(text: str) -> str:
    """Return a text without colons, as one line: a colon would end an alias, as in `Sarah:name`."""
    return " ".join(text.replace(":", "·").split())[:_LONGEST_NAME]


def _find_entities(connection: apsw.Connection, keys: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    query = sql.queries("identity")["root_by_alias"]
    found = {key: connection.execute(query, key).get for key in keys}
    return {key: cast("str", id_) for key, id_ in found.items() if id_ is not None}


class Importer:
    """One import into one home."""

    def __init__(
        self,
        ledgers: Ledgers,
        memory: Memory,
        source: Source,
        *,
        phone_region: str = "",
        attachment_bytes: int = AttachmentsConfig.max_bytes,
        progress: Progress = lambda messages, read_bytes: None,
    ) -> None:
        self._ledgers = ledgers
        self._attachment_bytes = attachment_bytes
        self._memory = memory
        self._source = source
        self._phone_region = phone_region
        self._progress = progress
        self._latest: dict[str, datetime] = {}

    async def run(self) -> Import:
        """Record everything that is new. Interrupted, it goes on where it was when it is run again."""
        import_ = await self._begin()
        people = People(self._ledgers, self._memory, import_.id, self._phone_region)
        files = KeptFiles(self._ledgers.home, self._source.files, self._attachment_bytes, import_.id)
        await people.open()
        set_aside, recorded = import_.set_aside, import_.messages
        if import_.cursor is None and not set_aside.total:
            for name, reason in self._source.files.refused:
                set_aside.add(reason, name)
        parts = chunks(self._source, import_.cursor)
        reading = asyncio.create_task(asyncio.to_thread(next, parts, None))
        try:
            while (chunk := await reading) is not None:
                # The next ones are read while these are written.
                reading = asyncio.create_task(asyncio.to_thread(next, parts, None))
                for each in chunk.set_aside:
                    set_aside.add(each.reason, each.place)
                recorded += await self._record(import_, chunk, people, files, set_aside)
                self._progress(recorded, self._source.files.read_bytes)
                # Other writers of this process get their turn.
                await asyncio.sleep(0)
        except BaseException:
            # A thread can't be stopped: what it reads is thrown away.
            await asyncio.wait({reading})
            raise
        await self._ledgers.events.write(_end, import_id=import_.id)
        return await self._get(import_.id)

    async def _begin(self) -> Import:
        source, options = self._source, self._source.options
        values: dict[str, Any] = {
            "owner": sorted(options.owner),
            "timezone": str(options.timezone),
            "mapping": dict(options.mapping),
            **({"trusts_from": True} if options.trusts_from else {}),
        }
        return await self._get(
            await self._ledgers.events.write(
                imports.begin,
                source=source.name,
                location=os.fspath(source.files.path.absolute()),
                fingerprint=await asyncio.to_thread(source.files.fingerprint),
                options=values,
            )
        )

    async def _get(self, import_id: str) -> Import:
        found = await self._ledgers.events.read(imports.list_imports, import_id=import_id)
        return found[0]

    async def _record(
        self, import_: Import, chunk: Chunk, people: People, files: KeptFiles, set_aside: SetAsides
    ) -> int:
        channel, started = self._source.channel, clock.parse(import_.created_at)
        dated = [(each, self._time(each, chunk, started)) for each in chunk.messages]
        begun: dict[str, datetime] = {}
        for each, at in dated:
            begun.setdefault(each.thread, at)
        past = [(each, at, imports.event_id(channel, each.external_id, at)) for each, at in dated]
        await people.meet(Met(person, id_) for each, _, id_ in past for person in self._people_in(each))
        await people.describe([(each.card, id_) for each, _, id_ in past if each.card is not None])
        kept = await self._keep_files(chunk, files, set_aside)
        batch = imports.Batch(
            import_id=import_.id,
            channel=channel,
            threads=[
                self._thread(thread, begun.get(thread.external_id, started))
                for thread in chunk.threads.values()
            ],
            events=[
                self._event(each, at, id_, people, kept.get(each.external_id, ())) for each, at, id_ in past
            ],
            cursor=chunk.cursor,
            set_aside=set_aside,
            recorded_at=import_.created_at,
        )
        if not chunk.session_messages:
            added = await self._ledgers.events.write(batch.record)
        else:
            # No transaction spans two ledgers. The cursor moves last, so that an import that was killed in
            # between records the sessions when it is resumed; and events come first, because undoing an
            # import finds its sessions by them.
            added = await self._ledgers.events.write(replace(batch, cursor=None, set_aside=None).record)
            await self._record_sessions(chunk.session_messages)
            await self._ledgers.events.write(replace(batch, threads=[], events=[]).record)
        if kept:
            await asyncio.to_thread(files.settle)
        return added

    async def _record_sessions(self, messages: list[SessionMessage]) -> None:
        """Record sessions of agents in the agents ledger; those messages that it has stay as they are."""
        channel = self._source.channel
        of_message = await self._ledgers.events.read(
            imports.find_recorded_events, channel=channel, external_ids=[each.message for each in messages]
        )
        past = [
            PastMessage(
                key=f"{channel}:{each.external_id}",
                session=f"{channel}:{each.session.id}",
                parent=f"{channel}:{each.session.parent}" if each.session.parent else None,
                project=each.session.project,
                role=each.role,
                content=each.content[:_LONGEST_CONTENT],
                model=each.model,
                event_id=event.id,
                thread_id=event.thread_id,
                at=event.occurred_at,
                calls=each.calls,
                results=tuple(
                    replace(result, content=result.content[:_LONGEST_CONTENT]) for result in each.results
                ),
            )
            for each in messages
            if (event := of_message.get(each.message)) is not None
        ]
        await self._ledgers.agents.write(imported.record, source=channel, messages=past)

    async def _keep_files(
        self, chunk: Chunk, files: KeptFiles, set_aside: SetAsides
    ) -> dict[str, tuple[AttachedFile, ...]]:
        """Keep the files of new messages, before these are recorded; returns them by message."""
        with_files = [each for each in chunk.messages if each.attachments]
        if not with_files:
            return {}
        known = await self._ledgers.events.read(
            imports.find_recorded,
            channel=self._source.channel,
            external_ids=[each.external_id for each in with_files],
        )
        found: dict[str, tuple[AttachedFile, ...]] = {}
        for message in with_files:
            if key(message.external_id) not in known and message.external_id not in found:
                found[message.external_id] = await asyncio.to_thread(files.keep, message, set_aside)
        return found

    def _time(self, message: Message, chunk: Chunk, started: datetime) -> datetime:
        """Return when a message was said; without a time, as the one before it, else as its thread."""
        at = message.at
        if at is not None and at > started + timedelta(days=1):
            at = None
        if at is None:
            thread = chunk.threads.get(message.thread)
            at = self._latest.get(message.thread) or (thread.at if thread else None) or started
        if len(self._latest) > 10_000:
            self._latest.clear()
        self._latest[message.thread] = at
        return at.astimezone(UTC)

    def _people_in(self, message: Message) -> Iterator[Person]:
        if message.author == "person" and message.sender is not None:
            yield message.sender
        yield from (
            each
            for each in (*message.recipients, *message.copied)
            if not self._source.options.is_owner(each.identifier, each.name)
        )

    def _thread(self, thread: Thread, begun: datetime) -> PastThread:
        return PastThread(
            external_id=key(thread.external_id),
            kind=thread.kind,
            title=thread.title[:500] if thread.title else None,
            parent=None if thread.parent is None else key(thread.parent),
            at=clock.timestamp(thread.at or begun),
            metadata=thread.metadata,
        )

    def _event(
        self, message: Message, at: datetime, id_: str, people: People, attached: tuple[AttachedFile, ...]
    ) -> PastEvent:
        metadata, content = dict(message.metadata), message.content
        if len(content) > _LONGEST_CONTENT:
            metadata["cut_from_characters"] = len(content)
            content = content[:_LONGEST_CONTENT]
        if message.at is None:
            metadata["time_is_estimated"] = True
        return PastEvent(
            id=id_,
            external_id=key(message.external_id),
            thread=key(message.thread),
            direction=_DIRECTIONS[message.author],
            kind=message.kind,
            sender=_sender(message),
            content=content,
            content_type=message.content_type,
            reply_to=None if message.reply_to is None else key(message.reply_to),
            metadata=metadata,
            occurred_at=clock.timestamp(at),
            participants=tuple(self._participants(message, people)),
            attachments=attached,
        )

    def _participants(self, message: Message, people: People) -> Iterator[Participant]:
        if message.author == "owner":
            yield Participant(role="sender", identifier=OWNER, entity_id=people.owner_id or None)
        elif message.sender is not None:
            yield _participant("sender", message.sender, people.entity_of(message.sender))
        for role, group in (("recipient", message.recipients), ("cc", message.copied)):
            for each in group:
                is_owner = self._source.options.is_owner(each.identifier, each.name)
                entity = people.owner_id if is_owner else people.entity_of(each)
                yield _participant(role, each, entity or None)


def _end(connection: apsw.Connection, *, import_id: str) -> None:
    imports.end(connection, import_id)
    events.publish(connection, "history.imported", None, {"import_id": import_id})


def _sender(message: Message) -> str | None:
    if message.author == "owner":
        return OWNER
    if message.sender is None:
        return message.author
    return message.sender.name or message.sender.identifier


def _participant(role: Any, person: Person, entity_id: str | None) -> Participant:
    return Participant(
        role=role,
        identifier=person.identifier,
        display_name=person.name,
        entity_id=None if person.is_automated else entity_id,
    )
