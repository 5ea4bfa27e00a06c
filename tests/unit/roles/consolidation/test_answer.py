"""An answer is used in whole, and only where it cites what was shown."""

import pytest

from nexus.errors import UnusableAnswerError
from nexus.memory.conclusions.batches import Batch
from nexus.memory.conclusions.observations import Draft
from nexus.roles.consolidation import answer

BATCH = Batch(
    root_request_id=None, fact_ids=("fact_1", "fact_2"), observation_ids=("obs_1",), known_ids=("fact_0",)
)


def test_numbers_become_the_facts_that_were_shown() -> None:
    text = """Here it is:
```json
{"observations": [{"text": " Two\\n lines ", "facts": [1, 3, 1], "revises": "O1"}], "nothing_new": [2, 3]}
```"""
    found = answer.read(text, BATCH)
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
        ('{"observations": [{"text": "x", "facts": [4]}]}', "4 is not the number"),
        ('{"observations": [{"text": "x", "facts": [0]}]}', "0 is not the number"),
        ('{"observations": [{"text": "x", "facts": [true]}]}', "True is not the number"),
        ('{"observations": [{"text": "x", "facts": ["fact_1"]}]}', "is not the number"),
        ('{"observations": [{"text": "x", "facts": 1}]}', "is not the number"),
        ('{"observations": [{"text": "x", "facts": []}]}', "cites no fact"),
        ('{"observations": [{"text": "x"}]}', "is not the number"),
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
        ('{"observations": [], "nothing_new": [7]}', "7 is not the number"),
        ('{"nothing_new": []}', "none of the new facts"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(bad: str, reason: str) -> None:
    with pytest.raises(UnusableAnswerError, match=reason):
        answer.read(bad, BATCH)
