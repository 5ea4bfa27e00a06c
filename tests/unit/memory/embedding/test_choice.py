"""Which model a home uses."""

import pytest

from nexus.memory.embedding import DEFAULT_MODEL, MULTILINGUAL_MODEL, model_for


@pytest.mark.parametrize(
    "language", ["en", "EN", "en_US.UTF-8", "en-GB", "C", "C.UTF-8", "POSIX", "", " en "]
)
def test_english_and_unknown_languages_get_the_default_model(language: str) -> None:
    assert model_for(language) == DEFAULT_MODEL


@pytest.mark.parametrize("language", ["de", "de_DE.UTF-8", "pt-BR", "es@modern", "zh_CN", "enm"])
def test_every_other_language_gets_the_multilingual_model(language: str) -> None:
    assert model_for(language) == MULTILINGUAL_MODEL
