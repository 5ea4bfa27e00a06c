"""What tells that a task needs something: who takes part, what kind of work it is, and what matters for that.

A task rarely says what it needs: "plan a dinner for Erik and me" needs what Erik and I cannot eat. So beside
the features of likeness there are those of use: whether a fact is of a kind that matters for this kind of
work, whether it is about somebody who takes part, and whether it constrains them. bench/learning.py learns
how much each counts.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Final

import numpy as np

from nexus.memory.languages import cues, speech, topics
from nexus.memory.languages.moments import moments
from nexus.memory.recall.item import Item, Named
from nexus.memory.recall.pool import Floats

CONSIDERED: Final = 60
"""So many of the best by likeness may be needed."""
# Work that goes by dates.
_DATED: Final = frozenset({"time", "travel"})
# Work for which one must know how to reach, pay or find somebody.
_REACHING: Final = frozenset({"reach", "money", "home"})
_CAPITALIZED = r"[A-ZÀ-ÖØ-Þ][\w.'\u2019-]*"
# Addresses and numbers by which somebody is reached, paid or found.
_IDENTIFIERS: Final = {
    "email": re.compile(r"\S@\S+\.\w"),
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
        r"|\b\d+\w*,?[ ](?i:rue|avenue|boulevard|quai|chemin)\b"
        r"|\b(?i:calle|avenida|plaza|rua|praça|travessa)\b[^.;\d]{1,40}\d"
    ),
}
# Since then it holds: a date that has passed doesn't end it.
_BEGINNING: Final = re.compile(
    r"\b(?:since|from|born|birthday|every|each|until|seit|ab|geboren|geburtstag|jede[nrms]?|bis|desde|nació"
    r"|cumpleaños|hasta|cada|depuis|partir|dès|née?|anniversaire|jusqu|chaque|nasceu|anos|até|moved|zog)\b",
    re.IGNORECASE,
)
# Ways to reach somebody that a task can ask for.
_CHANNELS: Final = frozenset({"email", "phone", "account", "address"})
_MOST_RANK, _MOST_KIN = 10, 30


def reaches_somebody(task: str) -> bool:
    """Whether a task is to write to, call, pay, visit or send something to somebody."""
    return not _REACHING.isdisjoint(topics.of_task(task))


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
        for each in moments(text, speech.languages(text))
        if each.month and each.day and (each.month, each.day) != (2, 29)
    ]
    return bool(days) and max(days) < today and _BEGINNING.search(text) is None


def columns(
    task: str,
    items: Sequence[Item],
    values: Mapping[str, Floats],
    *,
    named: Mapping[str, Named],
    now: datetime,
) -> dict[str, Floats]:
    """The features of use for the best candidates of a task, which have those of likeness."""
    work = topics.of_task(task)
    takes_part = np.maximum(values["about_name"], values["about_role"])
    owner, constrains = values["about_owner"], values["constrains"]
    serves = np.array([float(not work.isdisjoint(topics.of_fact(item.text))) for item in items])
    restricts = np.array([float(cues.restricts(item.text)) for item in items])
    rank, kin = _among_kin(items, values["cosine"])
    held = [identifiers(item.text) for item in items]
    wanted = topics.of_task(task) & _CHANNELS
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
        "kin_rank": rank,
        "kin_rank_named": rank * takes_part,
        "kin_rank_owner": rank * owner,
        "kin_count": kin * takes_part,
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


def _among_kin(items: Sequence[Item], cosine: Floats) -> tuple[Floats, Floats]:
    """The place of each among what is known of the same subject, by likeness, and how much that is."""
    places = Counter[str | None]()
    rank = np.zeros(len(items))
    for row in np.argsort(-cosine, kind="stable"):
        subject = items[int(row)].subject_id
        rank[row] = min(places[subject], _MOST_RANK) / _MOST_RANK
        places[subject] += 1
    kin = np.array([min(places[item.subject_id], _MOST_KIN) / _MOST_KIN for item in items])
    return rank, kin
