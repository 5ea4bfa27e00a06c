"""The local triage: which of what recall found is worth putting before a message. No language model is asked.

A question gets the best of recall, if it speaks of somebody or something that the memory knows. A task gets
what it needs: recall estimates that from who takes part, what kind of work it is, and whether a fact
matters for such work. If something is needed at all, what is likely enough is told beside it, and what little
is known of somebody or something that the task names. Whoever is to be written to, called, paid or visited
comes with their addresses and numbers. What was replaced or has expired is never told, nor are
questions, requests and the agent's own answers: they are no evidence. bench/learning.py learned the estimate
and its thresholds from authored lives; how many are told is a choice of ours.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from nexus.memory.languages import cues, detect
from nexus.memory.recall import need, ranker
from nexus.memory.recall.item import Item, Kind, Match, Matches
from nexus.memory.recall.selection import token_count
from nexus.memory.recall.words import split_words


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Where the lines are drawn."""

    need: float | None = None  # how likely a task must need something; None: what was learned
    beside: float | None = None  # and what is told beside it; None: as `need`, or what was learned
    answers: float = 0.05  # how likely something must answer a question that names nobody
    answers_about: float = 0.02  # and one that names somebody, or the owner
    few: int = 3  # of a named thing so much is told without further question
    most_for_question: int = 7
    gap: float = 4.0  # below the best score: what is a fiftieth as likely to answer a question as the best
    most: int = 6  # at most so many, unless the task names more things than that
    most_named: int = 8
    most_tokens: int = 1_000
    most_pinned: int = 3  # pinned facts that come before everything else


