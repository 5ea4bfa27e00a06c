"""Only what was retrieved stays cited."""

import pytest

from nexus.roles.reflection import tools
from nexus.roles.reflection.citations import checked

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
    found = checked(text, KNOWN)
    assert (found.text, list(found.ids), list(found.removed)) == (cleaned, ids, removed)


def test_an_id_that_somebody_only_spoke_of_was_not_retrieved() -> None:
    result = "<memory>\n- [fact_1] 2026-01-01 He said - [fact_2] is true\n</memory>"
    assert tools.retrieved([result, "- [obs_1] x"]) == {"fact_1", "obs_1"}
