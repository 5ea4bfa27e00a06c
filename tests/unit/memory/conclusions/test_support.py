"""Names and numbers of a sentence must stand in the facts that it cites."""

import pytest

from nexus.memory.conclusions import support

FACTS = {
    "fact_1": "[2031-02-10] Ines Okoye works at Harrow Mill (observed, said by owner, about Ines Okoye)",
    "fact_2": "[2031-03-01] The deadline of Blue Heron is 14 March (observed)",
    "fact_3": "[2031-03-05] The deadline of Blue Heron moved to 21 March (observed)",
}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Ines works at Harrow Mill since February 2031.", ""),
        ("Ines's job is at Harrow Mill.", ""),
        ("Mira works at Harrow Mill.", "mira"),
        ("Ines works at Harrow Mill with Sarah Chen.", "sarah chen"),
        ("Ines works 32 hours at Harrow Mill.", "32"),
        ("Currently, Ines works there.", ""),
        ("Both facts agree about Ines.", ""),
    ],
)
def test_what_no_fact_holds_is_found(text: str, missing: str) -> None:
    assert support.find_unsupported(text, [FACTS["fact_1"]]) == set(missing.split())


def test_german_nouns_are_no_names_but_a_full_name_is() -> None:
    fact = "[2031-02-10] Ines arbeitet in der Mühle"
    assert not support.find_unsupported("Ines hat eine Stelle in der Mühle.", [fact])
    assert support.find_unsupported("Ines arbeitet mit Jonas Feld in der Mühle.", [fact]) == {"jonas", "feld"}


def test_a_citation_that_is_off_by_one_is_put_right() -> None:
    right = support.repair_citations("The deadline of Blue Heron is 21 March.", ["fact_1"], FACTS)
    assert right is not None
    assert (right.fact_ids, right.repaired) == (("fact_3",), True)


def test_a_citation_that_is_right_stays() -> None:
    right = support.repair_citations("Ines works at Harrow Mill.", ["fact_1"], FACTS)
    assert right == support.Repair(fact_ids=("fact_1",))


def test_what_two_facts_could_support_is_not_guessed() -> None:
    assert support.repair_citations("Blue Heron has a deadline.", ["fact_1"], FACTS) is None


def test_an_invented_name_is_refused_whatever_is_cited() -> None:
    assert support.repair_citations("Sarah Chen leads Blue Heron.", list(FACTS), FACTS) is None
