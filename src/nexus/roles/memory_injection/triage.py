"""The local triage: decides which of recall's results are worth putting before a task, without a model.

A question gets recall's best matches if it speaks of somebody or something that the memory knows. A task gets
what it needs. Recall estimates that from who takes part, what kind of work it is, and whether a fact matters
for such work; if anything is needed, results that are likely enough come with it, and so does the little that
is known of a person or thing the task names. Whoever is to be written to, called, paid or visited comes with
their addresses and numbers. Superseded and expired facts are injected only if the task asks about the past;
questions, requests and the agent's own answers never are, because they are no evidence. bench/learning.py
learns the estimate and its thresholds from authored lives; the limits on how many are injected are chosen by
hand.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nexus.memory.languages import cues, detect
from nexus.memory.recall import ranker
from nexus.memory.recall.item import PIN, Item, Kind, Match, Matches
from nexus.memory.recall.words import split_words, token_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The thresholds and limits of the triage."""

    need: float | None = None  # minimum need of a task's result; None: the learned threshold
    beside: float | None = None  # minimum need once something is needed; None: `need`, or the learned one
    answers: float = 0.05  # minimum probability of an answer to a question that names nobody
    answers_about: float = 0.02  # the same if it names somebody, or is about the owner
    few: int = 3  # up to this many facts about a named thing are injected without further checks
    most_for_question: int = 7
    gap: float = 4.0  # how far below the best score, in log-odds: a fiftieth as likely to answer
    most: int = 6  # at most this many, unless the task names more things
    most_named: int = 8
    most_tokens: int = 1_000
    most_pinned: int = 3  # pinned facts that come before everything else


