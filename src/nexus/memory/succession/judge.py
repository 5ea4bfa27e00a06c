"""Decide which earlier facts a new one replaces: a calibrated sum over the features of each pair.

`bench/successions.py` learns the weights from the lives in `bench/lives` and measures them on each life after
learning from the others. Pure functions, no ledger.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from nexus.ledgers.memory import How
from nexus.memory.succession.pairs import (
    UNNAMED,
    Nearness,
    Statement,
    differ_in_value,
    features,
    how_replaced,
    read,
    restates,
    tells_event,
)

# Being the nearest of a few facts says little: then the lead counts only so far.
_FEW_RIVALS: Final = 8
_LEAD_AMONG_FEW: Final = 1.0
# The lives don't have relation types, so these weights are not learned.
_SAME_RELATION: Final = 1.0
_SLOT_RELATION: Final = 3.0
_SLOT_RELATIONS: Final = frozenset(
    {"works_at", "lives_in", "reports_to", "located_in", "led_by", "married_to"}
)
_OTHER_RELATION: Final = -1.5
_SAME_RELATION_AND_TARGET: Final = -0.5
# A fact that was said to hold until then needs less to be replaced.
_ENDED: Final = 2.0
# The lives hold few lists and hardly any events: what one can have many of, and what happened, is replaced
# only if something says so.
_LISTED: Final = -2.0
_HAPPENED: Final = -4.0
# Hearsay hardly replaces what somebody said of themselves or the owner said.
_LESS_SURE: Final = -2.0
# A writer's claim makes a replacement twenty times as likely: enough for a doubtful pair, not for any.
_CLAIMED: Final = 3.0
# Where the message itself speaks of a change or a correction, the claim is worth seven times as much again.
_CLAIMED_AND_CUED: Final = 5.0
_MOST_SIGNALS: Final = 3
_LEAST_SIGNAL: Final = 0.5


@dataclass(frozen=True, slots=True)
class Link:
    """A fact's successor."""

    new_id: str
    confidence: float
    stated: bool = False
    how: How = "changed"
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature of a pair counts, and its mean over the pairs that were learned from."""

    bias: float
    weights: Mapping[str, float]
    means: Mapping[str, float]

    def sum_up(self, values: Mapping[str, float]) -> float:
        """Return the logit of a pair."""
        return self.bias + sum(weight * values[name] for name, weight in self.weights.items())


@dataclass(frozen=True, slots=True)
class Judge:
    """Weights for facts with and without entities, and from which probability a pair is a replacement."""

    version: str
    threshold: float
    named: Weights
    unnamed: Weights

    def weights_of(self, one: Statement, two: Statement) -> Weights:
        """Return the weights for a pair: a fact that is about no entity has only its words."""
        return self.unnamed if _is_unnamed(one) or _is_unnamed(two) else self.named

    def links(
        self,
        fact: Statement,
        others: Sequence[Statement],
        closeness: Mapping[str, float],
        known: Mapping[str, Link],
        *,
        claims: Mapping[str, How | None] | None = None,
    ) -> dict[str, Link]:
        """Return the links that a fact adds or changes, by the id of the older fact.

        `others` are the facts that share an entity or a meaning with it, `known` their links so far and what
        follows on these, `claims` those that its writer says it replaces; a claim about a later fact doesn't
        count. One that has a successor gets another only if that is likelier, and if it does not follow the
        first one anyway. No chain leads back to where it began.
        """
        earlier = {other.id for other in others if other.place < fact.place}
        claimed: dict[str, How | None] = {
            id_: claim for id_, claim in (claims or {}).items() if id_ in earlier
        }
        values, logits = self._weigh(fact, others, closeness, known)
        for id_ in logits.keys() & claimed.keys():
            own = values[id_]
            is_cued = own["announced"] or own["corrected"] or own["changes"] or own["ends"] or own["cancels"]
            logits[id_] += _CLAIMED_AND_CUED if is_cued else _CLAIMED
        chances = {id_: _probability(logit) for id_, logit in logits.items()}
        likely = {id_ for id_, chance in chances.items() if chance >= self.threshold}
        found: dict[str, Link] = {}
        for other in others:
            if other.id not in likely:
                continue
            old, new = _by_time(fact, other)
            if _leads(new.id, old.id, found, known):
                continue
            current = found.get(old.id) or known.get(old.id)
            if current is not None and not _overtakes(current, new, chances[other.id], others, likely, known):
                continue
            weights = self.weights_of(fact, other)
            signals = _list_signals(weights, values[other.id], is_claimed=other.id in claimed)
            how = claimed.get(other.id) or how_replaced(old, new)
            found[old.id] = Link(new.id, chances[other.id], how=how, signals=signals)
        return found

    def rivals(
        self,
        fact: Statement,
        others: Sequence[Statement],
        closeness: Mapping[str, float],
        known: Mapping[str, Link],
    ) -> dict[str, float]:
        """Return how likely it is that a fact and each of the others can't both hold, if nothing links them.

        What is certain without the judge: the same sentence with another value, and two values of a relation
        of which everybody has one.
        """
        if fact.id in known:
            return {}
        open_ = [other for other in others if other.id not in known and other.id != fact.id]
        _, logits = self._weigh(fact, open_, closeness, known)
        found = {id_: _probability(logit) for id_, logit in logits.items()}
        for other in open_:
            if _share_slot(fact, other) or differ_in_value(fact, other):
                found[other.id] = 1.0
        return found

    def _weigh(
        self,
        fact: Statement,
        others: Sequence[Statement],
        closeness: Mapping[str, float],
        known: Mapping[str, Link],
    ) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
        values: dict[str, dict[str, float]] = {}
        logits: dict[str, float] = {}
        for other in others:
            if other.place == fact.place or not fit(*_by_time(fact, other)):
                continue
            own = pair_features(fact, other, others, closeness, known)
            if own["restates"] and not own["restates_cued"]:
                continue
            values[other.id] = own
            logit = self.weights_of(fact, other).sum_up(own)
            logits[other.id] = logit + _beyond_learned(*_by_time(fact, other), own)
        return values, logits


def _list_signals(weights: Weights, values: Mapping[str, float], *, is_claimed: bool) -> tuple[str, ...]:
    """Name what spoke most for a pair."""
    added = {
        signal: sum(weights.weights[name] * (values[name] - weights.means[name]) for name in names)
        for signal, names in _SIGNALS.items()
    }
    if is_claimed:
        added["the writer says so"] = _CLAIMED
    strongest = sorted(added, key=lambda signal: -added[signal])
    return tuple(signal for signal in strongest if added[signal] >= _LEAST_SIGNAL)[:_MOST_SIGNALS]


def pair_features(
    fact: Statement,
    other: Statement,
    others: Sequence[Statement],
    closeness: Mapping[str, float],
    known: Mapping[str, Link],
) -> dict[str, float]:
    """Return what is weighed of one pair."""
    return features(*_by_time(fact, other), _nearness(fact, other, others, closeness, known))


@cache
def load() -> Judge:
    """Return the judge that ships with Nexus."""
    data = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
    named, unnamed = Weights(**data.pop("named")), Weights(**data.pop("unnamed"))
    return Judge(named=named, unnamed=unnamed, **data)


def _share_slot(one: Statement, two: Statement) -> bool:
    relation = (one.relation_type or "").casefold()
    return (
        relation in _SLOT_RELATIONS
        and relation == (two.relation_type or "").casefold()
        and one.subject is not None
        and one.subject == two.subject
        and None not in (one.target, two.target)
        and one.target != two.target
    )


def _by_time(fact: Statement, other: Statement) -> tuple[Statement, Statement]:
    return (other, fact) if other.place < fact.place else (fact, other)


def fit(old: Statement, new: Statement) -> bool:
    """Whether two facts may be about the same: by their subjects, what else they name, and their words."""
    if old.subject is None or new.subject is None or old.entities & new.entities:
        return True
    if _is_unnamed(old) or _is_unnamed(new):
        return bool((old.names | read(old.text).stems) & (new.names | read(new.text).stems))
    # "It's Fenna's appointment, not Jesse's": a correction may name whom it is no longer about.
    said = read(f"{new.text} {new.message}") if read(new.message).corrects else read(new.text)
    return bool((old.names - new.names) & said.stems or (new.names - old.names) & read(old.text).stems)


def _is_unnamed(statement: Statement) -> bool:
    return statement.subject is not None and statement.subject.startswith(UNNAMED)


def _leads(start: str, end: str, *links: Mapping[str, Link]) -> bool:
    """Whether a chain of links leads from one fact to another; of two links of a fact, the first counts."""
    seen: set[str] = set()
    while start not in seen:
        seen.add(start)
        link = next((some[start] for some in links if start in some), None)
        if link is None:
            return False
        start = link.new_id
        if start == end:
            return True
    return False


def _nearness(
    fact: Statement,
    other: Statement,
    others: Sequence[Statement],
    closeness: Mapping[str, float],
    known: Mapping[str, Link],
) -> Nearness:
    """How near a fact is to another one, beside those on the same side of it that have no successor."""
    own, earlier = closeness[other.id], other.place < fact.place
    rivals = [
        rival
        for rival in others
        if rival.id != other.id and rival.id not in known and (rival.place < fact.place) == earlier
    ]
    nearest = sorted(rivals, key=lambda rival: -closeness[rival.id])
    # One that says the same as it doesn't speak against it.
    lead = next(
        (
            own - closeness[rival.id]
            for rival in nearest
            if not restates(rival, other) and not restates(other, rival)
        ),
        _LEAD_AMONG_FEW,
    )
    if len(rivals) < _FEW_RIVALS:
        lead = min(lead, _LEAD_AMONG_FEW)
    rank = 1 + sum(closeness[rival.id] > own for rival in rivals)
    return Nearness(closeness=own, rank=rank, margin=lead)


def _beyond_learned(old: Statement, new: Statement, values: Mapping[str, float]) -> float:
    """What speaks for a pair beyond what was learned: an expiry, a list, whose word it is, relation types."""
    logit = _ENDED if old.valid_until is not None and old.valid_until <= new.at else 0.0
    logit += _LISTED * values["one_of_many_uncued"]
    if tells_event(old.text) and tells_event(new.text) and not values["corrected"]:
        logit += _HAPPENED
    if new.confidence < old.confidence:
        logit += _LESS_SURE
    one, two = old.relation_type, new.relation_type
    if one is None or two is None:
        return logit
    if one.casefold() != two.casefold():
        return logit + _OTHER_RELATION
    if old.target is not None and old.target == new.target:
        return logit + _SAME_RELATION + _SAME_RELATION_AND_TARGET
    if one.casefold() not in _SLOT_RELATIONS:
        return logit + _SAME_RELATION
    return logit + _SLOT_RELATION + _SAME_RELATION * values["changes"]


def _probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, logit))))


def _overtakes(
    current: Link,
    new: Statement,
    chance: float,
    others: Sequence[Statement],
    likely: set[str],
    known: Mapping[str, Link],
) -> bool:
    if current.stated or chance <= current.confidence or current.new_id == new.id:
        return False
    following = known.get(current.new_id)
    first = next((other for other in others if other.id == current.new_id), None)
    chained = current.new_id in likely or (following is not None and following.new_id == new.id)
    return not chained and (first is None or not restates(first, new))


_SIGNALS: Final[Mapping[str, tuple[str, ...]]] = {
    "the message corrects something": (
        "corrected", "corrected_in_talk", "corrected_nearest", "corrected_share",
    ),
    "the message says that something changed": ("announced", "announced_share", "announced_nearest"),
    "the wording says that something changed": (
        "changes", "ends", "cancels", "rescheduled", "changed_share", "changed_closeness", "restates_cued",
    ),
    "the old value is named": ("lost_named", "lost_named_cued"),
    "same attribute": ("same_attribute", "attribute_changed", "slot_changed"),
    "another value": (
        "value_differs", "value_differs_share", "numbers_differ", "weekdays_differ", "years_differ",
    ),
    "same subject": ("same_subject", "same_entities", "other_entity", "no_entity"),
    "same words": ("share", "overlap", "first_word", "numbers_shared", "uncued_share"),
    "same meaning": ("closeness", "nearest", "rank", "margin", "share_closeness"),
    "same conversation": ("same_message", "same_talk", "same_talk_share", "same_talk_nearest"),
}  # fmt: skip
"""What `--explain` calls the features."""
