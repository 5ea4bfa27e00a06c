"""What the arms of one recall share."""

from collections.abc import Sequence

import numpy as np

from embedders import Hashes
from nexus.ledgers import Ledgers, memory
from nexus.memory.embedding import Vectors, embed_new
from nexus.memory.recall.item import LABELS, RANKED_ARMS, Query, preset
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import ARMS
from unit.memory.recall.homes import ANN, LONG_MS, NOW, know_people, learn, run, say
from unit.memory.recall.test_kinds import conclude


class Marked(Hashes):
    """An embedder that records its questions separately from the texts to be found."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = []

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        self.questions += texts
        return super().embed(texts)


async def test_a_question_is_embedded_as_a_question_and_what_was_said_as_a_text(opened: Ledgers) -> None:
    embedder = Marked()
    vectors = Vectors(opened.embeddings, embedder)
    await say(opened, "t", ("Ann", "The cello is in the hall."))
    await embed_new(opened, vectors)
    assert embedder.questions == []
    recall = Recall(opened, vectors, now=lambda: NOW)
    await recall.find(Query(text="Where is the cello?", deadline_ms=LONG_MS))
    assert "Where is the cello?" in embedder.questions


def test_every_arm_has_a_label_and_is_known_by_one_name() -> None:
    assert ARMS.keys() | {"causal", "succession"} <= LABELS.keys()
    assert ARMS.keys() >= RANKED_ARMS
    assert preset("high").arms == ARMS.keys() | {"causal"}
    assert preset("low").arms < preset("mid").arms == preset("high").arms


async def test_what_an_arm_sees_bears_its_name(opened: Ledgers) -> None:
    await know_people(opened)
    await conclude(opened)
    await learn(opened, memory.NewFact(fact="Ann drank tea in March", source_entity_id=ANN))
    await say(opened, "t", ("Ann", "The tea was cold on the first of May."))
    vectors = Vectors(opened.embeddings, Hashes())
    await embed_new(opened, vectors)
    recall = Recall(opened, vectors, now=lambda: NOW)
    seen = set[str]()
    for text in ("What tea did Ann drink in May?", "What did Ann and Bob carry in March?"):
        found = await recall.gather(Query(text=text, budget="high", deadline_ms=LONG_MS))
        seen |= {sighting.arm for sightings in found.sightings.values() for sighting in sightings}
    assert seen == ARMS.keys()


async def test_words_without_spaces_are_looked_for_beside_the_others(opened: Ledgers) -> None:
    many = [memory.NewFact(fact=f"The ABC report has page {page}") for page in range(60)]
    *_, wanted = await learn(opened, *many, memory.NewFact(fact="王芳对花生过敏"))
    recall = Recall(opened, None, now=lambda: NOW)
    found = await recall.gather(Query(text="ABC 花生过敏", budget="low", deadline_ms=LONG_MS))
    assert wanted in found.sightings


async def test_of_a_time_only_the_newest_version_of_an_episode_is_found(opened: Ledgers) -> None:
    statement = (
        "INSERT INTO episodes (id, channel, start_time, end_time, summary, previous_version_id) VALUES "
        "('{}', 'cli', '2026-05-02T09:00:00.000Z', '2026-05-02T10:00:00.000Z', 'The cello.', {})"
    )
    await run(opened, "memory", statement.format("epi_1", "NULL"), statement.format("epi_2", "'epi_1'"))
    recall = Recall(opened, None, now=lambda: NOW)
    found = await recall.gather(Query(text="What was on in May 2026?", deadline_ms=LONG_MS))
    assert found.sightings.keys() == {"epi_2"}
