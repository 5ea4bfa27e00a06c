"""An answer is used in whole, and only where it cites what was shown."""

import json

import pytest

from nexus.errors import UnusableAnswerError
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.observations import Draft
from nexus.roles import consolidation
from nexus.roles.consolidation import Shown

BATCH = Batch(
    root_request_id=None, fact_ids=("fact_1", "fact_2"), observation_ids=("obs_1",), known_ids=("fact_0",)
)


def test_numbers_become_the_facts_that_were_shown() -> None:
    text = """Here it is:
```json
{"observations": [{"text": " Two\\n lines ", "facts": [1, 3, 1], "revises": "O1"}], "nothing_new": [2, 3]}
```"""
    found = consolidation.read_answer(text, BATCH).conclusions
    assert found.drafts == (Draft(text="Two lines", fact_ids=("fact_1", "fact_0"), revises="obs_1"),)
    assert found.skipped == ("fact_2",)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("I would rather not.", "holds no JSON object"),
        ("", "holds no JSON object"),
        ('{"observations": [', "holds no JSON object"),
        ('{"observations": [}', "not JSON"),
        ('{"a":' + "[" * 100_000 + "}", "not JSON"),
        ('{"observations": {}}', "not a list"),
        ('{"observations": ["x"]}', "not an object"),
        ('{"observations": [{"text": "x", "facts": [4]}]}', "4 is not the name"),
        ('{"observations": [{"text": "x", "facts": [0]}]}', "0 is not the name"),
        ('{"observations": [{"text": "x", "facts": [true]}]}', "True is not the name"),
        ('{"observations": [{"text": "x", "facts": ["fact_1"]}]}', "is not the name"),
        ('{"observations": [{"text": "x", "facts": 1}]}', "is not the name"),
        ('{"observations": [{"text": "x", "facts": []}]}', "cites no fact"),
        ('{"observations": [{"text": "x"}]}', "is not the name"),
        ('{"observations": [{"text": "  ", "facts": [1]}]}', "has no text"),
        (f'{{"observations": [{{"text": "{"x" * 2001}", "facts": [1]}}]}}', "longer than"),
        ('{"observations": [{"text": "x", "facts": [1], "revises": "O2"}]}', "not an observation"),
        ('{"observations": [{"text": "x", "facts": [1], "revises": 1}]}', "not an observation"),
        (
            '{"observations": [{"text": "x", "facts": [1], "revises": "O1"}, '
            '{"text": "y", "facts": [2], "revises": "O1"}]}',
            "revised twice",
        ),
        ('{"observations": [{"text": "x", "facts": [3]}]}', "none of the new facts"),
        ('{"observations": [], "nothing_new": [7]}', "7 is not the name"),
        ('{"nothing_new": []}', "none of the new facts"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(bad: str, reason: str) -> None:
    with pytest.raises(UnusableAnswerError, match=reason):
        consolidation.read_answer(bad, BATCH)


SHOWN = Shown(
    {
        "fact_1": "[2031-02-10] Ines works at Harrow Mill (observed, about Ines)",
        "fact_2": "[2031-03-01] Ines is allergic to kiwis (observed, about Ines)",
        "fact_0": "[2031-01-01] Ines sings on Mondays (observed, about Ines)",
    },
    {"obs_1": "O1. Ines sings with Bram (concluded 2031-01-02)"},
)


def _read(*observations: dict[str, object]) -> consolidation.Reading:
    return consolidation.read_answer(json.dumps({"observations": list(observations)}), BATCH, SHOWN)


def test_facts_are_cited_by_short_names_that_do_not_change() -> None:
    labels = BATCH.labels
    found = _read({"text": "Ines works at Harrow Mill.", "facts": [labels["fact_1"]]})
    assert found.conclusions.drafts[0].fact_ids == ("fact_1",)
    assert labels == Batch(root_request_id=None, fact_ids=("fact_2", "fact_0", "fact_1")).labels


def test_a_wrong_citation_is_put_right_where_one_fact_fits() -> None:
    found = _read({"text": "Ines works at Harrow Mill.", "facts": [2]})
    assert (found.conclusions.drafts[0].fact_ids, found.repaired) == (("fact_2", "fact_1"), 1)


def test_an_invented_name_is_refused_and_the_rest_is_taken() -> None:
    found = _read(
        {"text": "Sarah Chen leads Harrow Mill.", "facts": [1]},
        {"text": "Ines is allergic to kiwis.", "facts": [2]},
    )
    assert [draft.text for draft in found.conclusions.drafts] == ["Ines is allergic to kiwis."]
    assert found.refused == ("chen, sarah not in what is cited",)
    assert found.conclusions.skipped == ("fact_1",)


def test_a_revision_may_keep_what_the_observation_said() -> None:
    found = _read({"text": "Ines sings with Bram and works at Harrow Mill.", "facts": [1], "revises": "O1"})
    assert not found.refused
