"""The cross-encoder behind its interface, with a tiny network that the test makes."""

# onnx ships no complete types, and only this test builds a network.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from nexus.app import App
from nexus.automations.services import UnservedRecall
from nexus.config import Config
from nexus.home import Home
from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import MODELS, Build, Model, find
from nexus.memory.embedding.catalogue import VOCABULARY, File
from nexus.memory.recall import ranker
from nexus.memory.recall.item import Query
from nexus.memory.recall.reading import Deadline
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.reranker import CrossEncoder, best_of, installed_reranker
from unit.memory.recall.homes import LONG_MS, NOW, learn

WORD = "violin"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    """A network in a folder of pulled models. Its output counts a word in the text, not in the question."""
    number = VOCABULARY.read_text(encoding="utf-8").splitlines().index(WORD)
    whole: Any = TensorProto.INT64
    inputs = [
        helper.make_tensor_value_info(name, whole, ["batch", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    nodes = [
        helper.make_node("Equal", ["input_ids", "word"], ["is_word"]),
        helper.make_node("Cast", ["is_word"], ["said"], to=TensorProto.INT64),
        helper.make_node("Mul", ["said", "token_type_ids"], ["in_text"]),
        helper.make_node("Mul", ["in_text", "attention_mask"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "axis"], ["sum"], keepdims=1),
        helper.make_node("Cast", ["sum"], ["logits"], to=TensorProto.FLOAT),
    ]
    constants = [
        helper.make_tensor("word", whole, [1], [number]),
        helper.make_tensor("axis", whole, [1], [1]),
    ]
    graph = helper.make_graph(nodes, "counts", inputs, [output], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = MODELS["ms-marco-minilm-l6-v2"]
    pulled = tmp_path_factory.mktemp("models")
    file = pulled / model.name / "tiny.onnx"
    file.parent.mkdir()
    onnx.save(made, str(file))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    weights = File(name=file.name, sha256=digest, size_bytes=file.stat().st_size)
    return replace(model, builds=(Build(weights=weights),)), pulled


@pytest.fixture(scope="module")
def network(model: tuple[Model, Path]) -> CrossEncoder:
    return CrossEncoder(find(model[0], pulled=model[1]))


def test_each_text_is_read_beside_the_question(network: CrossEncoder) -> None:
    texts = ["a violin and a violin", "a violin", "a cello", *["tea"] * 20]
    fits = network.fits("Who plays the violin?", texts, Deadline(60_000))
    assert len(fits) == len(texts)
    assert fits[0] > fits[1] > fits[2] == 0.0


def test_any_text_can_be_read(network: CrossEncoder) -> None:
    hostile = ["", "\0", "\ud800 half", "🎻" * 3000, "a" * 100_000]
    assert len(network.fits("x" * 100_000, hostile, Deadline(60_000))) == len(hostile)


def test_it_stops_when_its_time_is_over(network: CrossEncoder) -> None:
    assert network.fits("Who?", ["a violin"] * 1000, Deadline(0)) == []
    assert len(network.fits("Who?", ["a violin " * 60] * 20_000, Deadline(100))) < 20_000


async def test_its_word_is_one_more_factor_of_the_score(opened: Ledgers, network: CrossEncoder) -> None:
    other, wanted = await learn(
        opened,
        memory.NewFact(fact="Ann plays the cello on Monday", as_of=NOW),
        memory.NewFact(fact="Ann plays the violin violin violin on Monday", as_of=NOW),
    )
    query = Query(deadline_ms=LONG_MS, text="What does Ann play on Monday?", budget="high")
    plain = await Recall(opened, None, now=lambda: NOW).find(query)
    read = await Recall(opened, None, now=lambda: NOW, reranker=network).find(query)
    before = {result.item.id: result.score for result in plain.results}
    after = {result.item.id: result for result in read.results}
    for id_, said in ((wanted, 3), (other, 0)):
        assert after[id_].reasons.factors["fit"] == pytest.approx(said * ranker.load().fit)
        assert after[id_].score == pytest.approx(before[id_] + after[id_].reasons.factors["fit"])
    assert [result.score for result in read.results] == sorted(
        (result.score for result in read.results), reverse=True
    )


def test_the_best_reranker_that_is_installed_is_opened(model: tuple[Model, Path]) -> None:
    tiny, pulled = model
    missing = replace(tiny, name="not-pulled")
    opened = best_of([missing, tiny], pulled=pulled)
    assert opened is not None
    assert opened.languages == {"en"}
    assert opened.fits("?", ["a violin"], Deadline(LONG_MS))[0] > 0.0
    assert best_of([missing], pulled=pulled) is None


def test_a_reranker_with_another_hash_is_not_used(model: tuple[Model, Path], tmp_path: Path) -> None:
    tiny, _ = model
    (tmp_path / tiny.name).mkdir()
    (tmp_path / tiny.name / "tiny.onnx").write_bytes(b"something else")
    assert best_of([tiny], pulled=tmp_path) is None


def test_a_process_opens_its_reranker_once() -> None:
    assert installed_reranker() is installed_reranker()


def test_the_installed_reranker_prefers_the_answer() -> None:
    reranker = installed_reranker()
    if reranker is None:
        pytest.skip("No reranker is installed: see requirements-model.lock")
    texts = ["Nora plays the cello on Tuesdays.", "Nora is allergic to penicillin."]
    music, allergy = reranker.fits("Which antibiotics must Nora not take?", texts, Deadline(LONG_MS))
    assert allergy > music


async def test_everybody_who_asks_has_the_same_reranker(home: Home) -> None:
    async with Ledgers(home, Config().ledgers) as ledgers:
        script = await UnservedRecall(ledgers, Config().memory)()
    async with App(home, Config(), serve=False) as app:
        tool = await app.open_recall()
    assert script.reranker is tool.reranker is installed_reranker()
