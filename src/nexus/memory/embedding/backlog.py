"""How much waits to be embedded, and since when: counted from the ledgers themselves."""

from dataclasses import dataclass
from datetime import datetime
from typing import cast

import apsw

from nexus import clock
from nexus.ledgers import Ledgers
from nexus.memory.embedding.sources import KINDS, SQL, Kind
from nexus.memory.embedding.vectors import serving_model


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
    """What that model has still to do."""
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
