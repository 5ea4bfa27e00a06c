"""The local triage: which of what recall found is worth putting before a task. No language model is asked.

Recall estimates for each result how likely a task needs it: what it is about, who takes part, and whether it
constrains them (an allergy, a preference) or says how to reach them. What is likely enough is told. So is
what little is known of somebody or something that the task names. What was replaced or has expired is never
told, nor are questions and the agent's own answers: they are no evidence. bench/learning.py learned the
estimate and its threshold from authored lives; how many are told is a choice of ours.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nexus.memory.recall import Answer, Item, Kind, Result, ranker
from nexus.memory.recall.selection import token_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Where the lines are drawn."""

    need: float | None = None  # how likely the task must need it; None: what was learned
    few: int = 3  # of a named thing so much is told without further question
    most: int = 6  # at most so many, unless the task names more things than that
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
    need = ranker.load().told if limits.need is None else limits.need
    return within([_verdict(result, named, limits, need) for result in answer.results], limits)


def _is_evidence(item: Item) -> bool:
    """Whether a message states something: neither a question nor what the agent itself said."""
    return item.kind != "event" or not (item.outbound or item.text.rstrip().endswith("?"))


def _named(results: Sequence[Result]) -> Counter[str]:
    """The entities that the task names, and how much that still holds is known of each."""
    counts = Counter[str]()
    for result in results:
        if result.reasons.about is not None and result.item.subject_id:
            tells = result.item.kind in _TELLING and result.item.stale_since is None
            counts[result.item.subject_id] += int(tells)
    return counts


def _verdict(result: Result, named: Counter[str], limits: Limits, need: float) -> Verdict:
    item, about = result.item, result.reasons.about
    if item.stale_since is not None:
        return Verdict(result=result, chosen=False, why=f"stale since {item.stale_since[:10]}")
    if item.kind == "entity":
        return Verdict(result=result, chosen=False, why="a name alone")
    if not _is_evidence(item):
        return Verdict(result=result, chosen=False, why="a question, or the agent's own answer")
    if about is not None and named[item.subject_id or ""] <= limits.few:
        return Verdict(result=result, chosen=True, why=f"about {about}, of whom little is known")
    if result.need < need:
        return Verdict(result=result, chosen=False, why="the task hardly needs it")
    return Verdict(result=result, chosen=True, why=f"about {about}, and needed" if about else "needed")


def within(verdicts: Sequence[Verdict], limits: Limits = LIMITS) -> list[Verdict]:
    """No more than a task can do with: the best, and of each thing that is named at least the best."""
    named = _named([verdict.result for verdict in verdicts])
    most = max(limits.most, min(len(named), limits.most_named))
    by_need = sorted(verdicts, key=lambda verdict: -verdict.result.need)
    wanted = [verdict.result.item for verdict in [*_first_of_each(verdicts), *by_need] if verdict.chosen]
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
