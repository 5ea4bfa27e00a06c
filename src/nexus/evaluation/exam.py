"""An exam on the home's own memory: are the facts that it holds found, consistent, and still sourced?

A sample of the facts that hold is drawn once and asked for again in later exams, so that these show what a
change of settings, model or version did. Nothing is asked of a model unless one is named.
"""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import apsw

from nexus import __version__, clock, ids
from nexus.evaluation import exam_checks
from nexus.evaluation.exam_questions import Asked, Sampled, make_questions
from nexus.ledgers import Ledgers, sql
from nexus.ledgers.memory import exams
from nexus.ledgers.memory.exams import Age, Answer, Exam, Finding, Kind
from nexus.ledgers.sql import load_statements
from nexus.memory.embedding import Vectors
from nexus.memory.normalisation import normalize
from nexus.memory.recall.item import KIND_NAMES, Query
from nexus.memory.recall.reading import SQL as RECALL
from nexus.memory.recall.recall import Recall

SQL: Final = load_statements(Path(__file__).with_name("exam.sql"))

SAMPLE: Final = 300
DEPTH: Final = 5
"""Results among which a fact must be."""
_DEADLINE_MS: Final = 60_000
"""What is found must not depend on what else the machine does."""
_KINDS: Final = frozenset(KIND_NAMES.values()) - {"event"}
"""Messages aren't asked for: an exam is about what was learned from them."""
_MONTH: Final = timedelta(days=30)
_YEAR: Final = timedelta(days=365)
_AGES: Final[tuple[Age, ...]] = ("month", "year", "older")

