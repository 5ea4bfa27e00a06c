"""Stems by language."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from nexus.memory.languages import stem
from nexus.memory.languages.lexicon import lexicons


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("de", "häuser", "hause"),
        ("de", "versicherungen", "versicherung"),
        ("es", "hermanas", "hermana"),
        ("es", "trabajaba", "trabajo"),
        ("fr", "vaccinée", "vaccinés"),
        ("fr", "cuisinière", "cuisinières"),
        ("pt", "reuniões", "reunião"),
        ("pt", "pães", "pão"),
        ("pt", "médicos", "médica"),
        ("it", "allergici", "allergica"),
        ("ru", "квартиры", "квартиру"),
    ],
)
def test_forms_of_one_word_share_a_stem(language: str, one: str, other: str) -> None:
    assert stem(one, language) == stem(other, language)


def test_accents_may_be_left_out() -> None:
    assert stem("canción", "es") == stem("cancion", "es")


def test_a_language_without_a_stemmer_keeps_its_words() -> None:
    assert stem("日本", "ja") == "日本"
    assert stem("word", "tlh") == "word"


def test_every_language_has_the_stemmer_that_it_names() -> None:
    for code in lexicons():
        assert stem("a", code) == "a"


def test_threads_stem_side_by_side() -> None:
    words = [f"{prefix}{number}ungen" for number in range(2_000) for prefix in ("halt", "wohn")]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(partial(stem, language="de"), words))
    stem.cache_clear()
    assert found == [stem(word, "de") for word in words]
