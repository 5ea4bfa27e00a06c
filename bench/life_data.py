"""Lives in homes: what a life knows and says, put straight into the ledgers, without a model.

`nexus eval check FOLDER…` validates lives; `bench/lives/README.md` documents the format.
"""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import apsw
from setting import embedder_for

from nexus import clock, ids
from nexus.config import LedgersConfig
from nexus.evaluation.life import ANSWERED, UNANSWERED, Life, Row, problems, read
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.embedding import Embedder, Vectors, embed_new
from nexus.memory.facts import CLAIM
from nexus.memory.normalisation import guess_type
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import Reranker
from nexus.memory.succession import derive

__all__ = [
    "ANSWERED",
    "UNANSWERED",
    "As",
    "Filled",
    "Life",
    "Links",
    "Row",
    "fill",
    "home_of",
    "problems",
    "read",
]

As = Literal["facts", "messages", "both"]
Links = Literal["derived", "stated", "claimed"]
"""Who says what replaced what: nobody, a person, or the memory writer, whom the judge checks."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Where each thing of a life is in its home."""

    keys_of_fact: dict[str, str]  # fact id → key
    keys_of_event: dict[str, frozenset[str]]  # event id → keys of the facts that it states
    events: frozenset[str]

    def keys(self, id_: str) -> frozenset[str]:
        """The keys of the facts that a result states."""
        if id_ in self.keys_of_fact:
            return frozenset({self.keys_of_fact[id_]})
        return self.keys_of_event.get(id_, frozenset())


async def fill(ledgers: Ledgers, life: Life, what: As, links: Links = "derived") -> Filled:
    """Record the life's entities, messages and facts.

    Facts have their messages as sources in every form. As facts, the messages are no candidates.
    """
    entity_ids = {row["key"]: ids.new("ent") for row in life.entities}
    event_ids = {row["key"]: ids.new("evt") for row in life.messages}
    fact_ids = {row["key"]: ids.new("fact") for row in life.facts} if what != "messages" else {}
    await ledgers.identity.write(_write_entities, life, entity_ids)
    await ledgers.events.write(_write_events, life, event_ids)
    await ledgers.memory.write(_write_facts, life, fact_ids, entity_ids, event_ids)
    if links != "derived" and fact_ids:
        await ledgers.memory.write(_write_links, life, fact_ids, 1.0 if links == "stated" else CLAIM)
    said: dict[str, set[str]] = {}
    for row in life.facts:
        if row.get("message") in event_ids:
            said.setdefault(event_ids[row["message"]], set()).add(row["key"])
    return Filled(
        {id_: key for key, id_ in fact_ids.items()},
        {id_: frozenset(keys) for id_, keys in said.items()},
        frozenset(event_ids.values()),
    )


@asynccontextmanager
async def home_of(
    life: Life, what: As, *, reranker: Reranker | None = None, links: Links = "derived"
) -> AsyncGenerator[tuple[Recall, Filled, Embedder]]:
    """A temporary home that holds the life, embedded and with its successions, asked at the life's time."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch) / "home")
        home.create()
        async with Ledgers(home, LedgersConfig(synchronous="normal")) as opened:
            filled = await fill(opened, life, what, links)
            vectors = Vectors(opened.embeddings, embedder_for(life.language))
            await embed_new(opened, vectors)
            await vectors.mirror.refresh()
            await derive(opened, vectors)
            recall = Recall(
                opened,
                vectors,
                without=filled.events if what == "facts" else frozenset(),
                now=lambda: clock.parse(life.persona["now"]),
                reranker=reranker,
            )
            yield recall, filled, vectors.embedder


def _write_entities(connection: apsw.Connection, life: Life, entity_ids: dict[str, str]) -> None:
    for row in life.entities:
        id_, name = entity_ids[row["key"]], row["name"]
        connection.execute(
            "INSERT INTO entities (id, type, canonical_name, normalized_name) VALUES (?, ?, ?, ?)",
            (id_, row["type"].capitalize(), name, name.lower()),
        )
        first = [name.split()[0]] if row["type"] == "person" else []
        aliases = {alias.lower(): alias for alias in [name, *first, *row.get("aliases", [])]}
        for normalized, alias in aliases.items():
            connection.execute(
                "INSERT INTO entity_aliases (id, entity_id, alias, type, normalized) VALUES (?, ?, ?, ?, ?)",
                (ids.new("ali"), id_, alias, guess_type(alias), normalized),
            )
        if name == life.persona["owner"]:
            connection.execute(
                "INSERT INTO persons (id, entity_id, display_name, is_owner) VALUES (?, ?, ?, 1)",
                (ids.new("per"), id_, name),
            )


def _write_events(connection: apsw.Connection, life: Life, event_ids: dict[str, str]) -> None:
    names = {row["key"]: row["name"] for row in life.entities} | {"me": "owner", "assistant": "nexus"}
    threads: dict[Any, str] = {}
    for row in life.messages:
        if row["session"] not in threads:
            threads[row["session"]] = ids.new("thr")
            connection.execute(
                "INSERT INTO threads (id, channel, external_id) VALUES (?, 'cli', ?)",
                (threads[row["session"]], f"session {row['session']}"),
            )
        connection.execute(
            "INSERT INTO events (id, thread_id, channel, direction, sender, content, occurred_at)"
            " VALUES (?, ?, 'cli', ?, ?, ?, ?)",
            (
                event_ids[row["key"]],
                threads[row["session"]],
                "outbound" if row["speaker"] == "assistant" else "inbound",
                names[row["speaker"]],
                row["text"],
                _moment(row["time"]),
            ),
        )


def _write_facts(
    connection: apsw.Connection,
    life: Life,
    fact_ids: dict[str, str],
    entity_ids: dict[str, str],
    event_ids: dict[str, str],
) -> None:
    for row in life.facts if fact_ids else ():
        about = [entity_ids[key] for key in row.get("about", []) if key in entity_ids]
        at = _moment(row["as_of"])
        connection.execute(
            "INSERT INTO facts (id, source_entity_id, target_entity_id, fact, source_type, as_of,"
            " source_event_id, created_at, valid_at) VALUES (?, ?, ?, ?, 'self_disclosed', ?, ?, ?, ?)",
            (
                fact_ids[row["key"]],
                about[0] if about else None,
                about[1] if len(about) > 1 else None,
                row["text"],
                at,
                event_ids.get(row.get("message", "")),
                at,
                at,
            ),
        )
        for entity_id in about[2:]:
            connection.execute(
                "INSERT INTO fact_entities (fact_id, entity_id) VALUES (?, ?)",
                (fact_ids[row["key"]], entity_id),
            )


def _write_links(
    connection: apsw.Connection, life: Life, fact_ids: dict[str, str], confidence: float
) -> None:
    for row in life.facts:
        if row.get("replaced_by"):
            connection.execute(
                "INSERT INTO causal_links (id, cause_fact_id, effect_fact_id, relation, confidence, how)"
                " VALUES (?, ?, ?, 'replaced', ?, ?)",
                (
                    ids.new("cau"),
                    fact_ids[row["key"]],
                    fact_ids[row["replaced_by"]],
                    confidence,
                    row.get("how"),
                ),
            )


def _moment(text: str) -> str:
    if "T" not in text:
        return f"{text}T09:00:00.000Z"
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = whole if whole.count(":") == 2 else f"{whole}:00"
    return f"{seconds}.{(fraction or '0').ljust(3, '0')[:3]}Z"
