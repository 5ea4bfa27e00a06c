"""Matching by words, on the authored lives: their own facts are the best memory that there could be."""

from collections.abc import Iterator
from pathlib import Path

from nexus.evaluation import life as lives
from nexus.evaluation.life import Life
from nexus.evaluation.scores import Matcher

TRAINING = Path(__file__).parents[3] / "bench/lives/train"


def stored(life: Life) -> dict[str, list[str]]:
    """The facts of each session."""
    found: dict[str, list[str]] = {}
    for row in life.facts:
        if row.get("message"):
            found.setdefault(life.session_of[row["message"]], []).append(row["text"])
    return found


def each_life() -> Iterator[tuple[Life, Matcher]]:
    for folder in sorted(TRAINING.iterdir()):
        life = lives.read(folder)
        yield life, Matcher.of(life.owner, life.language)


def test_a_perfect_memory_states_nearly_all_and_that_of_another_session_nothing() -> None:
    total = own = other = 0
    for life, matcher in each_life():
        memories, sessions = stored(life), list(life.sessions)
        for row in life.writer:
            elsewhere = sessions[(sessions.index(row["session"]) + 7) % len(sessions)]
            for text in row["must"]:
                total += 1
                own += bool(matcher.find_stating(text, memories.get(row["session"], [])))
                other += bool(matcher.find_stating(text, memories.get(elsewhere, [])))
    assert total > 300
    assert own / total > 0.95
    assert other / total < 0.01


def test_a_perfect_memory_repeats_nothing_that_must_not_be_there() -> None:
    for life, matcher in each_life():
        memories = stored(life)
        for row in life.writer:
            for text in row["must_not"]:
                assert not [m for m in memories.get(row["session"], []) if matcher.repeats(text, m)]
                assert matcher.repeats(text, text)


def test_numbers_dates_and_names_must_agree() -> None:
    matcher = Matcher.of("Ada Brandt", "en")
    text = "The dentist appointment is on 4 February 2026"
    assert matcher.find_stating(text, ["Ada has her dentist appointment on 2026-02-04."])
    assert not matcher.find_stating(text, ["The dentist appointment is on 11 February 2026"])
    assert matcher.find_stating("Bashir is at 0113 496 0172", ["Bashir: +44113 4960172"])
    assert matcher.find_stating(
        "Insured with Castlegate for £312, renewing 14 September",
        ["Ada is insured with Castlegate", "The insurance costs £312", "It renews on 14 September", "Other"],
    ) == [2, 0, 1]
    assert not matcher.repeats("Ada takes naproxen", "Ada must not take naproxen")
