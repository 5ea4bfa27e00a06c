"""The local triage: which of what recall found is worth putting before a task. No language model is asked.

Two roads lead in. Where recall's learned probability says that something here answers, the best is told and
what is nearly as good. And what is about somebody or something that the task names is told where little is
known of that; then what is about others stays out. What was replaced, or held until a time that has passed,
is never told. The two thresholds were chosen on the tuning half of LoCoMo (bench/injection.py), where a curve
shows what others would give; how many are told is a choice of ours.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nexus.memory.recall import Answer, Item, Kind, Result
from nexus.memory.recall.selection import token_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Where the lines are drawn."""

    answerable: float = 0.65  # how likely it must be that anything here answers
    gap: float = 1.25  # how far behind the best a score may lie
    few: int = 3  # of a named thing so much is told without further question
    most: int = 5  # at most so many, unless the task names more things than that
    most_named: int = 8
    most_tokens: int = 1_000


LIMITS: Final = Limits()
# What is about an entity. The entity itself is a name with aliases; the task has the name already.
_TELLING: Final[frozenset[Kind]] = frozenset({"fact", "observation", "mental_model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One result, whether it is told, and why."""

    result: Result
    chosen: bool
    why: str


def judge(answer: Answer, limits: Limits = LIMITS) -> list[Verdict]:
    """Every result in recall's order, with the verdict about it."""
    named = _named(answer.results)
    floor = max((result.score for result in answer.results if _may_be_told(result)), default=0.0) - limits.gap
    answers = answer.answerable >= limits.answerable
    verdicts = [_verdict(result, named, limits, floor if answers else None) for result in answer.results]
    return within(verdicts, limits)


def _may_be_told(result: Result) -> bool:
    return result.item.stale_since is None and result.item.kind != "entity"


def _named(results: Sequence[Result]) -> Counter[str]:
    """The entities that the task names, and how much that still holds is known of each."""
    counts = Counter[str]()
    for result in results:
        if result.reasons.about is not None and result.item.subject_id:
            tells = result.item.kind in _TELLING and result.item.stale_since is None
            counts[result.item.subject_id] += int(tells)
    return counts


def _verdict(result: Result, named: Counter[str], limits: Limits, floor: float | None) -> Verdict:
    item, about = result.item, result.reasons.about
    if item.stale_since is not None:
        return Verdict(result=result, chosen=False, why=f"stale since {item.stale_since[:10]}")
    if item.kind == "entity":
        return Verdict(result=result, chosen=False, why="a name alone")
    if about is not None and named[item.subject_id or ""] <= limits.few:
        return Verdict(result=result, chosen=True, why=f"about {about}, of whom little is known")
    if item.kind in _TELLING and about is None and named:
        return Verdict(result=result, chosen=False, why="about something else than what is named")
    if floor is None:
        return Verdict(result=result, chosen=False, why="nothing here seems to answer")
    if result.score < floor:
        return Verdict(result=result, chosen=False, why="far behind the best")
    return Verdict(result=result, chosen=True, why=f"about {about}, and it fits" if about else "it fits")


def within(verdicts: Sequence[Verdict], limits: Limits = LIMITS) -> list[Verdict]:
    """No more than a task can do with: the best, and of each thing that is named at least the best."""
    named = _named([verdict.result for verdict in verdicts])
    most = max(limits.most, min(len(named), limits.most_named))
    wanted = [verdict.result.item for verdict in [*_first_of_each(verdicts), *verdicts] if verdict.chosen]
    kept = {item.id for item in fitting(wanted, most, limits.most_tokens)}
    return [
        verdict
        if not verdict.chosen or verdict.result.item.id in kept
        else Verdict(result=verdict.result, chosen=False, why="others come before it")
        for verdict in verdicts
    ]


def fitting(items: Sequence[Item], most: int = LIMITS.most, tokens: int = LIMITS.most_tokens) -> list[Item]:
    """The first of some items that are no more than that."""
    kept: dict[str, Item] = {}
    for item in items:
        size = token_count(item.text)
        if item.id not in kept and len(kept) < most and size <= tokens:
            kept[item.id] = item
            tokens -= size
    return list(kept.values())


def _first_of_each(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The best that is told of each thing that is named."""
    firsts: dict[str, Verdict] = {}
    for verdict in verdicts:
        subject = verdict.result.item.subject_id
        if verdict.chosen and verdict.result.reasons.about is not None and subject:
            firsts.setdefault(subject, verdict)
    return list(firsts.values())
