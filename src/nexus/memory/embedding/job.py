"""How much waits to be embedded, and the idempotent pass that makes the missing vectors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import apsw

from nexus import clock
from nexus.ledgers import Ledgers, sql
from nexus.memory.embedding.vectors import (
    KINDS,
    SQL,
    Kind,
    Position,
    Row,
    Source,
    Vectors,
    present,
    serving_model,
    sources,
)

_BATCH = 256
# What is embedded in one go: a second's work or less, so that others can go ahead in between.
_PORTION_CHARACTERS = 10_000
# A transaction may commit after one that began later, and clocks are set: so much is looked at again.
_OVERLAP = timedelta(minutes=2)
_OVERLAP_ROWS = 10_000
# What every model can embed, unless nothing is wrong with the texts but with the model.
_PROBE = "probe"
_log = logging.getLogger(__name__)

Told = Callable[[int], None]
Thread = Callable[..., Awaitable[Any]]
"""Runs blocking code off the event loop, as `asyncio.to_thread` does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """One kind of thing: how many there are, how many have a vector, how many wait and since when."""

    kind: str
    total: int
    embedded: int
    waiting: int
    oldest_at: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """What a model has still to do, and which model serves meanwhile."""

    model_id: str
    serving_model_id: str | None
    kinds: tuple[Waiting, ...]

    @property
    def depth(self) -> int:
        return sum(kind.waiting for kind in self.kinds)

    @property
    def total(self) -> int:
        return sum(kind.total for kind in self.kinds)

    @property
    def embedded(self) -> int:
        return sum(kind.embedded for kind in self.kinds)

    @property
    def changes_model(self) -> bool:
        """Whether searches use another model until this one has embedded everything."""
        return self.serving_model_id not in {None, self.model_id}

    def lag_ms(self, now: datetime) -> int:
        """How long the oldest has waited."""
        moments = [clock.parse(kind.oldest_at) for kind in self.kinds if kind.oldest_at]
        return max(0, round((now - min(moments)).total_seconds() * 1000)) if moments else 0


async def backlog(ledgers: Ledgers, model_id: str) -> Backlog:
    """Count what that model has still to do."""
    return Backlog(
        model_id=model_id,
        serving_model_id=await serving_model(ledgers.embeddings),
        kinds=tuple([await _waiting(ledgers, model_id, kind) for kind in KINDS]),
    )


