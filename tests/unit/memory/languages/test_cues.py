"""What a question asks for, in five languages."""

import re

import pytest

from nexus.memory.languages.cues import (
    BEGIN_WORDS,
    asks_count,
    asks_past,
    asks_survey,
    asks_when,
    asks_why,
    first_person,
    what_followed,
)
from nexus.memory.languages.lexicon import lexicons


@pytest.mark.parametrize(
    ("language", "when", "count", "why"),
    [
        ("en", "When is my dentist appointment?", "How many cats do we have?", "Why did we sell the car?"),
        (
            "de",
            "Seit wann wohnen wir hier?",
            "Wie viele Katzen haben wir?",
            "Weshalb haben wir das Auto verkauft?",
        ),
        ("es", "¿Qué día firmamos?", "¿Cuántos gatos tenemos?", "¿A qué se debe el retraso?"),
        (
            "fr",
            "À quelle heure part le train ?",
            "Combien de chats avons-nous ?",
            "Pourquoi a-t-on vendu la 308 ?",
        ),
        ("pt", "Em que dia reúno com a Graça?", "Quantos gatos temos?", "Porque é que vendemos o carro?"),
    ],
)
def test_a_question_asks_for_a_time_a_number_or_a_reason(
    language: str, when: str, count: str, why: str
) -> None:
    assert asks_when(when, language)
    assert asks_count(count, language)
    assert asks_why(why, language)
    assert not asks_why(when, language)
    assert not asks_when(why, language)
    assert not asks_count(why, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Where did Clara live before?"),
        ("en", "What was our hourly rate in 2024?"),
        ("en", "Who used to be my boss?"),
        ("de", "Welches Auto hatten wir vor dem Dacia?"),
        ("de", "Welchen Sport hat Levin früher gemacht?"),
        ("es", "¿Dónde vivía Elena?"),
        ("es", "¿Quién nos traía el pescado antes?"),
        ("fr", "Où travaillait Camille avant d'avoir son cabinet ?"),
        ("pt", "Quanto era a renda antes do aumento?"),
        ("en", "who kept our books before Ilse?"),
        ("en", "Tell me where Clara lived before Rotterdam"),
        ("en", "What was the price before March?"),
        ("de", "Sag mir, wo Clara vor dem Umzug gewohnt hat."),
        ("es", "¿Dónde trabajó Elena antes del verano?"),
        ("fr", "Où a-t-elle travaillé avant Gand ?"),
        ("pt", "Onde trabalhou ele antes de Lisboa?"),
    ],
)
def test_a_question_asks_about_the_past(language: str, text: str) -> None:
    assert asks_past(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Where does Clara live now?"),
        ("en", "When did my father die?"),
        ("de", "Wie hieß die Kita am Ende?"),
        ("de", "Wann ist Papa gestürzt?"),
        ("es", "¿Cuándo fue al final el examen?"),
        ("fr", "Quand a eu lieu le voyage à Berlin, finalement ?"),
        ("pt", "No fim de contas, até quando era a revisão?"),
    ],
)
def test_what_happened_and_how_it_ended_is_not_how_it_was_before(language: str, text: str) -> None:
    assert not asks_past(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Write to Ann before Friday about the flat"),
        ("en", "Can you call Clara before she leaves?"),
        ("en", "What do I have to pack before the trip?"),
        ("en", "Clara's parcel has to be there before noon"),
        ("en", "Parcel for Clara before tomorrow"),
        ("en", "What's the difference between a mutex and a semaphore?"),
        ("de", "Schreib Ann vor der Reise wegen der Wohnung."),
        ("de", "Was muss ich erledigen, bevor wir umziehen?"),
        ("es", "Escribe a Ann antes del viernes"),
        ("es", "¿Qué tengo que comprar antes de que llegue?"),
        ("fr", "Que dois-je acheter avant vendredi ?"),
        ("pt", "O que devo pôr na mala antes das férias?"),
    ],
)
def test_a_deadline_is_not_the_past(language: str, text: str) -> None:
    assert not asks_past(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "our house"),
        ("de", "mit meinem Chef"),
        ("es", "mi hermana"),
        ("fr", "notre maison"),
        ("pt", "a minha avó"),
    ],
)
def test_the_person_who_asks_is_part_of_it(language: str, text: str) -> None:
    assert first_person(text, language)


def test_an_overview_is_asked_for() -> None:
    assert asks_survey("Fass zusammen" + " und gib mir eine Liste", "de")
    assert not asks_survey("Wer ist mein Chef?", "de")


def test_a_language_without_cues_tells_nothing() -> None:
    assert not asks_when("何時ですか", "ja")


@pytest.mark.parametrize(
    ("text", "language", "wanted"),
    [
        ("where did she live before Rotterdam?", "en", "Rotterdam?"),
        ("Wo hat sie vor dem Umzug gewohnt?", "de", "dem Umzug gewohnt?"),
        ("¿dónde vivía antes de Lyon?", "es", "Lyon?"),
        ("où habitait-elle avant Gand ?", "fr", "Gand ?"),
        ("onde morava antes do Porto?", "pt", "Porto?"),
        ("where does she live?", "en", ""),
    ],
)
def test_what_came_later_is_told(text: str, language: str, wanted: str) -> None:
    assert what_followed(text, language).strip() == wanted


@pytest.mark.parametrize("cue", sorted(BEGIN_WORDS))
def test_a_cue_that_is_looked_for_at_the_beginnings_of_words_begins_there_in_every_language(cue: str) -> None:
    patterns = [pattern for known in lexicons().values() if (pattern := known.cues.get(cue))]
    assert patterns
    for pattern in patterns:
        for alternative in _split_alternatives(pattern):
            assert re.match(r"\\b(\(\?:)?\w", alternative), alternative


def _split_alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern that no group holds."""
    found, depth = [""], 0
    for letter in pattern:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found
