"""Words of texts, cut and stemmed in the language of the question."""

import pytest

from nexus.memory.recall.words import (
    forms,
    function_words,
    names_time_or_number,
    says_name,
    tokens,
)


@pytest.mark.parametrize(
    ("language", "question", "fact", "shared"),
    [
        ("de", "Welche Versicherungen habe ich?", "Johanna hat die Versicherung gekündigt.", "versicherung"),
        ("es", "¿Dónde trabajaban mis hermanas?", "Su hermana trabaja en un hospital.", "herman"),
        ("fr", "Quels médicaments prend ma mère ?", "Sa mère prend un médicament le soir.", "medic"),
        ("pt", "Quando são as reuniões?", "A reunião é na quinta.", "reunia"),
    ],
)
def test_another_inflection_is_the_same_word(language: str, question: str, fact: str, shared: str) -> None:
    both = set(tokens(question, language)) & set(tokens(fact, language))
    assert any(word.startswith(shared[:5]) for word in both - function_words(language)), both


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("Ann has moved", "ann", True),
        ("That is Ann's flat; Ann\u2019s key too", "ann", True),
        ("Anns Wohnung, Claras Bruder", "clara", True),
        ("The annual report", "ann", False),
        ("Also in general, she said", "al", False),
        ("The market is closed", "mark", False),
        ("她是王芳的妹妹", "王芳", True),
    ],
)
def test_a_name_is_a_word_of_its_own(text: str, name: str, wanted: bool) -> None:
    assert says_name(text, name) is wanted


def test_english_is_stemmed_as_the_index_stems_it() -> None:
    assert tokens("She likes running houses") == ["she", "like", "run", "hous"]


def test_function_words_are_those_of_the_language() -> None:
    words = set(tokens("Wann habe ich den Termin beim neuen Arzt?", "de"))
    assert words - function_words("de") == {"neu", "termin", "arzt"}


def test_function_words_of_a_second_language_are_stemmed_by_the_first() -> None:
    words = set(tokens("was hast du her dentist gesagt", "de"))
    assert "her" in words - function_words("de")
    assert "her" not in words - function_words("de", "en")


def test_each_stem_keeps_the_form_in_which_it_was_written() -> None:
    assert forms("Häuser der Straßen", "de") == {"haus": "Häuser", "der": "der", "strass": "Straßen"}


def test_a_script_without_spaces_is_cut_into_pairs() -> None:
    assert tokens("花生过敏", "zh") == ["花生", "生过", "过敏"]
    assert tokens("ABC東京タワー and more", "ja") == ["abc", "東京", "京タ", "タワ", "ワー", "and", "more"]
    assert set(tokens("我对花生过敏吗?")) & set(tokens("她花生过敏")) == {"花生", "生过", "过敏"}
    assert tokens("山", "ja") == ["山"]


def test_a_time_is_recognized_in_the_language_of_the_text() -> None:
    assert names_time_or_number("Johanna ist letzten Dienstag umgezogen", "de")[0]
    assert names_time_or_number("Johanna ist letzten Dienstag umgezogen", "en")[0]
    assert names_time_or_number("Die Prüfung war im Frühjahr", "en")[0]
    assert not names_time_or_number("Johanna mag Honig", "de")[0]


def test_a_number_is_recognized_in_the_language_of_the_text() -> None:
    assert names_time_or_number("Sie hat fünf Bienenvölker und eine Katze", "en")[1]
    assert names_time_or_number("Elle a trois chats et un chien", "fr")[1]
    assert not names_time_or_number("Sie hat die Bienen gern", "de")[1]
