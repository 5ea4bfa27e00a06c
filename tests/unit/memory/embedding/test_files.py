"""Where a model's files are found, and which are refused."""

import hashlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from nexus.errors import ModelFileError
from nexus.memory.embedding import DEFAULT_MODEL, MODELS, Build, Model, find, locate
from nexus.memory.embedding.catalogue import File


def small_model(content: bytes) -> Model:
    model = MODELS["all-minilm-l6-v2-int8"]
    return replace(model, builds=(build(model.builds[0], content),))


def build(like: Build, content: bytes, name: str = "model.onnx") -> Build:
    weights = replace(like.weights, name=name, sha256=hashlib.sha256(content).hexdigest(), packages=())
    return replace(like, weights=weights)


def test_the_path_of_the_settings_wins_over_a_pulled_copy(tmp_path: Path) -> None:
    model = small_model(b"weights")
    pulled = tmp_path / "pulled" / model.name
    pulled.mkdir(parents=True)
    (pulled / "model.onnx").write_bytes(b"weights")
    (tmp_path / "mine.onnx").write_bytes(b"weights")
    assert find(model, path=tmp_path / "mine.onnx", pulled=tmp_path / "pulled").found_in == "settings"
    assert find(model, pulled=tmp_path / "pulled").found_in == "pulled"


def test_a_folder_in_the_settings_holds_the_file(tmp_path: Path) -> None:
    model = small_model(b"weights")
    (tmp_path / "model.onnx").write_bytes(b"weights")
    assert find(model, path=tmp_path).weights == tmp_path / "model.onnx"


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    model = small_model(b"weights")
    (tmp_path / "mine.onnx").write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="is not the pinned"):
        find(model, path=tmp_path / "mine.onnx")


def test_a_package_of_another_version_is_to_be_upgraded() -> None:
    model = small_model(b"weights")
    weights = replace(model.builds[0].weights, packages=(("pytest", "pytest/__init__.py"),))
    with pytest.raises(ModelFileError, match="is not the pinned") as caught:
        find(replace(model, builds=(replace(model.builds[0], weights=weights),)))
    assert caught.value.hint == "Run `pip install --upgrade pytest`."


def test_only_the_package_that_holds_the_pinned_file_meets_the_requirement() -> None:
    root = Path(__file__).parents[4]
    model, nexus = (
        tomllib.loads((root / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for folder in ("models/english", ".")
    )
    assert f"{model['name']}>={model['version']},<2" in nexus["optional-dependencies"]["embedding"]


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        find(small_model(b"weights"), pulled=tmp_path)
    assert "nexus models pull" in caught.value.hint


def two_builds() -> Model:
    """A model with a build of the hub and one that was converted, each with its own tokenizer."""
    like = MODELS["all-minilm-l6-v2-int8"]

    def with_tokenizer(name: str) -> Build:
        tokens = f"tokens of {name}".encode()
        tokenizer = File(
            name=f"{name}.json", sha256=hashlib.sha256(tokens).hexdigest(), size_bytes=len(tokens)
        )
        return replace(build(like.builds[0], name.encode(), f"{name}.onnx"), tokenizer=tokenizer)

    return replace(like, builds=(with_tokenizer("hub"), with_tokenizer("converted")))


def lay(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.onnx").write_text(name)
    (folder / f"{name}.json").write_text(f"tokens of {name}")


def test_vectors_of_two_builds_of_a_model_never_mix(tmp_path: Path) -> None:
    model = two_builds()
    lay(tmp_path / model.name, "converted")
    converted = find(model, pulled=tmp_path)
    lay(tmp_path / model.name, "hub")
    preferred = find(model, pulled=tmp_path)
    assert (converted.weights.name, preferred.weights.name) == ("converted.onnx", "hub.onnx")
    assert converted.id != preferred.id
    assert {converted.id.partition("@")[0], preferred.id.partition("@")[0]} == {model.name}


def test_a_build_without_its_tokenizer_is_not_found(tmp_path: Path) -> None:
    model = two_builds()
    lay(tmp_path / model.name, "converted")
    (tmp_path / model.name / "hub.onnx").write_text("hub")
    assert find(model, pulled=tmp_path).build is model.builds[1]
    (tmp_path / model.name / "converted.json").unlink()
    assert locate(model, pulled=tmp_path) is None


def test_a_tokenizer_with_another_hash_is_refused(tmp_path: Path) -> None:
    model = two_builds()
    lay(tmp_path / model.name, "hub")
    (tmp_path / model.name / "hub.json").write_text("something else")
    with pytest.raises(ModelFileError, match=r"is not the pinned hub\.json"):
        find(model, pulled=tmp_path)


def test_a_file_in_the_settings_is_the_build_whose_hash_it_has(tmp_path: Path) -> None:
    model = two_builds()
    lay(tmp_path, "converted")
    (tmp_path / "converted.onnx").rename(tmp_path / "mine.onnx")
    assert find(model, path=tmp_path / "mine.onnx").build is model.builds[1]


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    model = small_model(b"weights")
    (tmp_path / "mine.onnx").write_bytes(b"weights")
    find(model, path=tmp_path / "mine.onnx")
    (tmp_path / "mine.onnx").write_bytes(b"another length")
    with pytest.raises(ModelFileError, match="is not the pinned"):
        find(model, path=tmp_path / "mine.onnx")


def test_a_source_checkout_holds_the_default_model(tmp_path: Path) -> None:
    model = MODELS[DEFAULT_MODEL]
    (build,) = model.builds
    unpackaged = replace(build, weights=replace(build.weights, packages=()))
    assert find(replace(model, builds=(unpackaged,)), pulled=tmp_path).found_in == "source checkout"
