"""Features over a small pool: neighbours stay within their stretch, names and words count."""

from datetime import UTC, datetime

import numpy as np

from nexus.memory.recall import features
from nexus.memory.recall.item import Item, Stretch
from nexus.memory.recall.question import understand
from nexus.memory.recall.ranker import load

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def said(
    id_: str, speaker: str, text: str, thread: str = "thr_1", at: str = "2026-05-01T00:00:00.000Z"
) -> Item:
    return Item(kind="event", id=id_, text=text, at=at, speaker=speaker, thread_id=thread)


def table(text: str, *stretches: list[Item]) -> dict[str, np.ndarray]:
    question = understand(text, NOW)
    built = features.build_pool(
        question,
        [Stretch(items, [True] * len(items)) for items in stretches],
        {},
        dict.fromkeys(question.terms, 2.0),
    )
    return features.table(question, built)


def test_an_answer_gains_from_the_question_before_it() -> None:
    made = table(
        "Which instrument does Ann play?",
        [
            said("e1", "Bob", "Which instrument do you play, Ann?"),
            said("e2", "Ann", "The cello!"),
            said("e3", "Bob", "Nice weather today."),
        ],
        [said("e4", "Ann", "The sea!", thread="thr_2")],
    )
    assert made["bare"][1] == 0
    assert made["turn"][1] > made["turn"][3]
    assert made["after_question"].tolist() == [0, 1, 0, 0]


def test_nothing_leaks_from_one_stretch_into_the_next() -> None:
    made = table("chess", [said("e1", "Ann", "chess")], [said("e2", "Bob", "tea", thread="thr_2")])
    assert made["bare_before1"].tolist() == [0, 0]
    assert made["topic"][1] == 0


def test_the_speaker_whom_the_question_names_is_marked() -> None:
    made = table("What does Ann like?", [said("e1", "Ann", "I like tea"), said("e2", "Bob", "I like tea")])
    assert made["named"].tolist() == [1, 0]
    assert made["not_named"].tolist() == [0, 1]


def test_what_was_said_in_the_window_is_near_it() -> None:
    made = table(
        "What did we do in May?",
        [
            said("e1", "Ann", "x", at="2026-05-10T00:00:00.000Z"),
            said("e2", "Ann", "x", at="2026-06-03T00:00:00.000Z"),
            said("e3", "Ann", "x", at="2026-09-03T00:00:00.000Z"),
        ],
    )
    inside, soon_after, long_after = made["in_window"].tolist()
    assert inside == 1 > soon_after > long_after == 0


def test_asked_about_the_past_what_is_new_and_what_came_later_count_less() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    asked = understand("Who was my doctor before Dr Okafor?", now)
    old, new, later = (
        Item(kind="fact", id=id_, text=text, at=at)
        for id_, text, at in (
            ("old", "Dr Lindley is my doctor", "2024-01-01T00:00:00.000Z"),
            ("new", "Dr Lindley is my doctor", "2026-05-30T00:00:00.000Z"),
            ("later", "Dr Okafor is my doctor", "2024-01-01T00:00:00.000Z"),
        )
    )
    weights = load().factors
    added = [sum(features.factors(item, asked, now, weights).values()) for item in (old, new, later)]
    assert added[0] > max(added[1:])
    present = understand("Who is my doctor?", now)
    assert sum(features.factors(new, present, now, weights).values()) > sum(
        features.factors(old, present, now, weights).values()
    )
