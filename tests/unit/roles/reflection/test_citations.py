"""Only what was retrieved stays cited."""

import re
from typing import Any

import pytest

from nexus.memory.conclusions.support import Cited, check_citations
from nexus.roles import reflection
from nexus.roles.services import role_text

_NAMES = {
    "<PERSON_A>": "Quillon",
    "<PERSON_B>": "Tamsin",
    "<CITY_B>": "Leuven",
    "<PROJECT_A>": "Blue Heron",
}
KNOWN = {"fact_01ABCDEFGH", "obs_01ABCDEFGH"}


@pytest.mark.parametrize(
    ("text", "cleaned", "ids", "removed"),
    [
        ("He sings [fact_01ABCDEFGH].", "He sings [fact_01ABCDEFGH].", ["fact_01ABCDEFGH"], []),
        ("He sings [fact_99].", "He sings.", [], ["fact_99"]),
        (
            "He sings [obs_01ABCDEFGH, fact_99; fact_01ABCDEFGH].",
            "He sings [obs_01ABCDEFGH, fact_01ABCDEFGH].",
            ["obs_01ABCDEFGH", "fact_01ABCDEFGH"],
            ["fact_99"],
        ),
        (
            "See fact_01ABCDEFGH and mod_01INVENTED00.",
            "See fact_01ABCDEFGH and .",
            ["fact_01ABCDEFGH"],
            ["mod_01INVENTED00"],
        ),
        ("A fact_check [1] is no source.", "A fact_check [1] is no source.", [], []),
        ("", "", [], []),
    ],
)
def test_citations_are_sorted_out(text: str, cleaned: str, ids: list[str], removed: list[str]) -> None:
    found = check_citations(text, KNOWN)
    assert (found.text, list(found.ids), list(found.removed)) == (cleaned, ids, removed)


def test_an_id_that_somebody_only_spoke_of_was_not_retrieved() -> None:
    result = "<memory>\n- [fact_1] 2026-01-01 He said - [fact_2] is true\n</memory>"
    assert reflection.find_retrieved([result, "- [obs_1] x"]).keys() == {"fact_1", "obs_1"}


def _examples() -> list[tuple[str, str]]:
    text = role_text("nexus.roles.reflection")
    return re.findall(r"^(Good|Bad)[^\n]*:\n\n((?:    .*\n?)+)", text, re.MULTILINE)


def _checked(lines: str) -> Cited:
    lines = re.sub(r"<FACT_(\w+)>", r"fact_\1", lines)
    *results, answer = [line.strip() for line in lines.strip().splitlines()]
    return check_citations(answer, reflection.find_retrieved(["\n".join(results)]))


def test_there_are_examples_of_both_kinds() -> None:
    assert [kind for kind, _ in _examples()] == ["Good", "Bad"] * 3


@pytest.mark.parametrize(("kind", "lines"), _examples())
def test_every_example_of_the_role_is_judged_as_it_says(kind: str, lines: str) -> None:
    names = {
        "<PERSON_A>": "Quillon",
        "<PERSON_B>": "Tamsin",
        "<CITY_B>": "Leuven",
        "<PROJECT_A>": "Blue Heron",
    }
    assert not _checked(lines).ids or "<" not in lines
    for placeholder, name in names.items():
        lines = lines.replace(placeholder, name)
    found = _checked(lines)
    assert bool(found.ids) == (kind == "Good")
    assert bool(found.removed) == (kind == "Bad")


def test_checking_many_citations_reads_the_text_once() -> None:
    """Each citation looks at the text since the one before it, not at all of the text before."""
    fact, seen = "fact_01ABCDEFGH", 0

    class Text(str):
        def __getitem__(self, place: Any) -> str:
            nonlocal seen
            part = super().__getitem__(place)
            seen += len(part)
            return part

    text = Text(f"Ines sings [{fact}]. " * 1_000)
    assert check_citations(text, {fact: "Ines sings"}).removed == ()
    assert seen <= len(text)


def test_a_citation_that_is_off_by_one_is_put_right() -> None:
    results = ["- [fact_1] 2031-01-01 Ines sings\n- [fact_2] 2031-01-02 Ines works at Harrow Mill"]
    found = check_citations("Ines works at Harrow Mill [fact_1].", reflection.find_retrieved(results))
    assert found.text == "Ines works at Harrow Mill [fact_1, fact_2]."
