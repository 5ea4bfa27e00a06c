"""Authored lives: read one from its folder, check it, and put it into a home.

    python bench/life_data.py FOLDER…

checks each folder and lists what is wrong. `bench/lives/README.md` documents the format.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import apsw

from nexus import ids
from nexus.ledgers import Ledgers

Row = dict[str, Any]
As = Literal["facts", "messages", "both"]

ANSWERED = ("paraphrase", "direct", "other_person", "temporal", "update", "multi", "why")
UNANSWERED = ("near", "far")
_ENTITY_TYPES = {"person", "pet", "place", "organisation", "project", "thing"}
_MOST_SHARED = 0.1  # of the paraphrases may share a content word with their evidence
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?Z)?")


@dataclass(frozen=True, slots=True)
class Life:
    """One invented person: what is known, what was said, what is asked."""

    name: str
    persona: Row
    entities: list[Row]
    facts: list[Row]
    messages: list[Row]
    questions: list[Row]
    tasks: list[Row]
    writer: list[Row]

    @property
    def language(self) -> str:
        return str(self.persona["language"])


def read(folder: Path) -> Life:
    """Read a life; files that a folder lacks are empty."""
    persona = json.loads((folder / "persona.json").read_text(encoding="utf-8"))
    names = ("entities", "facts", "messages", "questions", "tasks", "writer")
    return Life(folder.name, persona, *(_rows(folder / f"{name}.jsonl") for name in names))


def problems(life: Life) -> list[str]:
    """Everything that makes a life unfit to measure with."""
    found = [*_references(life), *_dates(life), *_questions(life)]
    shared = [id_ for id_, words in _overlaps(life) if words]
    paraphrases = sum(question["kind"] == "paraphrase" for question in life.questions)
    if len(shared) > _MOST_SHARED * paraphrases:
        found.append(f"paraphrases that share words with their evidence: {', '.join(shared)}")
    return found


@dataclass(frozen=True, slots=True)
class Filled:
    """Where each thing of a life is in its home."""

    keys_of_fact: dict[str, str]  # fact id → key
    keys_of_event: dict[str, frozenset[str]]  # event id → keys of the facts that it states

    def keys(self, id_: str) -> frozenset[str]:
        """The keys of the facts that a result states."""
        if id_ in self.keys_of_fact:
            return frozenset({self.keys_of_fact[id_]})
        return self.keys_of_event.get(id_, frozenset())


async def fill(ledgers: Ledgers, life: Life, what: As) -> Filled:
    """Record the life's entities, messages and facts. What replaced what is not told."""
    entity_ids = {row["key"]: ids.new("ent") for row in life.entities}
    event_ids = {row["key"]: ids.new("evt") for row in life.messages} if what != "facts" else {}
    fact_ids = {row["key"]: ids.new("fact") for row in life.facts} if what != "messages" else {}
    await ledgers.identity.write(lambda c: _write_entities(c, life, entity_ids))
    await ledgers.events.write(lambda c: _write_events(c, life, event_ids))
    await ledgers.memory.write(lambda c: _write_facts(c, life, fact_ids, entity_ids, event_ids))
    said: dict[str, set[str]] = {}
    for row in life.facts:
        if row.get("message") in event_ids:
            said.setdefault(event_ids[row["message"]], set()).add(row["key"])
    return Filled(
        {id_: key for key, id_ in fact_ids.items()}, {id_: frozenset(keys) for id_, keys in said.items()}
    )


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
                (ids.new("ali"), id_, alias, "email" if "@" in alias else "name", normalized),
            )
        if name == life.persona["owner"]:
            connection.execute(
                "INSERT INTO persons (id, entity_id, display_name, is_owner) VALUES (?, ?, ?, 1)",
                (ids.new("per"), id_, name),
            )


def _write_events(connection: apsw.Connection, life: Life, event_ids: dict[str, str]) -> None:
    names = {row["key"]: row["name"] for row in life.entities} | {"me": "owner", "assistant": "nexus"}
    threads: dict[Any, str] = {}
    for row in life.messages if event_ids else ():
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


def _moment(text: str) -> str:
    if "T" not in text:
        return f"{text}T09:00:00.000Z"
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = whole if whole.count(":") == 2 else f"{whole}:00"
    return f"{seconds}.{(fraction or '0').ljust(3, '0')[:3]}Z"


