"""Lives: authored data sets about one invented person, read from a folder and validated.

A life holds what was said, what a careful memory would have stored, and the questions that people ask
afterwards. `docs/how-to/evaluate-a-model.md` documents the format.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from nexus import clock
from nexus.errors import UsageError

Row = dict[str, Any]

ANSWERED = ("paraphrase", "direct", "other_person", "temporal", "update", "past", "multi", "why")
UNANSWERED = ("near", "far")
HOW = ("corrected", "changed", "cancelled")
"""How a fact came to be replaced: it was never true, was true, or was called off."""
_ENTITY_TYPES = {"person", "pet", "place", "organisation", "project", "thing"}
_MOST_SHARED = 0.1  # of the paraphrases may share a content word with their evidence
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?Z)?")


@dataclass(frozen=True)
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

    @property
    def owner(self) -> str:
        return str(self.persona["owner"])

    @property
    def asked_at(self) -> datetime:
        """When the questions are asked."""
        return clock.parse(self.persona["now"])

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each entity, by key."""
        return {row["key"]: row["name"] for row in self.entities}

    @cached_property
    def sessions(self) -> dict[str, list[Row]]:
        """The messages of each session, in order; sessions by the time of their first message."""
        found: dict[str, list[Row]] = {}
        for row in self.messages:
            found.setdefault(str(row["session"]), []).append(row)
        return dict(sorted(found.items(), key=lambda each: clock.parse(each[1][0]["time"])))

    @cached_property
    def session_of(self) -> dict[str, str]:
        """The session of each message, by key."""
        return {row["key"]: str(row["session"]) for row in self.messages}

    def shorten(self, sessions: int | None, questions: int | None) -> "Life":
        """Return the first sessions, and the first of the questions that they can answer."""
        kept = set(list(self.sessions)[:sessions])
        messages = [row for row in self.messages if str(row["session"]) in kept]
        said = {row["key"] for row in messages}
        # A fact that no message states can't be learned from the sessions.
        facts = [row for row in self.facts if row.get("message") in said]
        keys = {row["key"] for row in facts}
        asked = [row for row in self.questions if keys.issuperset(row["evidence"])]
        return replace(
            self,
            facts=facts,
            messages=messages,
            questions=spread(asked, questions),
            writer=[row for row in self.writer if str(row["session"]) in kept],
        )


def spread(rows: list[Row], limit: int | None) -> list[Row]:
    """At most so many rows, taken evenly: data sets list one kind of question after the other."""
    if limit is None or limit >= len(rows):
        return rows
    return [rows[place * len(rows) // limit] for place in range(limit)]


def read(folder: Path) -> Life:
    """Read a life; files that a folder lacks are empty."""
    file = folder / "persona.json"
    if not file.exists():
        raise UsageError(f"{folder} is not a life: persona.json is missing", hint=_FORMAT)
    names = ("entities", "facts", "messages", "questions", "tasks", "writer")
    persona = json.loads(file.read_text(encoding="utf-8"))
    return Life(folder.name, persona, *(_rows(folder / f"{name}.jsonl") for name in names))


_FORMAT = "`nexus eval check FOLDER` validates a folder; the format is in docs/how-to/evaluate-a-model.md."


def problems(life: Life) -> list[str]:
    """Return everything that makes a life unfit to measure with."""
    found = [*_references(life), *_dates(life), *_questions(life)]
    shared = [id_ for id_, words in _overlaps(life) if words]
    paraphrases = sum(question["kind"] == "paraphrase" for question in life.questions)
    if len(shared) > _MOST_SHARED * paraphrases:
        found.append(f"paraphrases that share words with their evidence: {', '.join(shared)}")
    return found


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
        if row.get("how") not in {*HOW, None} or (row.get("how") and not row.get("replaced_by")):
            yield f"{row['key']}: how {row['how']}"
        yield from (
            f"{row['key']}: unknown fact {key}" for key in row.get("distinct_from", ()) if key not in facts
        )
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
        aliases = row.get("aliases", [])
        yield from (f"{row['id']}: unknown entity" for alias in aliases if alias["entity"] not in entities)
        if (row["kind"] == "needs") != bool(row["must"] or aliases):
            yield f"{row['id']}: kind {row['kind']} with must {row['must']}"
    sessions = {row["session"] for row in life.messages}
    yield from (
        f"writer: unknown session {r['session']}" for r in life.writer if r["session"] not in sessions
    )


def _dates(life: Life) -> Iterator[str]:
    facts = {row["key"]: row for row in life.facts}
    places = {row["key"]: place for place, row in enumerate(life.facts)}
    for row in life.facts:
        if not _DATE.fullmatch(row["as_of"]) or row["as_of"][:10] > life.persona["now"][:10]:
            yield f"{row['key']}: as_of {row['as_of']}"
        later = facts.get(row.get("replaced_by", ""))
        # A slip and its correction in one message have the same time; the correction comes later in the file.
        if later is not None and (later["as_of"], places[later["key"]]) <= (row["as_of"], places[row["key"]]):
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
        if row["kind"] == "past" and not set(row["evidence"]) <= replaced:
            yield f"{row['id']}: the past is asked about, and its evidence still holds"


def _overlaps(life: Life) -> Iterator[tuple[str, set[str]]]:
    """Yield the beginnings of words that a paraphrase shares with its evidence, names left out."""
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
    rows: list[Row] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise UsageError(f"{file} line {number} is not valid JSON: {error}", hint=_FORMAT) from None
    return rows
