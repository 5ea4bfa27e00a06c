"""What `nexus recall --explain` tells of a result."""

from typing import Any

import pytest

from nexus.cli.recall import print_answer
from nexus.memory.recall.item import NEIGHBOUR_ARM, Basis, Item, Match, Matches, Reasons, Replacement


@pytest.mark.parametrize(
    ("basis", "signals", "wanted"),
    [
        (
            "judged",
            ("the message corrects something", "same attribute"),
            "the message corrects something, same attribute",
        ),
        ("stated", (), "as stated"),
    ],
)
def test_what_decided_a_link_is_explained(
    basis: Basis, signals: tuple[str, ...], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by = Replacement(
        id="fact_2",
        text="Tyler works at Anthropic",
        at="2026-05-08T09:00:00.000Z",
        basis=basis,
        signals=signals,
    )
    item = Item(
        kind="fact", id="fact_1", text="Tyler works at Google", at="2026-05-07T09:00:00.000Z", replaced_by=by
    )
    match = Match(item=item, score=1.0, probability=0.5, tokens=5, reasons=Reasons(arms={}))
    for explain in (True, False):
        print_answer(Matches(results=(match,)), explain=explain)
        assert (f"replaced  {wanted}" in capsys.readouterr().out) is explain


def _explain(reasons: Reasons, capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    item = Item(kind="fact", id="fact_2", text="Tyler works at Anthropic", at="2026-05-08T09:00:00.000Z")
    match = Match(item=item, score=5.32, probability=0.5, tokens=5, reasons=reasons)
    print_answer(Matches(results=(match,), **more), explain=True)
    return capsys.readouterr().out


def test_arms_and_steps_are_shown_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    arms = {
        "keyword_facts": (1, 9.0),
        "semantic": (2, 0.5),
        "gist": (3, 0.4),
        "graph": (1, 1.0),
        "mine": (1, 1.0),
    }
    shown = _explain(
        Reasons(arms=arms, matched_names=("Clara", "Jonas")),
        capsys,
        late_arms=("keyword_events", "keyword_facts", "fetch"),
        timings_ms={"total": 9.0, "embed": 5.0, "keyword_facts": 3.0, "keyword_events": 3.0},
    )
    assert "found by  same words (#1), same meaning (#2), linked to Clara and Jonas, mine\n" in shown
    assert "Missed the deadline: same words, loading the matches\n" in shown
    assert "same words 6, embedding the question 5." in shown
    assert "found by  next to evt_1" in _explain(
        Reasons(arms={NEIGHBOUR_ARM: (0, 0.0)}, neighbour_of="evt_1"), capsys
    )


def test_a_result_that_moved_up_says_what_it_passed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _explain(Reasons(arms={}, replaces="fact_1", factors={"recency": 0.28, "moved": 2.0}), capsys)
    assert "score     5.32, of which recency +0.28, moved +2.00\n" in shown
    assert "moved up  replaces fact_1\n" in shown
    shown = _explain(Reasons(arms={}, precedes="fact_3"), capsys)
    assert "score     5.32\n" in shown
    assert "moved up  was before fact_3\n" in shown


def test_strong_matches_stand_above_weak_ones(capsys: pytest.CaptureFixture[str]) -> None:
    def match(id_: str, *, is_strong: bool) -> Match:
        item = Item(kind="fact", id=id_, text=f"It is {id_}", at="2026-05-08T09:00:00.000Z")
        strength = "strong" if is_strong else "weak"
        return Match(
            item=item, score=1.0, probability=0.5, tokens=5, reasons=Reasons(arms={}), strength=strength
        )

    results = (match("weak", is_strong=False), match("strong", is_strong=True))
    print_answer(Matches(results=results), explain=False)
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("It is ")[-1] for line in shown] == ["strong", "Weak matches:", "weak"]


def test_a_search_that_ran_out_of_time_does_not_say_that_nothing_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_answer(Matches(results=(), late_arms=("semantic",)), explain=False)
    assert capsys.readouterr().out == "Recall ran out of time before it found anything. Try again.\n"
