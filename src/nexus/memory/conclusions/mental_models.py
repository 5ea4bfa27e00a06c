"""Mental models: what reflection concluded, in versions, with what each rests on."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, cast

import apsw

from nexus.errors import UsageError
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.sql import rows
from nexus.ledgers.text import storable
from nexus.memory.conclusions import batches
from nexus.memory.conclusions.batches import SQL, most

_MODEL: Final = (
    "id", "name", "subject_entity_id", "content", "version", "previous_version_id", "stale_at",
    "stale_reason", "source_request_id", "metadata_json", "created_at",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class MentalModel:
    """One version of a mental model."""

    id: str
    name: str
    question: str
    """What it answers."""
    content: str
    version: int
    previous_version_id: str | None
    subject_entity_id: str | None
    stale_at: str | None
    stale_reason: str | None
    source_request_id: str | None
    created_at: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewModel:
    """A version before it is recorded. Without `previous_id` it follows the newest one of its name."""

    name: str
    question: str
    content: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    """Kind and id of what it rests on."""
    previous_id: str | None = None


async def append(ledgers: Ledgers, new: NewModel, *, id_: str, request_id: str | None, now: str) -> str:
    """Record a version; the same id again changes nothing. Returns the id."""
    found = await ledgers.memory.read(batches.subjects, [source for _, source in new.sources])
    roots = await batches.roots_of_entities(ledgers, found.values())
    subject = most(roots.get(entity, (entity, ""))[0] for entity in found.values())

    def work(connection: apsw.Connection) -> None:
        if connection.execute(SQL["model"], (id_,)).fetchone() is not None:
            return
        previous, version = _previous(connection, new)
        connection.execute(
            SQL["add_model"],
            {
                "id": id_,
                "name": storable(new.name),
                "subject": subject,
                "content": storable(new.content),
                "version": version + 1,
                "previous": previous,
                "request": request_id,
                "metadata": json.dumps({"question": storable(new.question)}, ensure_ascii=False),
                "now": now,
            },
        )
        connection.executemany(SQL["add_model_source"], [(id_, kind, source) for kind, source in new.sources])

    await ledgers.memory.write(work)
    return id_


async def followed(ledgers: Ledgers, new: NewModel) -> str | None:
    """The version that a new one would follow."""
    return (await ledgers.memory.read(_previous, new))[0]


async def newest(ledgers: Ledgers, reference: str) -> MentalModel:
    """The newest version of the mental model with that id, in any version, or that name."""

    def work(connection: apsw.Connection) -> MentalModel | None:
        for query in ("newest_version_of_model", "model_named"):
            found = rows(connection, SQL[query], (reference,))
            if found:
                return _model(rows(connection, SQL["model"], (found[0][0],))[0])
        return None

    found = await ledgers.memory.read(work)
    if found is None:
        raise UsageError(f"Unknown mental model {reference!r}", hint="List them with `nexus reflect --list`.")
    return found


async def listed(ledgers: Ledgers, *, stale: bool = False, limit: int = 50) -> list[MentalModel]:
    """Mental models in their last version, the newest first."""
    given = {"stale": stale, "limit": limit}
    found = await ledgers.memory.read(rows, SQL["listed_models"], given)
    return [_model(row) for row in found]


async def to_refresh(ledgers: Ledgers, *, made_until: str, limit: int) -> list[str]:
    """Those that are stale and were made by a moment, the longest stale first; none that failed since."""
    given = {"made_until": made_until, "limit": limit}
    return [row[0] for row in await ledgers.memory.read(rows, SQL["models_to_refresh"], given)]


async def note_failure(
    ledgers: Ledgers, model_id: str, *, reason: str, request_id: str | None, now: str
) -> None:
    """Note that a mental model could not be refreshed, and why."""
    given = {"model": model_id, "detail": storable(reason), "request": request_id, "now": now}
    await ledgers.memory.write(sql.run, SQL["note_model"], given)


async def told(ledgers: Ledgers, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Facts, observations and mental models as sources: kind, id, time, text, and since when it is stale."""
    found = await ledgers.memory.read(rows, SQL["told"], (json.dumps(list(ids)),))
    return [dict(zip(("kind", "id", "at", "text", "stale_since"), row, strict=True)) for row in found]


async def sources(ledgers: Ledgers, model_id: str) -> list[dict[str, Any]]:
    """What a version rests on."""
    found = await ledgers.memory.read(rows, SQL["sources_of_model"], (model_id,))
    return await told(ledgers, [row[1] for row in found])


def _previous(connection: apsw.Connection, new: NewModel) -> tuple[str | None, int]:
    query, value = ("model_named", new.name)
    if new.previous_id is not None:
        query, value = ("newest_version_of_model", new.previous_id)
    found = rows(connection, SQL[query], (value,))
    return cast("tuple[str | None, int]", found[0]) if found else (None, 0)


def _model(row: Sequence[Any]) -> MentalModel:
    fields = dict(zip(_MODEL, row, strict=True))
    metadata = json.loads(fields.pop("metadata_json"))
    return MentalModel(question=metadata.get("question") or fields["name"], **fields)
