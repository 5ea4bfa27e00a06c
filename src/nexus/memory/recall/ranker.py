"""The order of the candidates and how sure each is: weighted sums of the named features, from weights.json.

Each kind of thing has weights of its own, because a feature says different things about a fact, a message and
a conclusion. A score orders the candidates of one question: it is learned listwise, so the difference of two
scores is the log-odds that one answers rather than the other. A probability can be compared across questions.
bench/learning.py learned the weights from authored lives and from conversations that allow it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nexus.memory.languages import cues, speech
from nexus.memory.languages.dates import find_moments
from nexus.memory.recall.features import Floats, Integers
from nexus.memory.recall.item import Item, Kind, Named

_WEIGHTS = Path(__file__).with_name("weights.json")
# Fewer cosines say nothing about how a model spreads them.
_ENOUGH = 10
# Kinds that nothing could be learned for go by what was learned for the one that they resemble.
WEIGHTS_OF: Final[Mapping[Kind, str]] = {
    "event": "event",
    "fact": "fact",
    "observation": "fact",
    "mental_model": "fact",
    "episode": "fact",
    "entity": "fact",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """Named weights and a bias."""

    weights: dict[str, float]
    bias: float = 0.0

    def of(self, features: Mapping[str, Floats]) -> Floats:
        total = sum((weight * features[name] for name, weight in self.weights.items()), np.array(self.bias))
        return np.asarray(total, np.float64)

    def probability(self, features: Mapping[str, Floats]) -> Floats:
        return 1.0 / (1.0 + np.exp(-np.clip(self.of(features), -30, 30)))


@dataclass(frozen=True, slots=True)
class Ranker:
    """Everything that was learned."""

    order_weights: dict[str, Sum]  # by kind
    strength: dict[str, Sum]  # by what there is to go by: reranked, meaning (multilingual), words
    strong: dict[str, dict[str, float]]  # from which probability a result is strong, also by language
    need: Sum  # that a task needs it
    need_threshold: float  # from which such probability something is injected
    need_threshold_beside: float  # and from which other things are injected beside it
    scales: dict[str, tuple[float, float]]  # mean and spread of each known model's cosines
    threads: dict[str, float]
    factors: dict[str, float]
    fit: float  # what a reranker's word weighs

    def scores(self, features: Mapping[str, Floats], rows: Integers, kinds: Sequence[Kind]) -> Floats:
        """How well each candidate answers, beside the other candidates of the question."""
        weights_of = np.array([WEIGHTS_OF[kind] for kind in kinds])
        total = np.zeros(len(rows))
        for kind, weighted in self.order_weights.items():
            own = np.flatnonzero(weights_of == kind)
            total[own] = weighted.of({name: features[name][rows[own]] for name in weighted.weights})
        return total

    def strong_from(self, given: str, language: str) -> float:
        """From which probability a result is strong; a language that nothing was learned of is like all."""
        limits = self.strong[given]
        return limits.get(language, limits[""])

    def knows(self, model_id: str | None) -> bool:
        """Whether it was learned what this model's cosines mean."""
        return model_id is not None and model_id.partition("@")[0] in self.scales

    def scaled(self, cosines: NDArray[Any], model_id: str) -> Floats:
        """Cosines in spreads above the mean of unrelated texts, so that those of all models mean the same.

        What has no vector yet, whose cosine is exactly 0, lies at the mean.
        """
        known = cosines[cosines != 0.0]
        mean, spread = self.scales.get(model_id.partition("@")[0]) or _own_scale(known)
        return np.where(cosines == 0.0, 0.0, (cosines - mean) / spread)


def _own_scale(cosines: NDArray[Any]) -> tuple[float, float]:
    """For a model that nothing was learned for: what was found for this question tells."""
    if len(cosines) < _ENOUGH:
        return 0.0, 1.0
    low, middle = np.quantile(cosines, (0.16, 0.5))
    return float(middle), max(float(middle - low), 1e-3)


