"""What a model answers in structured mode, however it is wrapped."""

import time

import pytest

from nexus.errors import UnusableAnswerError
from nexus.roles.memory_writer.extraction import Draft, Person, read_answer

FACT = '{"message": 2, "about": "Hana", "fact": "Hana runs"}'
WHOLE = f'{{"facts": [{FACT}], "people": [{{"name": "Hana", "also_called": "Hani"}}]}}'


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"Sure!\n```json\n{WHOLE}\n```\nDone.",
        WHOLE[:-1],
        '{"facts": [' + FACT + '], "people": [{"name": "Hana", "also_called": "Hani"}, {"na',
        '{"people": [{"name": "Hana", "alias": "Hani"}], "facts": ['
        '{"message": "[2]", "subject": "Hana", "statement": "Hana  runs"}, {"fact": ""}, 7]}',
    ],
)
def test_an_answer_is_read_however_it_is_wrapped(text: str) -> None:
    found = read_answer(text)

    assert found.facts == (Draft(fact="Hana runs", about="Hana", message=2),)
    assert found.people == (Person(name="Hana", also_called="Hani"),)


@pytest.mark.parametrize("text", [f"[{FACT}]", FACT, '{"facts": ["Hana runs"]}'])
def test_facts_alone_are_enough(text: str) -> None:
    assert [draft.fact for draft in read_answer(text).facts] == ["Hana runs"]


def test_nothing_to_remember_is_an_answer() -> None:
    assert read_answer('{"facts": [], "people": []}').facts == ()


@pytest.mark.parametrize("text", ["", "Nothing to remember", "{broken", '{"answer": 42}', "[1, 2"])
def test_what_is_no_answer_is_told(text: str) -> None:
    with pytest.raises(UnusableAnswerError):
        read_answer(text)


def test_an_answer_that_repeats_one_sign_is_refused_in_time() -> None:
    started = time.process_time()
    with pytest.raises(UnusableAnswerError):
        read_answer("[" * 50_000)
    assert time.process_time() - started < 2.0

    (draft,) = read_answer(f'{{"facts": [{{"fact": "Tea is green", "message": "{"1" * 5_000}"}}]}}').facts
    assert draft.fact == "Tea is green"
