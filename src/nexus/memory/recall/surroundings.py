"""What was said around what was found: an answer stands beside its question, and both count.

Around every event that an arm saw, the stretch of its thread is fetched; neighbours close by become
candidates themselves, those farther off only lend their words.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import apsw

from nexus.memory.recall.item import Item
from nexus.memory.recall.reading import SQL
from nexus.memory.recall.scope import Scope

# A neighbour this near may itself be the answer.
CANDIDATE_REACH = 2
# Words this far away still tell what a turn is about (the widest window of the features).
CONTEXT_REACH = 5


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events that follow each other directly in one thread, and which of them may be answers."""

    items: list[Item]
    candidate: list[bool]


def around(connection: apsw.Connection, event_ids: Sequence[str]) -> list[Stretch]:
    """The stretches of conversation that hold the events, oldest first within each."""
    rows = connection.execute(SQL["event_places"], (json.dumps(list(event_ids)),)).fetchall()
    places = cast("list[tuple[int, str | None]]", rows)
    follows: dict[int, int] = {}
    near: set[int] = set()
    every: set[int] = set()
    for seq, thread_id in places:
        seqs, at = _stretch(connection, seq, thread_id)
        every.update(seqs)
        near.update(seqs[max(0, at - CANDIDATE_REACH) : at + CANDIDATE_REACH + 1])
        follows.update(pairwise(seqs))
    items = _items(connection, every)
    return _joined(items, follows, near)


def within(stretches: Sequence[Stretch], scope: Scope) -> list[Stretch]:
    """The same stretches, where nothing from outside the scope may be an answer.

    Neighbours share the thread of what was seen, and so its place.
    """
    if scope.after is None and scope.before is None and not scope.without:
        return list(stretches)
    return [
        Stretch(
            s.items,
            [
                flag and scope.holds_time(item.at) and item.id not in scope.without
                for item, flag in zip(s.items, s.candidate, strict=True)
            ],
        )
        for s in stretches
    ]


def _stretch(connection: apsw.Connection, seq: int, thread_id: str | None) -> tuple[list[int], int]:
    if thread_id is None:
        return [seq], 0
    reach = CANDIDATE_REACH + CONTEXT_REACH
    before = _numbers(connection, "before", thread_id, seq, reach)
    after = _numbers(connection, "after", thread_id, seq, reach + 1)
    return before[::-1] + after, len(before)


def _numbers(connection: apsw.Connection, query: str, thread_id: str, seq: int, limit: int) -> list[int]:
    return [cast("int", row[0]) for row in connection.execute(SQL[query], (thread_id, seq, limit))]


def _items(connection: apsw.Connection, seqs: set[int]) -> dict[int, Item]:
    found = connection.execute(SQL["events"], (json.dumps(sorted(seqs)),))
    rows = cast("list[tuple[Any, ...]]", found.fetchall())
    return {
        seq: Item(
            kind="event",
            seq=seq,
            id=id_,
            text=text,
            at=at,
            speaker=speaker,
            outbound=direction == "outbound",
            thread_id=thread_id,
            source_event_id=id_,
        )
        for seq, id_, text, at, speaker, direction, thread_id in rows
    }


def _joined(items: dict[int, Item], follows: dict[int, int], near: set[int]) -> list[Stretch]:
    """Overlapping stretches become one."""
    inner = set(follows.values())
    stretches: list[Stretch] = []
    for start in sorted(seq for seq in items if seq not in inner):
        chain: list[int] = []
        seq: int | None = start
        while seq is not None:
            chain.append(seq)
            seq = follows.get(seq)
        stretches.append(
            Stretch([items[s] for s in chain], [s in near and items[s].text.strip() != "" for s in chain])
        )
    return stretches