@cache
def load(path: Path = _WEIGHTS) -> Ranker:
    """The ranker whose weights lie beside this file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Ranker(
        order_weights={kind: Sum(**given) for kind, given in data["order"].items()},
        strength={name: Sum(**given) for name, given in data["strength"].items()},
        strong=data["strong"],
        need=Sum(**data["need"]),
        need_threshold=data["need_threshold"],
        need_threshold_beside=data["need_threshold_beside"],
        scales={model: _pair(given) for model, given in data["scales"].items()},
        threads=data["threads"],
        factors=data["factors"],
        fit=data["fit"],
    )


def _pair(given: list[Any]) -> tuple[float, float]:
    mean, spread = given
    return float(mean), float(spread)


CONSIDERED: Final = 60
"""`need` is estimated for this many of the best."""
# Work that goes by dates.
_DATED: Final = frozenset({"time", "travel"})
# Work for which one must know how to reach, pay or find somebody.
_REACHING: Final = frozenset({"reach", "money", "home"})
_CAPITALIZED = r"[A-ZÀ-ÖØ-Þ][\w.'\u2019-]*"
# Addresses and numbers by which somebody is reached, paid or found.
_IDENTIFIERS: Final = {
    "email": re.compile(r"\S@[^\s@]+\.\w"),
    "phone": re.compile(
        r"(?<![\w-])(?!\d{4}-\d\d-\d\d)(?:\+\d[\d ()/.-]{6,}\d|\d{2,}[ /-][\d ()/-]{4,}\d)(?!\w)"
    ),
    "account": re.compile(
        r"\b[A-Z]{2}\d\d(?:[ ]?[A-Z0-9]{3,4}){3,}"
        r"|\b(?i:number|no\.|nr\.|account|iban|policy|reference|code|berth|pitch|nummer|konto|liegeplatz|número"
        r"|cuenta|amarre|numéro|compte|conta)\b[^.;\d]{0,24}\b\w*\d"
    ),
    "address": re.compile(
        rf"\b(?:at|is|to)[ ]\d{{1,5}}[a-zA-Z]?,?[ ](?:[NSEW]\.?[ ])?{_CAPITALIZED}[ ]{_CAPITALIZED}"
        r"|\b\w+(?i:stra(?:ß|ss)e|straat|weg|gasse|platz|laan|kade|gade|vej|plein|gracht|pad)[ ]\d"
        r"|\b\d\w*,?[ ](?i:rue|avenue|boulevard|quai|chemin)\b"
        r"|\b(?i:calle|avenida|plaza|rua|praça|travessa)\b[^.;\d]{1,40}\d"
    ),
}
# Ways to reach somebody that a task can ask for.
_CHANNELS: Final = frozenset({"email", "phone", "account", "address"})
_MOST_RANK, _MOST_SAME_SUBJECT = 10, 30


def reaches_somebody(task: str) -> bool:
    """Whether a task is to write to, call, pay, visit or send something to somebody."""
    return not _REACHING.isdisjoint(cues.find_task_topics(task))


@lru_cache(maxsize=16384)
def identifiers(text: str) -> frozenset[str]:
    """The kinds of addresses and numbers that a text holds: email, phone, account, address."""
    return frozenset(kind for kind, pattern in _IDENTIFIERS.items() if pattern.search(text))


@lru_cache(maxsize=16384)
def is_past(text: str, said_at: str, today: date) -> bool:
    """Whether a text is about a day that is over: "the party is on 13 June"."""
    said_on = date.fromisoformat(said_at[:10])
    days = [
        date(each.year or said_on.year, each.month, each.day)
        for each in find_moments(text, speech.languages(text))
        if each.month and each.day and (each.month, each.day) != (2, 29)
    ]
    return bool(days) and max(days) < today and cues.compile_cue("lasting").search(text) is None


def columns(
    task: str,
    items: Sequence[Item],
    values: Mapping[str, Floats],
    *,
    named: Mapping[str, Named],
    now: datetime,
) -> dict[str, Floats]:
    """The features of use for the best candidates of a task, which have those of likeness."""
    work = cues.find_task_topics(task)
    takes_part = np.maximum(values["about_name"], values["about_role"])
    owner, constrains = values["about_owner"], values["constrains"]
    serves = np.array([float(not work.isdisjoint(cues.find_fact_topics(item.text))) for item in items])
    restricts = np.array([float(cues.restricts(item.text)) for item in items])
    rank, count = _among_same_subject(items, values["cosine"])
    held = [identifiers(item.text) for item in items]
    wanted = cues.find_task_topics(task) & _CHANNELS
    reaching = reaches_somebody(task)
    first = _first_named(task, named)
    of_first = np.array([float(item.subject_id in first) for item in items])
    identifies = np.array([float(bool(kinds)) for kinds in held]) * reaching
    fitting = identifies * np.array([float(not wanted or not wanted.isdisjoint(kinds)) for kinds in held])
    subjects = Counter(item.subject_id for item in items if item.subject_id)
    hub = max(subjects, key=lambda id_: subjects[id_], default=None)
    of_hub = np.array([float(item.subject_id == hub) for item in items])
    place = np.argsort(np.argsort(-values["score_gap"], kind="stable"), kind="stable")
    means_somebody = takes_part.any() or owner.any()
    return {
        "serves": serves,
        "serves_named": serves * takes_part,
        "serves_owner": serves * owner,
        "serves_other": serves * (1 - np.maximum(takes_part, owner)),
        "restricts": restricts,
        "restricts_named": restricts * takes_part * serves,
        "restricts_owner": restricts * owner * serves,
        "constrains_named": constrains * takes_part * serves,
        "constrains_owner": constrains * owner * serves,
        "no_topic": np.full(len(items), float(not work)),
        "means_somebody": np.full(len(items), float(means_somebody)),
        "best_cosine": np.full(len(items), float(values["cosine"].max(initial=0.0))),
        "same_subject_rank": rank,
        "same_subject_rank_named": rank * takes_part,
        "same_subject_rank_owner": rank * owner,
        "same_subject_count": count * takes_part,
        "identifies": identifies,
        "identifies_first": fitting * of_first,
        "identifies_other_way": identifies - fitting,
        "past": np.array([float(is_past(item.text, item.at, now.date())) for item in items]),
        "serves_hub": serves * of_hub * float(not takes_part.any()),
        "best8": (place < 8).astype(float),
        "cosine_named": values["cosine"] * takes_part,
        "time_served": values["has_time"] * serves * float(not work.isdisjoint(_DATED)),
    }


def _first_named(task: str, named: Mapping[str, Named]) -> frozenset[str]:
    """Whoever a task names first: "text Ann about Bob's suit" reaches Ann."""
    text = task.lower()
    places = {
        id_: text.find(meant.said.lower())
        for id_, meant in named.items()
        if meant.said and not meant.is_owner and meant.said.lower() in text
    }
    return frozenset(id_ for id_, place in places.items() if place == min(places.values()))


def _among_same_subject(items: Sequence[Item], cosine: Floats) -> tuple[Floats, Floats]:
    """The place of each among what is known of the same subject, by likeness, and how much that is."""
    places = Counter[str | None]()
    rank = np.zeros(len(items))
    for row in np.argsort(-cosine, kind="stable"):
        subject = items[int(row)].subject_id
        rank[row] = min(places[subject], _MOST_RANK) / _MOST_RANK
        places[subject] += 1
    count = np.array(
        [min(places[item.subject_id], _MOST_SAME_SUBJECT) / _MOST_SAME_SUBJECT for item in items]
    )
    return rank, count