Progress = Callable[[int, int], None]
"""Hears how many facts of how many were asked for."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A fact that holds."""

    id: str
    age: Age
    kind: Kind
    entity_id: str | None
    opening: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One exam with everything behind it."""

    exam: Exam
    answers: list[Answer]
    findings: list[Finding]
    previous: Exam | None
    """The last exam of the same sample."""
    previously_found: int = 0
    """How many of the facts that were asked for now were found then."""

    @property
    def is_worse(self) -> bool:
        """Whether less was found than in the last exam of the same sample, or more is wrong.

        Facts that were replaced or rejected since don't count.
        """
        if self.previous is None:
            return False
        before, now = self.previous.problems, self.exam.problems
        counted = ("contradiction", "source")
        return self.exam.found < self.previously_found or any(
            now.get(each, 0) > before.get(each, 0) for each in counted
        )


@dataclass(kw_only=True)
class Drawn:
    """A sample, ready to be asked for."""

    sample_id: str | None
    """The exam that drew it; None for a new one."""
    standing: list[Standing]
    chosen: list[Standing]
    facts: list[Sampled]


async def draw(
    ledgers: Ledgers,
    *,
    size: int | None = None,
    is_new: bool = False,
    now: clock.Clock = clock.now,
    seed: int = 0,
) -> Drawn:
    """Draw a sample, or the one of the last exam unless a new one or another size is wanted."""
    standing = await _load_standing(ledgers, now)
    last = None if is_new else next(iter(await ledgers.memory.read(exams.list_exams, 1)), None)
    chosen: list[Standing] = []
    if last is not None and size is None:
        asked = {each.fact_id for each in await ledgers.memory.read(exams.load_answers, last.id)}
        chosen = [each for each in standing if each.id in asked]
    sample_id = last.sample_id if last is not None and chosen else None
    if not chosen:
        chosen = choose_sample(standing, size or SAMPLE, seed)
    return Drawn(
        sample_id=sample_id, standing=standing, chosen=chosen, facts=await _load_sampled(ledgers, chosen)
    )


def choose_sample(standing: Sequence[Standing], size: int, seed: int = 0) -> list[Standing]:
    """Choose facts of every age, kind and person in proportion: every so many of them, sorted by these."""
    if size >= len(standing):
        return list(standing)
    shuffled = list(standing)
    randomness = random.Random(seed)  # noqa: S311 - no secret
    randomness.shuffle(shuffled)
    shuffled.sort(key=lambda each: (_AGES.index(each.age), each.kind, each.entity_id or ""))
    step = len(shuffled) / size
    start = randomness.random() * step
    return [shuffled[int(start + number * step)] for number in range(size)]


async def examine(
    ledgers: Ledgers,
    recall: Recall,
    vectors: Vectors | None,
    drawn: Drawn,
    *,
    settings: dict[str, str],
    questioner: str | None = None,
    questions: Mapping[str, Sequence[str]] | None = None,
    cost_microusd: int = 0,
    progress: Progress | None = None,
    now: clock.Clock = clock.now,
) -> Result:
    """Ask for every fact of a sample, look for what is wrong with each, and record it all.

    `questions` are those in ordinary words, by fact; the others are asked for in the ledger's words.
    """
    started = time.monotonic()
    answers: list[Answer] = []
    for number, (each, fact) in enumerate(_pair(drawn), start=1):
        worded = (questions or {}).get(fact.id)
        asked = [Asked(text=text) for text in worded] if worded else make_questions(fact)
        found = sum([await is_found(recall, fact, question) for question in asked])
        answers.append(
            Answer(
                fact_id=fact.id,
                age=each.age,
                kind=each.kind,
                entity_id=each.entity_id,
                asked=len(asked),
                found=found,
            )
        )
        if progress is not None:
            progress(number, len(drawn.facts))
    openings = [(each.entity_id, each.opening) for each in drawn.standing]
    findings = await exam_checks.find_problems(ledgers, vectors, drawn.facts, answers, openings)
    history = await ledgers.memory.read(exams.list_exams, -1)
    id_ = ids.new("exm")
    sample_id = drawn.sample_id or id_
    exam = Exam(
        id=id_,
        sample_id=sample_id,
        created_at=clock.timestamp(now()),
        facts=len(drawn.standing),
        settings={"version": __version__, **settings},
        questioner=questioner,
        cost_microusd=cost_microusd,
        duration_ms=round((time.monotonic() - started) * 1000),
    )
    await ledgers.memory.write(exams.add, exam, answers, findings)
    recorded = next(each for each in await ledgers.memory.read(exams.list_exams, -1) if each.id == id_)
    # What a model asks is harder than the ledger's own words.
    alike = (each for each in history if (each.sample_id, each.questioner) == (sample_id, questioner))
    previous = next(alike, None)
    before = await ledgers.memory.read(exams.load_answers, previous.id) if previous else []
    now_asked = {each.fact_id for each in answers}
    return Result(
        exam=recorded,
        answers=answers,
        findings=findings,
        previous=previous,
        previously_found=sum(each.is_found for each in before if each.fact_id in now_asked),
    )


async def is_found(recall: Recall, fact: Sampled, question: Asked) -> bool:
    """Whether a question brings up a fact, something that says the same, or the fact as pinned."""
    query = Query(
        text=question.text,
        kinds=_KINDS,
        entity_id=question.entity,
        max_results=DEPTH,
        budget="low",  # as for the memories that a message gets
        deadline_ms=_DEADLINE_MS,
    )
    answer = await recall.find(query)
    if fact.is_pinned and (fact.entity_ids & answer.named.keys()):
        return True
    return any(
        fact.stated_by & {match.item.id, *match.also} or _says_same(match.item.text, fact.text)
        for match in answer.results
    )


def _says_same(one: str, two: str) -> bool:
    return one.casefold().split() == two.casefold().split()


def _pair(drawn: Drawn) -> list[tuple[Standing, Sampled]]:
    facts = {fact.id: fact for fact in drawn.facts}
    return [(each, facts[each.id]) for each in drawn.chosen if each.id in facts]


async def _load_standing(ledgers: Ledgers, now: clock.Clock) -> list[Standing]:
    moment = now()
    month, year = (clock.timestamp(moment - span) for span in (_MONTH, _YEAR))
    rows = await ledgers.memory.read(sql.rows, SQL["standing"], {"now": clock.timestamp(moment)})
    return [
        Standing(
            id=id_,
            age="month" if at >= month else "year" if at >= year else "older",
            kind=kind,
            entity_id=entity_id,
            opening=opening,
        )
        for id_, at, kind, entity_id, opening in cast("list[tuple[str, str, Kind, str | None, str]]", rows)
    ]


async def _load_sampled(ledgers: Ledgers, chosen: Sequence[Standing]) -> list[Sampled]:
    """Load facts with whom and what they are tied to, what that is called, and what was said."""
    rows = await ledgers.memory.read(sql.rows, SQL["sampled"], (json.dumps([each.id for each in chosen]),))
    tied = {row[0]: [each for each in (row[3], row[4], *json.loads(row[9])) if each] for row in rows}
    entities = sorted({each for some in tied.values() for each in some})
    known = await ledgers.identity.read(_load_names, entities)
    events = json.dumps(sorted({row[6] for row in rows if row[6]}))
    said = dict(
        cast("list[tuple[str, str]]", await ledgers.events.read(sql.rows, SQL["messages"], (events,)))
    )
    requests = json.dumps(sorted({row[8] for row in rows if row[8]}))
    recorded = {row[0] for row in await ledgers.runtime.read(sql.rows, SQL["requests"], (requests,))}
    facts: list[Sampled] = []
    for row in rows:
        id_, text, relation, source, target, created_at, event, episode, request, _, seen, vouched, pinned = (
            row
        )
        message = said.get(event or "")
        subject = known.get(source or "")
        facts.append(
            Sampled(
                id=id_,
                text=text,
                created_at=created_at,
                relation_type=relation,
                subject_id=source,
                entity_ids=frozenset(
                    one for each in tied[id_] if each in known for one in known[each].family
                ),
                subject=subject and subject.choose(f"{text} {message or ''}"),
                names=subject.names if subject else frozenset(),
                is_owner=bool(subject and subject.is_owner),
                is_person=bool(subject and subject.is_person),
                target=known[target].name if target in known else None,
                message=message,
                stated_by=frozenset({id_, *json.loads(seen)}),
                names_somebody=any(
                    exam_checks.is_named(text, known[each].names) for each in tied[id_] if each in known
                ),
                is_sourced=bool(vouched or message is not None or episode or request in recorded),
                had_source=bool(event or request),
                is_pinned=bool(pinned),
            )
        )
    return facts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entity:
    """What an entity is called, with all that is one with it."""

    family: frozenset[str]
    name: str
    names: frozenset[str]
    is_owner: bool
    is_person: bool

    def choose(self, text: str) -> str:
        """Choose the name by which a text calls it, the longest of them; else its own."""
        said = f" {normalize(text)} "
        named = [name for name in self.names if f" {name} " in said or f" {name}'" in said]
        return max(named, key=len, default=self.name)


def _load_names(connection: apsw.Connection, entities: Sequence[str]) -> dict[str, _Entity]:
    given = json.dumps(list(entities))
    families: dict[str, set[str]] = {}
    for start, id_ in connection.execute(RECALL["families"], (given,)):
        families.setdefault(cast("str", start), set()).add(cast("str", id_))
    everyone = json.dumps(sorted({id_ for some in families.values() for id_ in some}))
    names: dict[str, set[str]] = {}
    for name, id_ in connection.execute(RECALL["called_like"], (everyone,)):
        names.setdefault(cast("str", id_), set()).add(cast("str", name))
    own = dict(cast("Any", connection.execute(RECALL["canonical_names"], (everyone,)).fetchall()))
    types = dict(cast("Any", connection.execute(RECALL["types"], (everyone,)).fetchall()))
    owners = {row[0] for row in connection.execute(RECALL["owner"])}
    return {
        start: _Entity(
            family=frozenset(family),
            name=own.get(start, ""),
            names=frozenset(name for each in family for name in names.get(each, ())),
            is_owner=bool(family & owners),
            is_person=str(types.get(start, "")).lower() in exam_checks.PERSONS,
        )
        for start, family in families.items()
    }
