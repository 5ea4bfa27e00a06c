"""Exams of the memory: what was asked for, what was found, and what is wrong with the rest."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

import apsw

from nexus.ledgers import sql
from nexus.ledgers.text import storable

Age = Literal["month", "year", "older"]
Kind = Literal["relationship", "attribute", "statement"]
Problem = Literal["hidden", "vector", "entity", "alias", "contradiction", "source"]
PROBLEMS: Final[dict[Problem, str]] = {
    "hidden": "can't be found",
    "vector": "can't be found by meaning",
    "entity": "may be filed under somebody else",
    "alias": "use a name that isn't known to be theirs",
    "contradiction": "contradict each other",
    "source": "have no source",
}
"""What is wrong with the facts of a finding, in the order in which people read it."""
_OF_ONE: Final[dict[Problem, str]] = {
    "alias": "uses a name that isn't known to be theirs",
    "source": "has no source",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How one sampled fact did. It counts as found if most of its questions find it."""

    fact_id: str
    age: Age
    kind: Kind
    entity_id: str | None
    asked: int
    found: int

    @property
    def is_found(self) -> bool:
        return 2 * self.found >= self.asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """A command that corrects what was found."""

    does: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something wrong with a fact."""

    problem: Problem
    fact_id: str
    fact: str
    detail: str
    fixes: tuple[Fix, ...]
    """The likeliest first."""
    other_fact_id: str | None = None
    other_fact: str | None = None
    entity_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exam:
    """One exam. Facts that were forgotten since are counted nowhere."""

    id: str
    sample_id: str
    """The exam that drew the sample: those with the same one can be compared."""
    created_at: str
    facts: int
    """How many facts held."""
    settings: dict[str, str]
    questioner: str | None
    cost_microusd: int = 0
    duration_ms: int = 0
    sampled: int = 0
    found: int = 0
    problems: dict[Problem, int] = field(default_factory=dict[Problem, int])

    @property
    def share(self) -> float:
        return self.found / self.sampled if self.sampled else 1.0

    @property
    def summary(self) -> str:
        """How it went, in the words that every surface uses."""
        things = f"{self.sampled:,} thing{'s' * (self.sampled != 1)}"
        of = things if self.sampled >= self.facts else f"a sample of {things} out of {self.facts:,}"
        return f"Of {of} you told me, I would find {self.found:,} ({self.share:.0%})."


def count_problem(problem: Problem, count: int) -> str:
    """Say of how many facts something is wrong."""
    what = "pair" if problem == "contradiction" else "fact"
    said = _OF_ONE.get(problem, PROBLEMS[problem]) if count == 1 else PROBLEMS[problem]
    return f"{count:,} {what}{'s' * (count != 1)}{' of facts' * (what == 'pair')} {said}"


def add(
    connection: apsw.Connection, exam: Exam, answers: Iterable[Answer], findings: Iterable[Finding]
) -> None:
    """Record an exam."""
    queries = sql.queries("memory")
    connection.execute(
        queries["add_exam"],
        {
            "id": exam.id,
            "sample_id": exam.sample_id,
            "facts": exam.facts,
            "settings": json.dumps(exam.settings),
            "questioner": exam.questioner,
            "cost_microusd": exam.cost_microusd,
            "duration_ms": exam.duration_ms,
            "created_at": exam.created_at,
        },
    )
    rows = [
        {
            "exam_id": exam.id,
            "fact_id": each.fact_id,
            "age": each.age,
            "kind": each.kind,
            "entity_id": each.entity_id,
            "asked": each.asked,
            "found": each.found,
        }
        for each in answers
    ]
    connection.executemany(queries["add_exam_answer"], rows)
    wrong = [
        {
            "exam_id": exam.id,
            "fact_id": each.fact_id,
            "kind": each.problem,
            "other_fact_id": each.other_fact_id,
            "entity_id": each.entity_id,
            "detail": storable(each.detail),
            "fixes": json.dumps([(fix.does, fix.command) for fix in each.fixes], ensure_ascii=False),
        }
        for each in findings
    ]
    connection.executemany(queries["add_exam_finding"], wrong)


def list_exams(connection: apsw.Connection, limit: int = 100) -> list[Exam]:
    """List exams with their counts, the newest first."""
    queries = sql.queries("memory")
    found = sql.rows(connection, queries["exams"], {"limit": limit})
    ids = json.dumps([row[0] for row in found])
    counts: dict[str, dict[Problem, int]] = {}
    for exam_id, problem, count in connection.execute(queries["exam_finding_counts"], (ids,)):
        counts.setdefault(cast("str", exam_id), {})[cast("Problem", problem)] = cast("int", count)
    return [
        Exam(
            id=id_,
            sample_id=sample_id,
            created_at=created_at,
            facts=facts,
            settings=json.loads(settings),
            questioner=questioner,
            cost_microusd=cost_microusd,
            duration_ms=duration_ms,
            sampled=sampled,
            found=count,
            problems={each: counts[id_][each] for each in PROBLEMS if each in counts.get(id_, {})},
        )
        for (
            id_,
            sample_id,
            created_at,
            facts,
            settings,
            questioner,
            cost_microusd,
            duration_ms,
            sampled,
            count,
        ) in found
    ]


def load_answers(connection: apsw.Connection, exam_id: str) -> list[Answer]:
    """Load how each sampled fact did."""
    found = sql.rows(connection, sql.queries("memory")["exam_answers"], (exam_id,))
    return [
        Answer(fact_id=id_, age=age, kind=kind, entity_id=entity_id, asked=asked, found=count)
        for id_, age, kind, entity_id, asked, count in found
    ]


def load_findings(connection: apsw.Connection, exam_id: str) -> list[Finding]:
    """Load what an exam found wrong."""
    rows = sql.rows(connection, sql.queries("memory")["exam_findings"], (exam_id,))
    found = [_finding(*row) for row in rows]
    order = list(PROBLEMS)
    return sorted(found, key=lambda each: order.index(each.problem))


def _finding(
    problem: Problem,
    fact_id: str,
    fact: str,
    other_id: str | None,
    other: str | None,
    entity_id: str | None,
    detail: str,
    fixes: str,
) -> Finding:
    return Finding(
        problem=problem,
        fact_id=fact_id,
        fact=fact,
        detail=detail,
        fixes=tuple(Fix(does=does, command=command) for does, command in json.loads(fixes)),
        other_fact_id=other_id,
        other_fact=other,
        entity_id=entity_id,
    )


def summarize(answers: Iterable[Answer], names: Mapping[str, str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Count what was found, and of how many, by age, kind and person, the most asked for first."""
    counts: dict[str, dict[str, tuple[int, int]]] = {"age": {}, "kind": {}, "person": {}}
    for each in answers:
        person = names.get(each.entity_id or "", "")
        for what, value in (("age", each.age), ("kind", each.kind), ("person", person)):
            found, asked = counts[what].get(value, (0, 0))
            counts[what][value] = found + each.is_found, asked + 1
    return {what: dict(sorted(some.items(), key=lambda item: -item[1][1])) for what, some in counts.items()}


def load_wordings(connection: apsw.Connection, model: str, fact_ids: Sequence[str]) -> dict[str, list[str]]:
    """Load the questions that a model wrote, by fact."""
    given: dict[str, Any] = {"model": model, "facts": json.dumps(list(fact_ids))}
    found: dict[str, list[str]] = {}
    for id_, question in sql.rows(connection, sql.queries("memory")["exam_wordings"], given):
        found.setdefault(id_, []).append(question)
    return found


def add_wordings(
    connection: apsw.Connection, model: str, questions: Mapping[str, Sequence[str]], now: str
) -> None:
    """Keep the questions that a model wrote."""
    rows = [
        {"fact_id": id_, "model": model, "number": number, "question": storable(question), "now": now}
        for id_, some in questions.items()
        for number, question in enumerate(some, start=1)
    ]
    connection.executemany(sql.queries("memory")["add_exam_wording"], rows)
