"""The default embedder, with its real weights where they are installed."""

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nexus.errors import ModelFileError
from nexus.memory.embedding import DEFAULT_MODEL, MODELS, Encoder, find, load


@pytest.fixture(scope="module")
def embedder() -> Encoder:
    try:
        return load(find(MODELS[DEFAULT_MODEL]))
    except ModelFileError as error:
        pytest.skip(error.message)


def test_vectors_have_length_one(embedder: Encoder) -> None:
    vectors = embedder.embed(["a cat", "", "x" * 10_000])
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_any_text_can_be_embedded(embedder: Encoder) -> None:
    hostile = ["\ud800 half", "\0", "🎻" * 3000, "チェロ", " \n\t", "a" * 100_000]
    assert np.isfinite(embedder.embed(hostile)).all()


def test_like_meanings_are_near(embedder: Encoder) -> None:
    cat, feline, stock = embedder.embed(
        ["The cat sat down.", "A feline was sitting.", "Shares fell on Monday."]
    )
    assert float(cat @ feline) > 0.5 > float(cat @ stock) + 0.2


def test_a_batch_gives_what_single_texts_give(embedder: Encoder) -> None:
    texts = ["short", "a somewhat longer sentence about gardens", "middle sized text"]
    together = embedder.embed(texts)
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-4)


def test_a_long_backlog_leaves_its_memory_behind(embedder: Encoder) -> None:
    """In a process of its own: what the runtime keeps of its largest batch is never given back."""
    program = """
        from nexus.memory.embedding import DEFAULT_MODEL, MODELS, find, load

        def resident_mib():
            lines = open("/proc/self/status", encoding="ascii").read().splitlines()
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))

        embedder = load(find(MODELS[DEFAULT_MODEL]))
        embedder.embed(["one question"])
        before_mib = resident_mib()
        for words in (200, 20, 200, 5):
            embedder.embed([f"{number} " + "word " * words for number in range(32)])
        print(resident_mib() - before_mib)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    grown_mib = float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert grown_mib < 70


def test_the_table_of_words_stays_in_eight_bits(embedder: Encoder, tmp_path: Path) -> None:
    """What never changes is computed once and kept: scaled there, the table would take 47 MB."""
    as_loaded = tmp_path / "loaded.onnx"
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(as_loaded)
    options.log_severity_level = 3
    runtime.InferenceSession(str(find(embedder.model).weights), options)
    assert as_loaded.stat().st_size < 60_000_000


def test_homes_keep_the_vectors_of_an_earlier_file_that_made_the_same(embedder: Encoder) -> None:
    assert embedder.model_id == "nexus-english@1d93a8498a0a"
