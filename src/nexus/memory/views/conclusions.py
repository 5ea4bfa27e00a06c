"""Observations and mental models: what was concluded, what it rests on, and whether it is stale."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from nexus.errors import MissingError
from nexus.ledgers import Ledgers, sql
from nexus.memory.views import names
from nexus.memory.views.page import (
    ALWAYS,
    LAST,
    Page,
    Period,
    list_columns,
    make_page,
    name_columns,
    parse_cursor,
)

Kind = Literal["observation", "mental_model"]
_MOST_SOURCES = 100
# How the ledger writes why a conclusion is stale: a fact's id follows.
_NEWER = "newer: "


@dataclass(frozen=True, kw_only=True, slots=True)
class Conclusion:
    """An observation or a mental model, in one version."""

    id: str
    name: str | None
    """Only mental models have one."""
    subject_entity_id: str | None
    content: str
    version: int
    previous_version_id: str | None
    stale_at: str | None
    stale_reason: str | None
    source_request_id: str | None
    created_at: str
    sources: int
    kind: Kind
    subject: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What a conclusion rests on."""

    kind: Literal["fact", "observation", "mental_model"]
    id: str
    text: str
    event_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConclusionView:
    """One conclusion, whole, with all its versions."""

    conclusion: Conclusion
    sources: tuple[Source, ...]
    versions: tuple[Conclusion, ...]
    """The newest first; itself among them."""
    newer: Source | None
    """What was learned since and made it stale, where that was not forgotten."""


_STORED = list_columns(Conclusion, before="kind")
_QUERIES: dict[Kind, tuple[str, str]] = {
    "observation": ("observations_before", "observation_versions"),
    "mental_model": ("mental_models_before", "mental_model_versions"),
}


async def load_page(
    ledgers: Ledgers,
    kind: Kind,
    *,
    stale: bool = False,
    period: Period = ALWAYS,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[Conclusion]:
    """Load conclusions in their newest versions, the latest first; with `stale`, only stale ones."""
    (id_,) = parse_cursor(cursor, 1)
    values = {"id": id_, "stale": stale, "subjects": None, "limit": limit + 1}
    values |= {"since": period.since, "until": period.until}
    query = sql.queries("memory")[_QUERIES[kind][0]]
    found = await ledgers.memory.read(sql.rows, query, values)
    return make_page(await _describe(ledgers, kind, found), limit, lambda each: (each.id,))


async def load_about(
    ledgers: Ledgers, kind: Kind, entity_ids: Sequence[str], *, limit: int = 20
) -> tuple[Conclusion, ...]:
    """Load the newest conclusions about an entity, whichever of its ids they name."""
    subjects = json.dumps(list(entity_ids))
    values = {"id": LAST, "stale": False, "subjects": subjects, "limit": limit}
    values |= {"since": ALWAYS.since, "until": ALWAYS.until}
    query = sql.queries("memory")[_QUERIES[kind][0]]
    found = await ledgers.memory.read(sql.rows, query, values)
    return tuple(await _describe(ledgers, kind, found))


async def get(ledgers: Ledgers, kind: Kind, id_: str) -> ConclusionView:
    """Load one version of a conclusion."""
    versions, sources, newer = await ledgers.memory.read(_load_view, kind=kind, id_=id_)
    told = await _describe(ledgers, kind, versions)
    wanted = next((each for each in told if each.id == id_), None)
    if wanted is None:
        what = kind.replace("_", " ")
        raise MissingError(f"Unknown {what} {id_}", hint="It may have been deleted.")
    return ConclusionView(
        conclusion=wanted,
        sources=tuple(Source(kind=row[0], id=row[1], text=row[2], event_id=row[3]) for row in sources),
        versions=tuple(told),
        newer=Source(kind="fact", id=newer[0], text=newer[1], event_id=newer[2]) if newer else None,
    )


def _load_view(connection: apsw.Connection, kind: Kind, id_: str) -> Any:
    queries = sql.queries("memory")
    values = {"id": id_, "limit": _MOST_SOURCES}
    sources = sql.rows(connection, queries[f"sources_of_{kind}"], values)
    versions = sql.rows(connection, queries[_QUERIES[kind][1]], {"id": id_})
    reasons = [row[_STORED.index("stale_reason")] for row in versions if row[0] == id_]
    newer = json.dumps([(reasons[0] or "").removeprefix(_NEWER)] if reasons else [])
    return versions, sources, next(iter(sql.rows(connection, queries["texts_of_items"], (newer,))), None)


async def _describe(ledgers: Ledgers, kind: Kind, rows: list[tuple[Any, ...]]) -> list[Conclusion]:
    found = [name_columns(_STORED, row) for row in rows]
    known = await names.load_entity_names(ledgers, [row["subject_entity_id"] for row in found])
    return [Conclusion(**row, kind=kind, subject=known.get(row["subject_entity_id"] or "")) for row in found]
