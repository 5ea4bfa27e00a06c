"""Where a model's files are found, and which are refused."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from nexus.errors import ModelFileError
from nexus.memory.embedding import MODELS, Model, find


def small_model(content: bytes) -> Model:
    model = MODELS["all-minilm-l6-v2-int8"]
    digest = hashlib.sha256(content).hexdigest()
    return replace(model, weights=replace(model.weights, sha256=digest, packages=()))


def test_the_path_of_the_settings_wins_over_a_pulled_copy(tmp_path: Path) -> None:
    model = small_model(b"weights")
    pulled = tmp_path / "pulled" / model.name
    pulled.mkdir(parents=True)
    (pulled / model.weights.name).write_bytes(b"weights")
    (tmp_path / "mine.onnx").write_bytes(b"weights")
    assert find(model, path=tmp_path / "mine.onnx", pulled=tmp_path / "pulled").found_in == "settings"
    assert find(model, pulled=tmp_path / "pulled").found_in == "pulled"


def test_a_folder_in_the_settings_holds_the_file(tmp_path: Path) -> None:
    model = small_model(b"weights")
    (tmp_path / model.weights.name).write_bytes(b"weights")
    assert find(model, path=tmp_path).weights == tmp_path / model.weights.name


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    model = small_model(b"weights")
    (tmp_path / "mine.onnx").write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="is not the pinned"):
        find(model, path=tmp_path / "mine.onnx")


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        find(small_model(b"weights"), pulled=tmp_path)
    assert "nexus models pull" in caught.value.hint
