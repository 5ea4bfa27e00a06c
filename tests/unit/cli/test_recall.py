"""What `nexus recall --explain` tells of a replaced fact."""

import pytest

from nexus.cli.recall import print_answer
from nexus.memory.recall.item import Item, Match, Matches, Reasons, Replacement


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
    basis: str, signals: tuple[str, ...], wanted: str, capsys: pytest.CaptureFixture[str]
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
