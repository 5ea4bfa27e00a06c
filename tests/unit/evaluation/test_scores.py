"""Scores of memories and answers that are given: good ones, bad ones, none."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from lives import write_life
from nexus.evaluation import life as lives
from nexus.evaluation.life import Life
from nexus.evaluation.playback import Memory, PlayedSession
from nexus.evaluation.questions import Answer
from nexus.evaluation.scores import Scorer, Verdicts

TRAINING = Path(__file__).parents[3] / "bench/lives/train"
GOOD = {
    "s1": [
        ("a", "Ada's dentist is Dr. Moreau", "owner"),
        ("b", "Her dentist appointment: 2026-02-04", "owner"),
    ],
    "s2": [
        ("c", "Per Lindqvist can't eat shellfish", "per"),
        ("d", "Her dentist appointment: 2026-02-11", "owner"),
    ],
}
BAD = {
    "s1": [("a", "Sarah Chen leads Project X", "owner"), ("b", "Ada wants to become a dentist", "owner")],
    "s2": [("c", "Per Lindqvist can't eat shellfish", "owner")],
}


@pytest.fixture
def ada(tmp_path: Path) -> Life:
    return lives.read(write_life(tmp_path / "ada"))


def scorer(life: Life, memories: Mapping[str, list[tuple[str, str, str]]]) -> Scorer:
    def played(session: str, rows: list[tuple[str, str, str]]) -> PlayedSession:
        made = [
            Memory(id=id_, kind="fact", text=text, speaker=speaker, source_type="mentioned")
            for id_, text, speaker in rows
        ]
        return PlayedSession(session=session, turns=2, ended_at="", duration_ms=0, memories=made)

    return Scorer(life, {session: played(session, rows) for session, rows in memories.items()})


def test_a_good_memory_scores_full(ada: Life) -> None:
    good = scorer(ada, GOOD)
    found = good.extraction()
    assert found["must"] == {"n": 4, "stored": 4}
    assert found["must_not"] == {"n": 1, "stored": 0}
    assert (found["memories"], found["unsaid"]) == (4, 0)
    assert good.attribution() == {"n": 4, "right": 4, "inferred": 0, "wrong": []}


def test_a_bad_memory_scores_low(ada: Life) -> None:
    bad = scorer(ada, BAD)
    found = bad.extraction()
    assert found["must"] == {"n": 4, "stored": 1}
    assert found["must_not"] == {"n": 1, "stored": 1}
    assert found["unsaid"] == 1, "nobody said anything of Sarah Chen"
    said = {"text": "Per Lindqvist can't eat shellfish", "speaker": "owner", "expected": "per"}
    assert bad.attribution() == {"n": 1, "right": 0, "inferred": 0, "wrong": [said]}
    assert bad.supersession({})["right"] == 0


def test_the_current_fact_wins_only_if_the_old_one_is_marked(ada: Life) -> None:
    good = scorer(ada, GOOD)
    counts = {"n": 1, "current_stored": 1, "both_stored": 1}
    assert good.supersession({"b": "d"}).items() >= {**counts, "right": 1}.items()
    assert good.supersession({}).items() >= {**counts, "right": 0}.items()
    assert good.supersession({"d": "b"})["right"] == 0, "the old one must not win"
    without_old = {**GOOD, "s1": GOOD["s1"][:1]}
    assert scorer(ada, without_old).supersession({})["right"] == 1


def answers(**texts: str) -> dict[str, Answer]:
    return {id_: Answer(id=id_, text=text) for id_, text in texts.items()}


def test_answers_are_right_by_what_they_say(ada: Life) -> None:
    good = scorer(ada, GOOD)
    told = good.answers(
        answers(q1="On 11 February 2026.", q2="Shellfish.", q3="You haven\u2019t told me what it costs.")
    )
    assert (told["all"], told["unanswerable"]) == ({"n": 2, "right": 2}, {"n": 1, "right": 1})
    told = good.answers(answers(q1="On 4 February 2026.", q2="I don't know.", q3="It charges 90 euros."))
    assert (told["all"], told["unanswerable"]) == ({"n": 2, "right": 0}, {"n": 1, "right": 0})


def test_a_failed_answer_is_counted_and_wrong_and_a_judge_stands_beside_the_words(ada: Life) -> None:
    failed = {"q3": Answer(id="q3", text="", error="the model was not there")}
    given = {**answers(q1="The eleventh.", q2="Nuts."), **failed}
    verdicts = Verdicts(answers={"q1": True, "q2": False}, sessions={"s1": {"must": [True, False]}})
    told = scorer(ada, GOOD).answers(given, verdicts)
    assert told["all"] == {"n": 2, "right": 0, "judged": 1}
    assert (told["failed"], told["unanswerable"]["right"]) == (1, 0)
    assert scorer(ada, {}).extraction(verdicts)["must"] == {"n": 4, "stored": 0, "judged": 1}


def test_on_the_authored_lives_evidence_answers_and_other_facts_do_not() -> None:
    draw = random.Random(1)
    total = right = other = outdated = outdated_total = 0
    for folder in sorted(TRAINING.iterdir()):
        life = lives.read(folder)
        scores = Scorer(life, {})
        texts = {row["key"]: row["text"] for row in life.facts}
        for row in (row for row in life.questions if row["evidence"]):
            evidence = row["evidence"] if row.get("all") else row["evidence"][:1]
            total += 1
            right += scores.is_right(row, " ".join(texts[key] for key in evidence))
            other += scores.is_right(row, texts[draw.choice(sorted(texts.keys() - row["evidence"]))])
            outdated_total += len(row.get("wrong", []))
            outdated += sum(scores.is_right(row, texts[key]) for key in row.get("wrong", []))
    assert total > 1000
    assert right / total > 0.99
    assert other / total < 0.01
    assert outdated / outdated_total < 0.02
