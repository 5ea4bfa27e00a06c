"""What a question asks for, in five languages."""

import pytest

from nexus.memory.languages.cues import (
    asks_count,
    asks_past,
    asks_survey,
    asks_when,
    asks_why,
    first_person,
    what_followed,
)


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
