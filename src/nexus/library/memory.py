"""The memory of one home, opened in this process: writing, searching, correcting, forgetting."""

import asyncio
import inspect
import json
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, cast

import apsw

from nexus import clock, hosted, ids
from nexus.config import load
from nexus.errors import MissingError, ModelFileError, NexusError, UsageError
from nexus.home import Home, locate
from nexus.ledgers import Ledgers, events, forgetting, sql
from nexus.ledgers.events import NewEvent
from nexus.ledgers.forgetting import Beside, Target
from nexus.ledgers.memory import find_fact
from nexus.library.items import KINDS, Extract, Fact, Hit, Message, Recorded, make_hit, parse_time, read_text
from nexus.memory import correction, operations
from nexus.memory.embedding import Vectors, choose_model_id, make_opener
from nexus.memory.embedding.background import Background, Turns
from nexus.memory.normalisation import normalize
from nexus.memory.recall.item import PATIENT_MS, How, Kind, Query
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import Reranker, ready_reranker
from nexus.memory.references import find_called, is_known
from nexus.memory.writing import SCOPED_CHANNELS, Provenance
from nexus.request import EVERYTHING, Visibility
from nexus.serving import Serving, serving

CHANNEL: Final = "library"
"""The channel of what is written without a scope."""
_ACTOR: Final = "library"
# How many facts are written in one transaction of each ledger.
_TOGETHER: Final = 500
# For so long after a write, a search waits for its vectors.
_CATCH_UP_S: Final = 0.5
# Writes that follow each other closely are embedded together.
_PAUSE_S: Final = 0.2
# How long a batch that is to be embedded waits at most where calls follow each other without a pause.
_LET_PASS_S: Final = 1.0
_LONGEST_SCOPE: Final = 200


