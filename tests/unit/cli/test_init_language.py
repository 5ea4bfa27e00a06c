"""Choosing the embedding model by language: what is asked, downloaded and said."""

from pathlib import Path

import pytest

from nexus.cli.init import choose_embedding_model, locale_language
from nexus.errors import ModelFileError
from nexus.memory.embedding import DEFAULT_MODEL, MULTILINGUAL_MODEL, Model
from unit.cli.test_init_model import Scripted


@pytest.fixture(autouse=True)
def no_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEXUS_MODELS", str(tmp_path / "models"))


class Hub:
    """Notes what is downloaded, and may be out of reach."""

    def __init__(self, *, down: bool = False) -> None:
        self.fetched: list[str] = []
        self._down = down

    def __call__(self, model: Model) -> None:
        if self._down:
            raise ModelFileError("Could not download model.onnx")
        self.fetched.append(model.name)


def test_english_gets_the_default_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    person, hub = Scripted(), Hub()
    assert choose_embedding_model("en_US.UTF-8", person, download=True, fetch=hub) == DEFAULT_MODEL
    assert (person.asked, hub.fetched, capsys.readouterr().out) == ([], [], "")


def test_a_person_who_agrees_gets_the_multilingual_model(capsys: pytest.CaptureFixture[str]) -> None:
    person, hub = Scripted(), Hub()
    assert choose_embedding_model("de_DE.UTF-8", person, download=False, fetch=hub) == MULTILINGUAL_MODEL
    assert hub.fetched == [MULTILINGUAL_MODEL]
    assert "135 MB" in person.asked[0]
    assert capsys.readouterr().out.count("\n") == 1


def test_a_person_who_declines_is_told_how_to_get_it_later(capsys: pytest.CaptureFixture[str]) -> None:
    person, hub = Scripted({"Download": "n"}), Hub()
    assert choose_embedding_model("pt-BR", person, download=True, fetch=hub) == DEFAULT_MODEL
    assert hub.fetched == []
    assert "`nexus init --language pt-BR`" in capsys.readouterr().out


@pytest.mark.parametrize(("download", "model"), [(False, DEFAULT_MODEL), (True, MULTILINGUAL_MODEL)])
def test_a_script_downloads_only_if_it_says_so(download: bool, model: str) -> None:
    hub = Hub()
    nobody = Scripted(is_person=False)
    assert choose_embedding_model("es", nobody, download=download, fetch=hub) == model
    assert bool(hub.fetched) is download


def test_a_hub_out_of_reach_leaves_the_default_model(capsys: pytest.CaptureFixture[str]) -> None:
    hub = Hub(down=True)
    assert choose_embedding_model("fr", Scripted(), download=True, fetch=hub) == DEFAULT_MODEL
    shown = capsys.readouterr()
    assert "Could not download" in shown.err
    assert "nexus models pull multilingual-e5-small" in shown.out


def test_the_locale_names_the_language() -> None:
    assert locale_language({"LC_ALL": "", "LANG": "de_DE.UTF-8"}) == "de_DE.UTF-8"
    assert locale_language({"LC_ALL": "pt_BR", "LANG": "de_DE.UTF-8"}) == "pt_BR"
    assert locale_language({}) == ""