async def _waiting(ledgers: Ledgers, model_id: str, kind: Kind) -> Waiting:
    def of_embeddings(connection: apsw.Connection) -> tuple[str | None, int]:
        position = connection.execute(SQL["position"], (model_id, kind.name)).get
        vectors = connection.execute(SQL["vectors_of"], (kind.name, model_id)).get
        return cast("str | None", position), cast("int", vectors)

    position, embedded = await ledgers.embeddings.read(of_embeddings)
    reached = int(position or 0) if kind.log else position or ""

    def of_ledger(connection: apsw.Connection) -> tuple[int, int, str | None]:
        waiting, oldest = cast(
            "tuple[int, str | None]", connection.execute(kind.sql("waiting"), (reached,)).fetchone()
        )
        return cast("int", connection.execute(kind.sql("total")).get), waiting, oldest

    total, waiting, oldest = await kind.database(ledgers).read(of_ledger)
    return Waiting(kind=kind.name, total=total, embedded=embedded, waiting=waiting, oldest_at=oldest)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One look at everything. A `whole` one trusts no position; a `careful` one looks back further."""

    ledgers: Ledgers
    vectors: Vectors
    whole: bool = False
    careful: bool = True
    told: Told = lambda _: None
    thread: Thread = asyncio.to_thread

    async def run(self) -> int:
        """Embed what is missing, kind after kind; returns how many vectors were made."""
        made = 0
        for kind in KINDS:
            made = await (self._log(kind, made) if kind.log else self._table(kind, made))
        return made

    async def _log(self, kind: Kind, made: int) -> int:
        stored = int(await self._position(kind) or 0)
        end = int(await self._value(kind, "end") or 0)
        if stored > end:
            # A ledger that was brought back from a backup may end before the position.
            stored = end
            await self.vectors.put([], [], Position(kind.name, str(end)))
        after = 0 if self.whole else stored
        if self.careful:
            after = max(0, after - _OVERLAP_ROWS)
        while rows := await self._rows(kind, {"after": after, "limit": _BATCH}):
            after = rows[-1][0]
            made += await self._embed(kind, rows, str(after) if after > stored else None)
            self.told(made)
        return made

    async def _table(self, kind: Kind, made: int) -> int:
        stored, now = await self._position(kind) or "", clock.timestamp(clock.now())
        # A row may claim to be from the future: it must not hide those that are written until then.
        end = min(str(await self._value(kind, "end") or ""), now)
        if stored > end:
            # The clock was ahead, or the last row is gone: the position tells nothing.
            stored = ""
        since = "" if self.whole or self.careful else _before(stored)
        if since and stored == end < _before(now):
            return made
        after = ""
        while rows := await self._rows(kind, {"after": after, "since": since, "limit": _BATCH}):
            after = rows[-1][0]
            made += await self._embed(kind, rows, None)
            self.told(made)
        if end > stored:
            await self.vectors.put([], [], Position(kind.name, end))
        return made

    async def _embed(self, kind: Kind, rows: list[Row], position: str | None) -> int:
        given = await sources(self.ledgers, kind, rows)
        wanted = await self.vectors.missing(given)
        reached = None if position is None else Position(kind.name, position)
        if wanted or reached:
            vectors: list[Any] = []
            for portion in _portions(wanted):
                vectors += await self._vectors(portion)
            await self.vectors.put(wanted, vectors, reached)
            await self._drop_forgotten(kind, wanted)
        return len(wanted)

    async def _vectors(self, portion: Sequence[Source]) -> list[Any]:
        """Embed a portion. A text that the model fails on gets None, and doesn't hold up the others."""
        embed = self.vectors.embedder.embed
        try:
            return list(await self.thread(embed, [source.text for source in portion]))
        except Exception as error:
            await self.thread(embed, [_PROBE])
            if len(portion) == 1:
                target = f"{portion[0].target_type} {portion[0].target_id}"
                _log.error("The text of %s could not be embedded: %s", target, type(error).__name__)
                return [None]
        half = len(portion) // 2
        return [*await self._vectors(portion[:half]), *await self._vectors(portion[half:])]

    async def _drop_forgotten(self, kind: Kind, made: list[Source]) -> None:
        """Drop the vectors of what was forgotten while they were being made."""
        ids = [source.target_id for source in made]
        gone = set(ids) - await present(self.ledgers, kind, ids)
        if gone:
            await self.vectors.drop(kind.name, gone)

    async def _rows(self, kind: Kind, bindings: dict[str, Any]) -> list[Row]:
        def work(connection: apsw.Connection) -> list[Row]:
            return cast("list[Row]", connection.execute(kind.sql("sources"), bindings).fetchall())

        return await kind.database(self.ledgers).read(work)

    async def _value(self, kind: Kind, what: str) -> Any:
        return await kind.database(self.ledgers).read(sql.value, kind.sql(what))

    async def _position(self, kind: Kind) -> str | None:
        return await self.vectors.position(kind.name)


async def embed_new(ledgers: Ledgers, vectors: Vectors, told: Told = lambda _: None) -> int:
    """Embed everything that has no vector of its present text; returns how many were made."""
    made = await Pass(ledgers=ledgers, vectors=vectors, told=told).run()
    await vectors.serve()
    return made


def _before(position: str) -> str:
    return clock.timestamp(clock.parse(position) - _OVERLAP) if position else ""


def _portions(given: Sequence[Source]) -> Iterator[list[Source]]:
    """Cut the texts, in order, into portions; a long one is a portion by itself."""
    portion: list[Source] = []
    size = 0
    for source in given:
        if portion and size + len(source.text) > _PORTION_CHARACTERS:
            yield portion
            portion, size = [], 0
        portion.append(source)
        size += len(source.text)
    if portion:
        yield portion