class AsyncMemory:
    """A home's memory, for programs that run an event loop: `async with AsyncMemory("~/notes") as memory:`.

    Without a scope, a call reaches everything in the home; with one, only what was written with that scope.
    """

    def __init__(self, home: Home | Path | str | None = None, *, create: bool = False) -> None:
        """`home` defaults to the one that NEXUS_HOME names. With `create` it is made if it is missing."""
        self.home = home if isinstance(home, Home) else locate(Path(home) if home else None)
        self._creates = create
        self._stack = AsyncExitStack()
        self._erasing = asyncio.Lock()
        self._correcting = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._is_behind = False
        self._fresh_until_s = 0.0
        self._calls = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def __aenter__(self) -> Self:
        if self._creates:
            await asyncio.to_thread(self.home.create)
        config = await asyncio.to_thread(load, self.home.require().config_file)
        if hosted.has_copies(self.home) and serving(self.home) is not None:
            self.home = replace(self.home, is_copied=True)
        async with AsyncExitStack() as stack:
            self._config = config
            self._ledgers = await stack.enter_async_context(Ledgers(self.home, config.ledgers))
            self._embedding = Background(
                self._ledgers,
                make_opener(config.memory),
                choose_model_id(config.memory),
                Turns(let_pass=self._wait_for_idle),
            )
            stack.push_async_callback(self._embedding.stop)
            self._memory = operations.Memory(
                self._ledgers,
                enqueue_embedding=self._wake,
                phone_region=config.memory.phone_region,
                keeps_codes=config.memory.keep_codes,
            )
            # Look once for what others wrote meanwhile.
            await self._wake()
            embedding = asyncio.create_task(self._embed_writes())
            stack.callback(embedding.cancel)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the home. What has no vector yet gets it when the home is next opened."""
        await self._stack.aclose()

    async def add(
        self,
        text: str,
        *,
        about: str | None = None,
        scope: str | None = None,
        entities: Sequence[str] = (),
        at: datetime | None = None,
        replaces: Sequence[str] = (),
        how: How | None = None,
        confidence: float = 1.0,
    ) -> str:
        """Remember a statement and return its id. With `replaces`, the facts of those ids no longer hold."""
        fact = Fact(
            text=text,
            about=about,
            entities=tuple(entities),
            at=at,
            replaces=tuple(replaces),
            how=how,
            confidence=confidence,
        )
        return (await self.add_many([fact], scope=scope))[0]

    async def add_many(self, facts: Iterable[Fact | str], *, scope: str | None = None) -> list[str]:
        """Remember many statements, some hundred in a transaction, and return their ids in order."""
        given = [Fact(text=fact) if isinstance(fact, str) else fact for fact in facts]
        provenance = _make_provenance(scope)
        made: list[str] = []
        with self._hold_embedding():
            for start in range(0, len(given), _TOGETHER):
                made += await self._write_facts(given[start : start + _TOGETHER], scope, provenance)
        return made

    async def add_messages(
        self,
        messages: Iterable[Message],
        *,
        scope: str | None = None,
        thread: str | None = None,
        extract: Extract | None = None,
    ) -> Recorded:
        """Record a conversation, or with the same `thread` more of one; it is found by what was said.

        A message has a `role` and its `content`, as in chat APIs, and may have the speaker's `name` and its
        time, `at`. With `extract`, the facts that it returns are remembered too, except those with a secret.
        """
        given = [message for message in messages if read_text(message)]
        channel = _channel_of(scope)

        def record(connection: apsw.Connection) -> list[str]:
            name = thread or ids.new("conversation")
            thread_id = events.ensure_thread(connection, channel=channel, external_id=name, kind="session")
            speaker = "user" if scope else "owner"
            return events.append(
                connection, [_make_event(each, channel, thread_id, speaker) for each in given]
            )

        event_ids = await self._ledgers.events.write(record) if given else []
        await self._wake()
        if extract is None or not given:
            return Recorded(messages=tuple(event_ids))
        found: Any = await asyncio.to_thread(extract, given)
        if inspect.isawaitable(found):
            found = await found
        last = max((at for at, each in enumerate(given) if each.get("role") == "user"), default=-1)
        facts: list[Fact] = []
        sources: list[str] = []
        # A model's reading of what was said is no statement of the owner's.
        provenance = replace(_make_provenance(scope), kind="automation")
        for each in cast("Iterable[Fact | str]", found):
            fact = Fact(text=each) if isinstance(each, str) else each
            place = last if fact.message is None else min(max(fact.message, 0), len(given) - 1)
            facts.append(replace(fact, at=fact.at or parse_time(given[place].get("at"))))
            sources.append(event_ids[place])
        made: list[str] = []
        try:
            made += await self._write_facts(facts, scope, provenance, sources) if facts else []
        except (UsageError, MissingError):
            for fact, source in zip(facts, sources, strict=True):
                with suppress(UsageError, MissingError):
                    made += await self._write_facts([fact], scope, provenance, [source])
        return Recorded(messages=tuple(event_ids), facts=tuple(made))

    async def search(
        self,
        text: str,
        *,
        scope: str | None = None,
        limit: int = 10,
        about: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        kinds: Iterable[Kind] = KINDS,
        rerank: bool = True,
    ) -> list[Hit]:
        """Find what may answer a question, best first. Weak hits probably don't: they are near it.

        No model is called but the embedding model and a reranker, on this machine, if they are installed.
        Without `rerank` an answer comes several times sooner and is somewhat less accurate.
        """
        left_s = self._fresh_until_s - time.monotonic()
        if self._is_behind and left_s > 0:
            await self._embedding.catch_up(left_s)
        query = Query(
            text=text,
            kinds=frozenset(kinds),
            entity_id=about,
            time_after=parse_time(after),
            time_before=parse_time(before),
            max_results=limit,
            deadline_ms=PATIENT_MS,
        )
        recall = await self._open_recall(scope, reranker=await ready_reranker() if rerank else None)
        with self._hold_embedding():
            found = await recall.find(query)
        if found.is_too_late:
            raise NexusError("The search of the memory took too long and was stopped", hint="Search again.")
        return [make_hit(match) for match in found.results]

    async def correct(
        self, memory_id: str, text: str, *, scope: str | None = None, how: How | None = None
    ) -> str:
        """Replace a fact by what is true now and return the new one's id. Both are kept.

        `how` says whether the old one was never true (`corrected`), was true (`changed`, the default) or was
        called off (`cancelled`).
        """
        await self._require_memories([memory_id], scope)
        if scope is None:
            # The correction stays in the fact's scope.
            scope = await self._find_scope(memory_id)
        provenance = _make_provenance(scope)
        async with self._correcting:
            arguments = await correction.make_correction(self._ledgers, memory_id, text, how)
            await self._memory.check("fact", arguments, provenance)
            (event_id,) = await self._record_notes([Fact(text=text)], _channel_of(scope))
            by = replace(provenance, event_id=event_id)
            answer = await self._memory.correct(memory_id, text, by, how=how)
        return str(answer["id"])

    async def forget(self, memory_id: str, *, scope: str | None = None) -> Path | None:
        """Erase a fact, or a message and what was learned from it, from every file. This can't be undone.

        Returns the file of the receipt, which `nexus forget verify` checks; None if nothing was there.
        """
        await self._require_memories([memory_id], scope)
        if memory_id.startswith("evt_"):
            return await self._erase(await forgetting.find(self._ledgers, forgetting.event, wanted=memory_id))
        return await self._erase(await forgetting.find(self._ledgers, forgetting.fact, wanted=memory_id))

    async def forget_scope(self, scope: str) -> Path | None:
        """Erase everything that was written with a scope, from every file. This can't be undone.

        Returns the file of the receipt. The home's record of the forgetting keeps the scope's name.
        """
        return await self._erase(forgetting.scope(_channel_of(scope)))

    async def _write_facts(
        self,
        facts: Sequence[Fact],
        scope: str | None,
        provenance: Provenance,
        sources: Sequence[str] = (),
    ) -> list[str]:
        """Write facts with what they are about; without sources, each is recorded as a note of its own."""
        replaced = [id_ for fact in facts for id_ in fact.replaces]
        await self._require_memories(replaced, scope, prefixes=("fact_",))
        for id_ in replaced if scope is None else ():
            if theirs := await self._find_scope(id_):
                raise UsageError(f"{id_} is of the scope {theirs!r}", hint=f"Pass `scope={theirs!r}`.")
        names = [name for fact in facts for name in (fact.about, *fact.entities) if name]
        meant = await self._ledgers.identity.read(
            _resolve_names, list(dict.fromkeys(names)), provenance.scope, self._config.memory.phone_region
        )
        made = {id_: name for name, (id_, is_new) in meant.items() if is_new}
        new: list[dict[str, Any]] = [
            {"operation": "entity", "id": id_, "name": name} for id_, name in made.items()
        ]
        statements = [_make_operation(fact, meant) for fact in facts]
        # Check first: what may not be remembered isn't recorded as said either.
        await self._memory.check("batch", [*new, *statements], provenance)
        event_ids = list(sources) or await self._record_notes(facts, _channel_of(scope))
        first: dict[str, str] = {}
        for operation, event_id in zip(statements, event_ids, strict=True):
            operation["event"] = event_id
            for id_ in filter(None, (operation.get("about"), *operation.get("entities", ()))):
                first.setdefault(id_, event_id)
        for operation in new:
            operation["event"] = first[operation["id"]]
        answer = await self._memory.run("batch", [*new, *statements], provenance)
        return [str(each["id"]) for each in answer["results"][len(new) :]]

    async def _record_notes(self, facts: Sequence[Fact], channel: str) -> list[str]:
        notes = [
            NewEvent(
                channel=channel,
                content=fact.text,
                direction="internal",
                kind="note",
                sender=_ACTOR,
                occurred_at=parse_time(fact.at),
            )
            for fact in facts
        ]
        return await self._ledgers.events.write(events.append, notes)

    async def _require_memories(
        self, memory_ids: Sequence[str], scope: str | None, prefixes: tuple[str, ...] = ("fact_", "evt_")
    ) -> None:
        """Raise unless these are memories, given by their whole ids, inside the scope."""
        wanted = list(dict.fromkeys(memory_ids))
        for id_ in wanted:
            if not id_.startswith(prefixes):
                what = " or ".join({"fact_": "fact", "evt_": "message"}[each] for each in prefixes)
                raise UsageError(f"{id_!r} is no {what}", hint="Pass the id of a search's hit.")
        if scope is not None:
            seen = await (await self._open_recall(scope)).keep_visible(wanted)
            missing = [id_ for id_ in wanted if id_ not in seen]
            if missing:
                raise MissingError(f"Unknown memory {missing[0]!r} in this scope", hint="Check the scope.")
        for id_ in wanted:
            if id_.startswith("fact_") and await self._ledgers.memory.read_now(find_fact, id_) != id_:
                raise MissingError(f"Unknown fact {id_!r}", hint="Pass the whole id.")

    async def _find_scope(self, fact_id: str) -> str | None:
        found = await (await self._open_recall(None)).load_items([fact_id], deadline_ms=PATIENT_MS)
        source = found[0].source_event_id if found else None
        event = source and await self._ledgers.events.read_now(events.get, source)
        is_scoped = event and event.channel.startswith(SCOPED_CHANNELS)
        return event.channel.removeprefix(SCOPED_CHANNELS) if event and is_scoped else None

    async def _open_recall(self, scope: str | None, reranker: Reranker | None = None) -> Recall:
        vectors: Vectors | None = None
        with suppress(ModelFileError):
            vectors = await self._embedding.vectors()
        visible = EVERYTHING if scope is None else Visibility(channels=frozenset({_channel_of(scope)}))
        return Recall(self._ledgers, vectors, visible=visible, reranker=reranker)

    async def _erase(self, target: Target) -> Path | None:
        beside: Beside = forgetting.Nothing()
        if self._config.engine.database or self.home.engine_file.is_file():
            # An agent has worked in this home: what its engine keeps goes as well.
            from nexus.engine.forgetting import Forgetting
            from nexus.engine.settings import Settings

            beside = Forgetting(Settings.of_home(self.home, self._config.engine))
        # A host that copies the home must not open it meanwhile: WALs that are copied are not to be emptied.
        undisturbed = Serving(self.home) if hosted.has_copies(self.home) else nullcontext()
        async with self._erasing:
            with undisturbed:
                await forgetting.resume(self._ledgers, beside=beside)
                report = await forgetting.forget(self._ledgers, target, actor=_ACTOR, beside=beside)
        return report.file if report else None

    @contextmanager
    def _hold_embedding(self) -> Generator[None]:
        """Embed nothing while a caller waits."""
        self._calls += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._is_idle.set()

    async def _wait_for_idle(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LET_PASS_S):
                await self._is_idle.wait()

    async def _wake(self, kind: str = "", written: Sequence[str] = ()) -> None:
        self._is_behind = True
        self._fresh_until_s = time.monotonic() + _CATCH_UP_S
        self._wanted.set()

    async def _embed_writes(self) -> None:
        """Embed new memories after every write."""
        while await self._wanted.wait():
            await asyncio.sleep(_PAUSE_S)
            self._wanted.clear()
            await self._embedding.catch_up(None)
            self._is_behind = self._wanted.is_set()


def _make_event(message: Message, channel: str, thread_id: str, speaker: str) -> NewEvent:
    """Make the event that records a message; `speaker` is the name of the user."""
    role = str(message.get("role") or "user")
    return NewEvent(
        channel=channel,
        content=read_text(message),
        direction="outbound" if role == "assistant" else "inbound" if role == "user" else "internal",
        # Nobody is to answer it: it was said elsewhere.
        kind="transcript",
        thread_id=thread_id,
        sender=str(message.get("name") or (speaker if role == "user" else role)),
        occurred_at=parse_time(message.get("at")),
    )


def _channel_of(scope: str | None) -> str:
    if scope is None:
        return CHANNEL
    if not scope.strip() or len(scope) > _LONGEST_SCOPE:
        raise UsageError(
            f"A scope has 1 to {_LONGEST_SCOPE} characters", hint="Such as `user:7`. For none, pass None."
        )
    return f"{SCOPED_CHANNELS}{scope}"


def _make_provenance(scope: str | None) -> Provenance:
    return Provenance(actor=_ACTOR, kind="owner", scope="" if scope is None else _channel_of(scope))


def _resolve_names(
    connection: apsw.Connection, names: Sequence[str], scope: str, phone_region: str
) -> dict[str, tuple[str, bool]]:
    """Resolve each name or id to the entity's id, and whether it must be made."""
    found: dict[str, tuple[str, bool]] = {}
    scope_of = sql.queries("identity")["scope_of"]
    for name in names:
        if is_known(connection, name) and scope in ("", connection.execute(scope_of, (name,)).get):
            found[name] = (name, False)
            continue
        known = find_called(connection, name, phone_region, scope)
        if len(known) > 1:
            raise UsageError(
                f"{len(known)} entities are called {name!r}: {', '.join(known)}", hint="Pass the id of one."
            )
        # An id that follows from the name: two processes that make the same entity make it once.
        made = f"ent_{ids.digest(json.dumps([scope, normalize(name)]))[:26]}"
        found[name] = (known[0], False) if known else (made, True)
    return found


def _make_operation(fact: Fact, meant: Mapping[str, tuple[str, bool]]) -> dict[str, Any]:
    given: dict[str, Any] = {
        "operation": "fact",
        "fact": fact.text,
        "about": fact.about and meant[fact.about][0],
        "entities": [meant[name][0] for name in fact.entities if name],
        "as_of": clock.timestamp(at) if (at := parse_time(fact.at)) else None,
        "replaces": list(fact.replaces),
        "how": fact.how,
        "confidence": fact.confidence,
    }
    return {name: value for name, value in given.items() if value not in (None, "", [])}