LIMITS: Final = Limits()
PIN: Final = "pin"
"""The arm that brings a pinned fact of somebody or something that the task names."""
# From this share of common words on, one message repeats another.
_ECHO: Final = 0.8
# Between two names of one list: "write to Ann, Bob and my sister".
_LISTED: Final = re.compile(
    r"(?:'s)?\W*(?:(?:and|or|und|oder|y|e|o|et|ou|to|an|a|à|al|my|the)\b\W*)*", re.IGNORECASE
)
# What is about an entity. The entity itself is a name with aliases; the task has the name already.
_TELLING: Final[frozenset[Kind]] = frozenset({"fact", "observation", "mental_model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """Messages and memories that are in the conversation."""

    event_ids: frozenset[str] = frozenset()
    item_ids: frozenset[str] = frozenset()

    def holds(self, item: Item) -> bool:
        """Whether something was said or shown before."""
        return item.id in self.item_ids or not self.event_ids.isdisjoint(
            filter(None, (item.id, item.source_event_id))
        )


NOTHING_KNOWN: Final = Known()


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One result, whether it is told, and why."""

    result: Match
    chosen: bool
    why: str
    is_final: bool = False
    """Whether no model may decide otherwise: it is never told, or it is pinned."""


def judge(
    answer: Matches, limits: Limits = LIMITS, *, task: str = "", known: Known = NOTHING_KNOWN
) -> list[Verdict]:
    """Every result in recall's order, with the verdict about it.

    `known` is what the agent can see already.
    """
    reached = _find_reached(answer, task)
    passed_over = {
        each.item.id: _pass_over(each, task, known, reached) or _keep_pinned(each) for each in answer.results
    }
    rest = [each for each in answer.results if passed_over[each.item.id] is None]
    is_question = cues.asks(task) and not cues.orders(task)
    judged = (
        _judge_for_question(answer, rest, task, limits)
        if is_question
        else _judge_for_task(answer, rest, limits)
    )
    if is_question:
        limits = replace(limits, most=limits.most_for_question)
    verdicts = {verdict.result.item.id: verdict for verdict in judged}
    return limit_verdicts(
        [passed_over[each.item.id] or verdicts[each.item.id] for each in answer.results], limits
    )


def _judge_for_question(answer: Matches, rest: Sequence[Match], task: str, limits: Limits) -> list[Verdict]:
    """The best, unless nothing is likely to answer: small talk and general knowledge need no memory."""
    is_personal = bool(answer.named) or cues.first_person(task, detect(task))
    enough = limits.answers_about if is_personal else limits.answers
    if answer.answerable < enough:
        return [Verdict(result=each, chosen=False, why="it hardly answers") for each in rest]
    least = max((each.score for each in rest), default=0.0) - limits.gap
    return [
        Verdict(result=each, chosen=True, why="among the best for the question")
        if place < limits.most_for_question and each.score >= least
        else Verdict(result=each, chosen=False, why="others come before it")
        for place, each in enumerate(rest)
    ]


def _judge_for_task(answer: Matches, rest: Sequence[Match], limits: Limits) -> list[Verdict]:
    """What is needed, if anything is, and what little is known of what the task names."""
    learned, named = ranker.load(), _count_named(answer.results)
    told = learned.told if limits.need is None else limits.need
    beside = limits.beside or (learned.beside if limits.need is None else limits.need)
    enough = beside if any(each.need >= told for each in rest) else float("inf")
    return [_judge_need(each, named, limits, enough) for each in rest]


def _find_reached(answer: Matches, task: str) -> frozenset[str]:
    """The entities that a task is to reach and of which an address or a number is known.

    Those are the first that it names, and whoever is listed with them: "write to Ann and Bob about Cid".
    """
    if not need.reaches_somebody(task):
        return frozenset()
    text = task.lower()
    places = {
        each.item.id: (text.find(said), text.find(said) + len(said))
        for each in answer.results
        if each.item.kind == "entity" and need.identifiers(each.item.text)
        if (named := answer.named.get(each.item.id)) and not named.is_owner
        if (said := named.said.lower()) and said in text
    }
    reached, end = set[str](), -1
    for id_, (start, stop) in sorted(places.items(), key=lambda place: place[1]):
        if end < 0 or start < end or _LISTED.fullmatch(text[end:start]):
            reached.add(id_)
            end = max(end, stop)
    return frozenset(reached)


def _pass_over(result: Match, task: str, known: Known, reached: frozenset[str]) -> Verdict | None:
    """The verdict that doesn't depend on how likely something is needed; None for anything else."""
    item = result.item
    why = ""
    if is_over(item) and not (item.kind == "fact" and cues.asks_past(task, detect(task))):
        why = f"stale since {(item.stale_since or '')[:10]}"
    elif item.kind == "entity" and item.id not in reached:
        why = "a name alone"
    elif not is_evidence(item, task):
        why = "a question, a request or the agent's own answer"
    elif known.holds(item):
        why = "already in the conversation"
    elif item.kind == "entity":
        return Verdict(result=result, chosen=True, why=f"how to reach {result.reasons.about}")
    return Verdict(result=result, chosen=False, why=why, is_final=True) if why else None


def _keep_pinned(result: Match) -> Verdict | None:
    """The verdict about what the owner pinned to whom the task names; None for anything else."""
    if PIN not in result.reasons.arms:
        return None
    return Verdict(result=result, chosen=True, why="pinned", is_final=True)


def is_over(item: Item) -> bool:
    """Whether something was replaced or has expired. A conclusion is told as out of date instead."""
    return item.stale_since is not None and item.kind not in ("observation", "mental_model")


def is_evidence(item: Item, task: str) -> bool:
    """Whether a message states something: no question, no request, no answer of the agent, no echo."""
    if item.kind != "event":
        return True
    return not item.outbound and cues.states(item.text) and not _echoes(item.text, task)


def _echoes(text: str, task: str) -> bool:
    """Whether a message says what the task says, in nearly the same words."""
    said, asked = split_words(text).distinct, split_words(task).distinct
    return bool(said) and len(said & asked) >= _ECHO * len(said | asked)


def _count_named(results: Sequence[Match]) -> Counter[str]:
    """The entities that the task names, and how much that still holds is known of each."""
    counts = Counter[str]()
    for result in results:
        if result.reasons.about is not None and result.item.subject_id:
            tells = result.item.kind in _TELLING and result.item.stale_since is None
            counts[result.item.subject_id] += int(tells)
    return counts


def _judge_need(result: Match, named: Counter[str], limits: Limits, need: float) -> Verdict:
    item, about = result.item, result.reasons.about
    if about is not None and named[item.subject_id or ""] <= limits.few:
        return Verdict(result=result, chosen=True, why=f"about {about}, of whom little is known")
    if result.need < need:
        return Verdict(result=result, chosen=False, why="the task hardly needs it")
    return Verdict(result=result, chosen=True, why=f"about {about}, and needed" if about else "needed")


def limit_verdicts(verdicts: Sequence[Verdict], limits: Limits = LIMITS) -> list[Verdict]:
    """No more than a task can do with: the best, and of each thing that is named at least the best."""
    named = _count_named([verdict.result for verdict in verdicts])
    contacts = [verdict for verdict in verdicts if verdict.chosen and verdict.result.item.kind == "entity"]
    most = max(limits.most, min(len(named), limits.most_named)) + len(contacts)
    by_need = sorted(verdicts, key=lambda verdict: -verdict.result.need)
    pinned = [verdict for verdict in verdicts if verdict.chosen and PIN in verdict.result.reasons.arms]
    order = [*pinned[: limits.most_pinned], *contacts, *_first_of_each(verdicts), *by_need]
    wanted = [verdict.result.item for verdict in order if verdict.chosen]
    kept = {item.id for item in choose_fitting(wanted, most, limits.most_tokens)}
    return [
        verdict
        if not verdict.chosen or verdict.result.item.id in kept
        else Verdict(result=verdict.result, chosen=False, why="others come before it")
        for verdict in verdicts
    ]


def choose_fitting(
    items: Sequence[Item], most: int = LIMITS.most, tokens: int = LIMITS.most_tokens
) -> list[Item]:
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
        is_contact = verdict.result.item.kind == "entity"
        if verdict.chosen and verdict.result.reasons.about is not None and subject and not is_contact:
            firsts.setdefault(subject, verdict)
    return list(firsts.values())
