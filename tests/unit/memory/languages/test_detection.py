"""The language of short texts: what people ask, say and note down."""

import pytest

from nexus.memory.languages import detect, lexicon, mixture
from nexus.memory.languages.lexicon import lexicons


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Which antibiotics must I not be given?"),
        ("en", "Nora is allergic to penicillin"),
        ("de", "Wann habe ich den nächsten Zahnarzttermin?"),
        ("de", "Der Vermieter hat die Heizung reparieren lassen."),
        ("es", "¿A qué hora sale mi tren?"),
        ("es", "Mi hermana vive en Sevilla desde marzo"),
        ("fr", "Quel âge a la mère de ma compagne ?"),
        ("fr", "Laurent a rendu son passeport la semaine dernière."),
        ("pt", "Onde é a lua de mel da Rita?"),
        ("pt", "O Duarte nasceu a 30 de julho de 1994."),
        ("it", "Quando parte il treno per Bologna?"),
        ("nl", "Wanneer heb ik een afspraak bij de tandarts?"),
        ("sv", "När ska jag hämta barnen från skolan?"),
        ("pl", "Kiedy mam wizytę u dentysty?"),
        ("ru", "Когда мой приём?"),
        ("uk", "Коли мій прийом?"),
        ("zh", "我妻子对什么过敏?"),
        ("ja", "母の誕生日はいつですか"),
        ("ko", "어머니 생신이 언제예요?"),
        ("th", "ฉันแพ้อะไร"),
        ("el", "Πότε είναι το ραντεβού μου;"),
        ("ar", "متى موعدي مع الطبيب؟"),
    ],
)
def test_short_texts_tell_their_language_without_a_prior(language: str, text: str) -> None:
    assert detect(text, prior="") == language


def test_a_text_that_does_not_tell_is_in_the_homes_language() -> None:
    assert detect("Zahnarzt?", prior="de") == "de"
    assert detect("", prior="fr") == "fr"
    assert detect("42", prior="pt") == "pt"


def test_a_question_in_another_language_is_not_overruled_by_the_home() -> None:
    assert detect("When is my dentist appointment?", prior="de") == "en"
    assert detect("¿Cuándo es mi cita?", prior="en") == "es"


def test_a_latin_name_in_a_chinese_sentence_leaves_it_chinese() -> None:
    assert detect("Johannes 昨天搬到了慕尼黑", prior="en") == "zh"


def test_a_mixed_text_names_both_languages() -> None:
    assert mixture("Was hat mein Chef gesagt, als ich ihm schrieb: you should do this") == ("de", "en")
    assert mixture("When did I move to Berlin?", prior="de") == ("en",)


def test_every_lexicon_is_complete_and_lower_case() -> None:
    for code, known in lexicons().items():
        if known.function_words:
            assert known.stemmer, code
            assert known.time_words, code
            assert known.number_words, code
            assert all(word == word.lower() for word in known.function_words | known.time_words), code


def test_an_unknown_language_has_an_empty_lexicon() -> None:
    assert lexicon("tlh").function_words == frozenset()
