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

from nexus.memory.languages import cues
from nexus.memory.recall import Answer, Item, Kind, Result, ranker
from nexus.memory.recall.selection import token_count
from nexus.memory.recall.words import counted
from nexus.roles.memory_injection.visible import NOTHING_KNOWN, Context


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
# From this share of common words on, one message repeats another.
_ECHO: Final = 0.8
_TELLING: Final[frozenset[Kind]] = frozenset({"fact", "observation", "mental_model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One result, whether it is told, and why."""

    result: Result
    chosen: bool
    why: str
    is_final: bool = False
    """Whether it is never told: no model may choose it either."""


def judge(
    answer: Answer, limits: Limits = LIMITS, *, task: str = "", known: Context = NOTHING_KNOWN
) -> list[Verdict]:
    """Every result in recall's order, with the verdict about it.

    `known` is what the agent can see already.
    """
    named = _named(answer.results)
    need = ranker.load().told if limits.need is None else limits.need
    verdicts = [_passed_over(result, task, known) for result in answer.results]
    judged = [
        verdict or _verdict(result, named, limits, need)
        for result, verdict in zip(answer.results, verdicts, strict=True)
    ]
    return within(judged, limits)


def _passed_over(result: Result, task: str, known: Context) -> Verdict | None:
    """The verdict about what is never told, whatever the task; None for anything else."""
    item = result.item
    why = ""
    if item.stale_since is not None:
        why = f"stale since {item.stale_since[:10]}"
    elif item.kind == "entity":
        why = "a name alone"
    elif not is_evidence(item, task):
        why = "a question, a request or the agent's own answer"
    elif known.holds(item):
        why = "already in the conversation"
    return Verdict(result=result, chosen=False, why=why, is_final=True) if why else None


def is_evidence(item: Item, task: str) -> bool:
    """Whether a message states something: no question, no request, no answer of the agent, no echo."""
    if item.kind != "event":
        return True
    return not item.outbound and cues.states(item.text) and not _echoes(item.text, task)


def _echoes(text: str, task: str) -> bool:
    """Whether a message says what the task says, in nearly the same words."""
    said, asked = set(counted(text).counts), set(counted(task).counts)
    return bool(said) and len(said & asked) >= _ECHO * len(said | asked)


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