def _references(life: Life) -> Iterator[str]:
    entities = {row["key"] for row in life.entities}
    facts = {row["key"] for row in life.facts}
    messages = {row["key"] for row in life.messages}
    for rows, key in (
        (life.entities, "key"),
        (life.facts, "key"),
        (life.messages, "key"),
        (life.questions, "id"),
        (life.tasks, "id"),
    ):
        yield from (f"{id_} occurs twice" for id_, n in Counter(row[key] for row in rows).items() if n > 1)
    if not any(row["name"] == life.persona["owner"] for row in life.entities):
        yield "the owner is no entity"
    for row in life.entities:
        if row["type"] not in _ENTITY_TYPES:
            yield f"{row['key']}: unknown type {row['type']}"
    for row in life.facts:
        yield from (f"{row['key']}: about unknown {key}" for key in row["about"] if key not in entities)
        if row.get("message") not in {*messages, None}:
            yield f"{row['key']}: unknown message {row['message']}"
        if row.get("replaced_by") not in {*facts, None}:
            yield f"{row['key']}: replaced by unknown {row['replaced_by']}"
    for row in life.messages:
        if row["speaker"] not in entities | {"me", "assistant"}:
            yield f"{row['key']}: unknown speaker {row['speaker']}"
    for row in life.questions:
        named = [*row["evidence"], *row.get("wrong", [])]
        yield from (f"{row['id']}: unknown fact {key}" for key in named if key not in facts)
    for row in life.tasks:
        yield from (
            f"{row['id']}: unknown fact {key}" for key in row["must"] + row["may"] if key not in facts
        )
        if (row["kind"] == "needs") != bool(row["must"]):
            yield f"{row['id']}: kind {row['kind']} with must {row['must']}"
    sessions = {row["session"] for row in life.messages}
    yield from (
        f"writer: unknown session {r['session']}" for r in life.writer if r["session"] not in sessions
    )


def _dates(life: Life) -> Iterator[str]:
    facts = {row["key"]: row for row in life.facts}
    for row in life.facts:
        if not _DATE.fullmatch(row["as_of"]) or row["as_of"][:10] > life.persona["now"][:10]:
            yield f"{row['key']}: as_of {row['as_of']}"
        later = facts.get(row.get("replaced_by", ""))
        if later is not None and later["as_of"] <= row["as_of"]:
            yield f"{row['key']}: replaced by the older {later['key']}"
    for row in life.messages:
        if not _DATE.fullmatch(row["time"]):
            yield f"{row['key']}: time {row['time']}"


def _questions(life: Life) -> Iterator[str]:
    replaced = {row["key"] for row in life.facts if row.get("replaced_by")}
    for row in life.questions:
        if row["kind"] not in (*ANSWERED, *UNANSWERED):
            yield f"{row['id']}: unknown kind {row['kind']}"
        if (row["kind"] in ANSWERED) != bool(row["evidence"]):
            yield f"{row['id']}: kind {row['kind']} with evidence {row['evidence']}"
        if row["kind"] == "update" and (not row.get("wrong") or set(row["evidence"]) & replaced):
            yield f"{row['id']}: an update needs what is wrong, and evidence that still holds"


def _overlaps(life: Life) -> Iterator[tuple[str, set[str]]]:
    """The beginnings of words that a paraphrase shares with its evidence, names left out."""
    facts = {row["key"]: row["text"] for row in life.facts}
    names = {
        word
        for row in life.entities
        for alias in (row["name"], *row.get("aliases", []))
        for word in _beginnings(alias)
    }
    for row in life.questions:
        if row["kind"] == "paraphrase" and row.get("lang", life.language) == life.language:
            words = _beginnings(row["text"]) - names
            yield row["id"], {w for key in row["evidence"] for w in words & _beginnings(facts.get(key, ""))}


# Words of four letters and more that carry no content.
_COMMON = re.compile(
    r"have|does|what|when|where|which|with|from|that|this|there|about|much|many|they|them|their|your|should|"
    r"would|could|need|been|will|than|then|some|more|most|only|into|over|after|before"
)


def _beginnings(text: str) -> set[str]:
    return {
        word[:5] for word in re.findall(r"\w+", text.lower()) if len(word) > 3 and not _COMMON.fullmatch(word)
    }


def _rows(file: Path) -> list[Row]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    failed = False
    for folder in map(Path, sys.argv[1:]):
        life = read(folder)
        for problem in problems(life):
            failed = True
            print(f"{life.name}: {problem}")
        kinds = Counter(question["kind"] for question in life.questions)
        print(f"{life.name}: {len(life.facts)} facts, {len(life.messages)} messages, {dict(kinds)}")
    sys.exit(failed)