LIMITS: Final = Limits()
# Messages that share at least this much of their words repeat each other.
_ECHO: Final = 0.8
# What may stand between two names in a list: "write to Ann, Bob and my sister".
_BETWEEN_NAMES: Final = re.compile(
    r"(?:'s)?\W*(?:(?:and|or|und|oder|y|e|o|et|ou|to|an|a|à|al|my|the)\b\W*)*", re.IGNORECASE
)
# The kinds that say something about an entity. An entity itself is a name, which the task has already.
_STATEMENTS: Final[frozenset[Kind]] = frozenset({"fact", "observation", "mental_model"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """The ids of the messages and memories that an agent can see already."""

    event_ids: frozenset[str] = frozenset()
    item_ids: frozenset[str] = frozenset()

    def holds(self, item: Item) -> bool:
        """Whether the item, or the message it comes from, is in the conversation."""
        return item.id in self.item_ids or not self.event_ids.isdisjoint(
            filter(None, (item.id, item.source_event_id))
        )


EMPTY_CONVERSATION: Final = Conversation()


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a result is injected, and why."""

    result: Match
    chosen: bool
    why: str
    is_final: bool = False
    """Whether a model may not overrule it: the result is never injected, or it is pinned."""


def judge(
    answer: Matches,
    limits: Limits = LIMITS,
    *,
    task: str = "",
    conversation: Conversation = EMPTY_CONVERSATION,
) -> list[Verdict]:
    """Judge every result, in recall's order."""
    recipients = _find_recipients(answer, task)
    verdicts: dict[str, Verdict] = {}
    rest: list[Match] = []
    for result in answer.results:
        why = find_objection(result.item, answer, task, conversation)
        if verdict := _judge_by_rule(result, why, recipients):
            verdicts[result.item.id] = verdict
        else:
            rest.append(result)
    if _is_question(task):
        judged = _judge_for_question(answer, rest, task, limits)
    else:
        judged = _judge_for_task(answer, rest, limits)
    verdicts |= {verdict.result.item.id: verdict for verdict in judged}
    return limit_verdicts([verdicts[result.item.id] for result in answer.results], task, limits)


def _is_question(task: str) -> bool:
    return cues.asks(task) and not cues.orders(task)


def _judge_by_rule(result: Match, why: str, recipients: frozenset[str]) -> Verdict | None:
    """Judge what doesn't depend on how likely a result is needed; None for anything else.

    `why` is the objection to it, if there is one.
    """
    item = result.item
    if not why and item.kind == "entity":
        if item.id in recipients:
            return Verdict(result=result, chosen=True, why=f"how to reach {result.reasons.about}")
        why = "a name alone"
    if why:
        return Verdict(result=result, chosen=False, why=why, is_final=True)
    if PIN in result.reasons.arms:
        return Verdict(result=result, chosen=True, why="pinned", is_final=True)
    return None


def _judge_for_question(answer: Matches, rest: Sequence[Match], task: str, limits: Limits) -> list[Verdict]:
    """Choose the best, if they are likely to answer: small talk and general knowledge need no memory."""
    is_personal = bool(answer.named) or cues.first_person(task, detect(task))
    if answer.answerable < (limits.answers_about if is_personal else limits.answers):
        return [Verdict(result=result, chosen=False, why="it hardly answers") for result in rest]
    lowest = max((result.score for result in rest), default=0.0) - limits.gap
    return [
        Verdict(result=result, chosen=True, why="among the best for the question")
        if place < limits.most_for_question and result.score >= lowest
        else Verdict(result=result, chosen=False, why="others come before it")
        for place, result in enumerate(rest)
    ]


def _judge_for_task(answer: Matches, rest: Sequence[Match], limits: Limits) -> list[Verdict]:
    """Choose what the task needs, and what little is known of the people and things that it names."""
    learned, statements = ranker.load(), _count_statements(answer.results)
    enough = learned.need_threshold if limits.need is None else limits.need
    if any(result.need >= enough for result in rest):
        enough = limits.beside or (learned.need_threshold_beside if limits.need is None else limits.need)
    else:
        enough = float("inf")
    verdicts: list[Verdict] = []
    for result in rest:
        about = result.reasons.about
        if about is not None and statements[result.item.subject_id or ""] <= limits.few:
            verdict = Verdict(result=result, chosen=True, why=f"about {about}, of whom little is known")
        elif result.need < enough:
            verdict = Verdict(result=result, chosen=False, why="the task hardly needs it")
        else:
            why = f"about {about}, and needed" if about else "needed"
            verdict = Verdict(result=result, chosen=True, why=why)
        verdicts.append(verdict)
    return verdicts


def _find_recipients(answer: Matches, task: str) -> frozenset[str]:
    """Find the entities that a task is to reach and whose address or number is known.

    These are the first one it names, and those listed with it: "write to Ann and Bob about Cid".
    """
    if not ranker.reaches_somebody(task):
        return frozenset()
    text = task.lower()
    places = {
        each.item.id: (text.find(said), text.find(said) + len(said))
        for each in answer.results
        if each.item.kind == "entity" and ranker.identifiers(each.item.text)
        if (named := answer.named.get(each.item.id)) and not named.is_owner
        if (said := named.said.lower()) and said in text
    }
    recipients, end = set[str](), -1
    for id_, (start, stop) in sorted(places.items(), key=lambda place: place[1]):
        if end < 0 or start < end or _BETWEEN_NAMES.fullmatch(text[end:start]):
            recipients.add(id_)
            end = max(end, stop)
    return frozenset(recipients)


def find_objection(item: Item, answer: Matches, task: str, conversation: Conversation) -> str:
    """Say why an item is not injected for a task, whoever chose it; empty if it may be.

    A fact that was replaced or has expired is for tasks that ask about the past, and for questions about the
    time when it held, as recall understood them: the form for last summer's camp needs what holds now. What
    rests on such facts is injected with a note.
    """
    if item.kind == "fact" and item.stale_since is not None:
        is_meant = answer.asks_for(item) if _is_question(task) else answer.asks_past
        if not is_meant:
            return item.note
    if not _is_evidence(item, task):
        return "a question, a request or the agent's own answer"
    return "already in the conversation" if conversation.holds(item) else ""


def _is_evidence(item: Item, task: str) -> bool:
    """Whether an item states something: no question, request, answer of the agent or echo of the task."""
    if item.kind != "event":
        return True
    if item.outbound or not cues.states(item.text):
        return False
    said, asked = split_words(item.text).distinct, split_words(task).distinct
    return not said or len(said & asked) < _ECHO * len(said | asked)


def _count_statements(results: Sequence[Match]) -> Counter[str]:
    """Count, for each entity that the task names, the statements about it that still hold."""
    counts = Counter[str]()
    for result in results:
        if result.reasons.about is not None and result.item.subject_id:
            is_current = result.item.kind in _STATEMENTS and result.item.stale_since is None
            counts[result.item.subject_id] += int(is_current)
    return counts


def limit_verdicts(verdicts: Sequence[Verdict], task: str, limits: Limits = LIMITS) -> list[Verdict]:
    """Keep what a task can use: pinned facts, contacts, the best about each named thing, then the best."""
    chosen = [verdict for verdict in verdicts if verdict.chosen]
    pinned = [verdict for verdict in chosen if PIN in verdict.result.reasons.arms]
    contacts = [verdict for verdict in chosen if verdict.result.item.kind == "entity"]
    first_about: dict[str, Verdict] = {}
    for verdict in chosen:
        item = verdict.result.item
        if verdict.result.reasons.about is not None and item.subject_id and item.kind != "entity":
            first_about.setdefault(item.subject_id, verdict)
    by_need = sorted(chosen, key=lambda verdict: -verdict.result.need)
    order = [*pinned[: limits.most_pinned], *contacts, *first_about.values(), *by_need]

    named = _count_statements([verdict.result for verdict in verdicts])
    most = limits.most_for_question if _is_question(task) else limits.most
    most = max(most, min(len(named), limits.most_named)) + len(contacts)
    fitting = choose_fitting([verdict.result.item for verdict in order], most, limits.most_tokens)
    kept = {item.id for item in fitting}
    return [
        verdict
        if not verdict.chosen or verdict.result.item.id in kept
        else Verdict(result=verdict.result, chosen=False, why="others come before it")
        for verdict in verdicts
    ]


def choose_fitting(
    items: Sequence[Item], most: int = LIMITS.most, tokens: int = LIMITS.most_tokens
) -> list[Item]:
    """Choose the first items that fit, each once; one that is too long is skipped."""
    kept: dict[str, Item] = {}
    for item in items:
        size = token_count(item.text)
        if item.id not in kept and len(kept) < most and size <= tokens:
            kept[item.id] = item
            tokens -= size
    return list(kept.values())
