"""What tells that a task needs something: who takes part, what kind of work it is, and what matters for that.

A task rarely says what it needs: "plan a dinner for Erik and me" needs what Erik and I cannot eat. So beside
the features of likeness there are those of use: whether a fact is of a kind that matters for this kind of
work, whether it is about somebody who takes part, and whether it constrains them. bench/learning.py learns
how much each counts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from nexus.memory.languages import cues, topics
from nexus.memory.recall.item import Item
from nexus.memory.recall.pool import Floats

CONSIDERED: Final = 60
"""So many of the best by likeness may be needed."""
# Work that goes by dates.
_DATED: Final = frozenset({"time", "travel"})
_MOST_RANK, _MOST_KIN = 10, 30


def columns(task: str, items: Sequence[Item], values: Mapping[str, Floats]) -> dict[str, Floats]:
    """The features of use for the best candidates of a task, which have those of likeness."""
    work = topics.of_task(task)
    takes_part = np.maximum(values["about_name"], values["about_role"])
    owner, constrains = values["about_owner"], values["constrains"]
    serves = np.array([float(not work.isdisjoint(topics.of_fact(item.text))) for item in items])
    restricts = np.array([float(cues.restricts(item.text)) for item in items])
    rank, kin = _among_kin(items, values["cosine"])
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
        "time_served": values["has_time"] * serves * float(not work.isdisjoint(_DATED)),
    }


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
