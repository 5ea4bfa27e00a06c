"""Full-text search finds other forms of a word in any language, and words of scripts without spaces."""

import apsw
import pytest

from nexus.ledgers import Ledgers, memory
from nexus.memory.recall.item import Query
from nexus.memory.recall.question import understand
from nexus.memory.recall.recall import Recall
from nexus.memory.recall.search import Log, Scope, count_words, find_by_words
from nexus.memory.recall.words import spellings
from nexus.request import EVERYTHING
from unit.memory.recall.homes import LONG_MS, NOW, learn, say


async def found(opened: Ledgers, text: str, language: str, log: Log = "fact") -> list[str]:
    """What the keyword arm alone finds for a question."""
    question = understand(text, NOW, language)
    scope = Scope.of(Query(text=text, deadline_ms=LONG_MS), EVERYTHING)
    database = opened.memory if log == "fact" else opened.events

    def work(connection: apsw.Connection) -> list[str]:
        words = count_words(connection, question, log).words
        return [sighting.id for sighting in find_by_words(connection, log, words, scope, 10, 1_000)]

    return await database.read(work)


@pytest.mark.parametrize(
    ("language", "question", "fact", "other"),
    [
        ("de", "Welche Häuser gehören uns?", "Das Haus am See ist verkauft.", "Der Hausarzt kommt."),
        ("de", "Wo ist meine Versicherung?", "Alle Versicherungen laufen aus.", "Der Versuch misslang."),
        ("es", "¿Qué hermanas tengo?", "Su hermana vive en Sevilla.", "El hermético frasco."),
        ("es", "¿Dónde trabajó Elena?", "Elena trabajaba antes en Gante.", "Los trabalenguas son difíciles."),
        (
            "fr",
            "Quels médicaments dois-je prendre ?",
            "Le médicament se prend le soir.",
            "Le médiateur est venu.",
        ),
        ("pt", "Quando são as reuniões?", "A reunião é na quinta.", "O reitor falou."),
        ("ru", "Какие квартиры?", "Она купила квартиру.", "Он пьёт квас."),
    ],
)
async def test_another_inflection_is_found(
    opened: Ledgers, language: str, question: str, fact: str, other: str
) -> None:
    wanted, unwanted = await learn(opened, memory.NewFact(fact=fact), memory.NewFact(fact=other))
    hits = await found(opened, question, language)
    assert wanted in hits
    assert unwanted not in hits


async def test_an_english_question_asks_for_its_own_words_alone(opened: Ledgers) -> None:
    await learn(opened, memory.NewFact(fact="The houses are sold"))
    asked = await opened.memory.read(spellings, "facts", "hous", "house", "en")
    assert asked == ("house",)


async def test_a_form_is_asked_for_as_the_index_stems_it(opened: Ledgers) -> None:
    await learn(opened, memory.NewFact(fact="Häuser, Hauses und ein Haus"))
    asked = await opened.memory.read(spellings, "facts", "haus", "Häuser", "de")
    assert asked[0] == "Häuser"
    assert {"hauses", "haus"} & set(asked)


@pytest.mark.parametrize(
    ("question", "fact", "other"),
    [
        ("我对什么过敏?", "诺拉花生过敏", "诺拉喜欢花生酱"),
        ("母の誕生日はいつですか", "お母さんの誕生日は五月三日", "父は東京に住んでいる"),
        ("ฉันแพ้อะไร", "นอราแพ้ถั่วลิสง", "บ้านอยู่ริมน้ำ"),
    ],
)
async def test_a_word_is_found_in_a_script_without_spaces(
    opened: Ledgers, question: str, fact: str, other: str
) -> None:
    wanted, _ = await learn(opened, memory.NewFact(fact=fact), memory.NewFact(fact=other))
    assert (await found(opened, question, "en"))[0] == wanted
    (said,) = await say(opened, "t", ("Nora", fact))
    assert await found(opened, question, "en", "event") == [said]


async def test_the_last_word_of_a_text_without_spaces_is_found(opened: Ledgers) -> None:
    (wanted,) = await learn(opened, memory.NewFact(fact="她花生过敏"))
    assert await found(opened, "过敏", "en") == [wanted]


async def test_only_texts_without_spaces_are_in_the_second_index(opened: Ledgers) -> None:
    await learn(opened, memory.NewFact(fact="Nora lives in Leeds"), memory.NewFact(fact="她住在柏林"))
    rows = await opened.memory.read(
        lambda c: c.execute("SELECT count(*) FROM facts_unspaced_fts_docsize").get
    )
    assert rows == 1


async def test_recall_answers_a_chinese_question_without_vectors(opened: Ledgers) -> None:
    (wanted, *_) = await learn(
        opened,
        memory.NewFact(fact="诺拉对花生过敏"),
        memory.NewFact(fact="诺拉住在柏林"),
        memory.NewFact(fact="埃里克喜欢跑步"),
    )
    found = await Recall(opened, None, now=lambda: NOW).gather(
        Query(text="我对什么过敏?", deadline_ms=LONG_MS)
    )
    assert wanted in {item.id for item in found.pool.items}
