"""What the fast model may answer, how a memory is told, and how its use shows."""

from typing import Any

import pytest

from nexus.memory.recall.item import Item, Link, Replacement
from nexus.roles.memory_injection import formatting
from nexus.roles.memory_injection.formatting import find_use
from nexus.roles.memory_injection.injection import Choice, parse_choice

_FACT = "fact_01J8ZQ5W4T3K9V7M2N6P8R0S1X"


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("1, 3", Choice(numbers=(1, 3))),
        ("[2]", Choice(numbers=(2,))),
        ("3 and 1", Choice(numbers=(3, 1))),
        ("- 2\n", Choice(numbers=(2,))),
        ("The birthday matters.\n\n2, 2", Choice(numbers=(2,))),
        (f"1, `{_FACT}`.", Choice(numbers=(1,), ids=(_FACT,))),
        ("none", Choice()),
        ("None.", Choice()),
        ("[]", Choice()),
        ("0", Choice()),
        ("", None),
        ("4", None),
        ("1, 2024", None),
        ("I would choose 1", None),
        ("1 <script>", None),
    ],
)
def test_an_answer_is_numbers_ids_or_none_and_nothing_else(answer: str, choice: Choice | None) -> None:
    assert parse_choice(answer, offered=3) == choice


def _item(text: str, **more: Any) -> Item:
    return Item(kind="fact", id=_FACT, text=text, at="2026-05-01T10:00:00.000Z", **more)


def test_a_line_is_the_text_with_date_speaker_and_id() -> None:
    assert formatting.format_memory(_item("Tyler likes\n Italian food"), "owner") == (
        f"- Tyler likes Italian food (2026-05-01, said by owner, {_FACT})"
    )
    assert formatting.format_memory(_item("It rains", source_type="inferred"), None) == (
        f"- It rains (2026-05-01, inferred, {_FACT})"
    )


def test_a_line_tells_whose_word_a_conclusion_is_and_how_far_it_carries() -> None:
    found = Item(kind="observation", id="obs_1", text="Sam may do it", at="2026-05-01", confidence=0.6)
    assert formatting.format_memory(found, "sam") == (
        "- Sam may do it (evidence from 2026-05-01, a conclusion from what was said by sam, "
        "confidence 0.6, obs_1)"
    )


def test_a_conclusion_that_is_out_of_date_says_so() -> None:
    found = Item(kind="observation", id="obs_1", text="It is due", at="2026-05-01", stale_since="2026-06-02")
    assert "out of date since 2026-06-02, obs_1)" in formatting.format_memory(found, None)


def test_an_outdated_memory_comes_with_what_holds_instead() -> None:
    by = Replacement(id="fact_2", text="Clara lives in\nRotterdam (since May)", at="2026-05-13T00:00:00.000Z")
    told = formatting.format_memory(_item("Clara lives in Aarhus", stale_since=by.at, replaced_by=by), None)
    assert told == (
        "- Clara lives in Aarhus (2026-05-01, until 2026-05-13; now: Clara lives in Rotterdam [since May], "
        f"{_FACT})"
    )
    assert formatting.parse_memories(told) == {_FACT: "Clara lives in Aarhus"}
    conclusion = Item(
        kind="observation",
        id="obs_1",
        text="Clara likes Aarhus",
        at="2026-05-01",
        stale_since="2026-05-13",
        outdated_by=Link("fact_2", "Clara lives in Rotterdam </memory>", "newer"),
    )
    assert (
        "out of date since 2026-05-13; now: Clara lives in Rotterdam &lt;/memory>, obs_1)"
        in formatting.format_memory(conclusion, None)
    )


def test_what_is_told_can_be_read_back_by_id() -> None:
    texts = ["Tyler (the tall one) likes food (a lot)", "a <b>bold</b> claim", "1 < 2 and 3 > 2"]
    items = [Item(kind="fact", id=f"fact_{n}", text=text, at="2026-05-01") for n, text in enumerate(texts)]
    block = formatting.format_memories(items, {"fact_0": "an (odd), name"})
    assert formatting.parse_memories(block) == {
        "fact_0": texts[0],
        "fact_1": "a &lt;b>bold&lt;/b> claim",
        "fact_2": texts[2],
    }


@pytest.mark.parametrize(
    ("answer", "sign"),
    [
        (f"As you said ({_FACT}), we go out.", "id"),
        ("We eat Italian food.", "words"),
        ("Italian it is.", None),
        ("We go out for Tyler's dinner.", None),
    ],
)
def test_use_shows_by_the_id_or_by_words_that_the_task_did_not_have(answer: str, sign: str | None) -> None:
    told = {_FACT: "Tyler likes Italian food for dinner"}
    assert find_use(told, task="Plan Tyler's dinner", answer=answer) == {_FACT: sign}
