"""Episodes that no writer has described are titled and summarized from their own words."""

from datetime import UTC, datetime, timedelta

import pytest

from nexus.ledgers import Ledgers, events, sql
from nexus.ledgers.events import NewEvent
from nexus.memory.digest import Message, digest
from nexus.memory.grouping import group_events
from nexus.memory.operations import Memory
from nexus.memory.recall.item import Kind, Query
from nexus.memory.recall.recall import Recall
from nexus.memory.views import episodes as episode_views

START = datetime(2026, 2, 13, 10, tzinfo=UTC)
RARE = {"keel", "mooring", "survey", "aubergine", "kiel", "gutachten", "liegeplatz"}


def later() -> datetime:
    return START + timedelta(days=30)


def weigh(form: str) -> float:
    return 0.9 if form.lower() in RARE else 0.1


def say(*texts: str, speaker: str | None = "Clara Holm") -> list[Message]:
    return [Message(speaker=speaker, name=speaker or "Mira Holm", text=text) for text in texts]


async def record(ledgers: Ledgers, *texts: str, minute: int = 0, sender: str = "+4520345678") -> list[str]:
    def work(connection: object) -> list[str]:
        thread_id = events.ensure_thread(connection, channel="signal", external_id="t")  # type: ignore[arg-type]
        said = [
            NewEvent(
                channel="signal",
                content=text,
                sender=sender,
                thread_id=thread_id,
                occurred_at=START + timedelta(minutes=minute + place),
            )
            for place, text in enumerate(texts)
        ]
        return events.append(connection, said)  # type: ignore[arg-type]

    return await ledgers.events.write(work)


def test_the_rarest_words_choose_the_sentences_in_the_order_in_which_they_were_said() -> None:
    found = digest(
        say("Hello there.", "The keel needs a survey before we pay.", "Fine. See you tomorrow then.")
        + say("The mooring is ours from May.", speaker=None),
        weigh,
    )
    assert found is not None
    assert found.title == "Clara Holm: The keel needs a survey before we pay"
    assert found.summary == (
        "Clara Holm: The keel needs a survey before we pay. Mira Holm: The mooring is ours from May."
    )


def test_a_title_ends_at_a_clause_or_a_word_and_never_within_one() -> None:
    long = (
        "We would have to bring the keel and the mooring to the survey, because otherwise "
        "nobody there is going to look at any of it before the end of the summer"
    )
    found = digest(say(long, speaker=None), weigh)
    assert found is not None
    assert found.title == "We would have to bring the keel and the mooring to the survey"
    assert found.summary == f"Mira Holm: {long}."
    found = digest(say(long.replace(",", "").replace(" and", " or"), speaker=None), weigh)
    assert found is not None
    assert found.title == "We would have to bring the keel or the mooring to the survey because otherwise…"


def test_quotations_code_links_and_signatures_are_left_out() -> None:
    text = (
        "See [the report](https://example.org/keel) on this.\n> survey mooring keel\n"
        "```\nkeel = survey(mooring)\n```\n- The **aubergine** is\nin the oven.\n-- \nClara, mooring 5"
    )
    found = digest(say(text, speaker=None), weigh)
    assert found is not None
    assert found.title == "The aubergine is in the oven"
    assert not any(sign in found.summary for sign in ("http", "```", "**", ">", "mooring"))


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (
            "Hallo. Für den Kiel brauchen wir ein Gutachten. Bis dann.",
            "Für den Kiel brauchen wir ein Gutachten",
        ),
        ("我们明天去看船。好的。", "我们明天去看船"),
    ],
)
def test_other_languages_and_scripts_are_read_too(said: str, title: str) -> None:
    found = digest(say(said, speaker=None), weigh)
    assert found is not None
    assert found.title == title


async def test_every_episode_has_a_title_and_a_summary_wherever_it_is_shown(opened: Ledgers) -> None:
    await Memory(opened).run("entity", {"name": "Clara Holm", "alias": ["+4520345678:phone"]})
    await record(opened, "The keel needs a survey.", "Ok.")
    await record(opened, "", minute=200)
    await record(opened, "Me.", minute=400)
    made = await group_events(opened, now=later)
    empty = "UPDATE episodes SET title = NULL, summary = NULL, metadata_json = '{}'"
    stored = await opened.memory.read(sql.rows, "SELECT title, summary FROM episodes ORDER BY start_time")

    assert stored[0] == ("Clara Holm: The keel needs a survey", "Clara Holm: The keel needs a survey.")
    assert [row[0] for row in stored[1:]] == ["Conversation with Clara Holm on signal, 2026-02-13"] * 2
    assert [row[1] for row in stored[1:]] == ["1 message without text.", "Me."]

    # As a home holds them that an older version has made.
    await opened.memory.write(sql.run, empty)
    listed = await episode_views.load_newest(opened)
    page = await episode_views.load_page(opened)
    expected = {made.episode_ids[place]: row for place, row in enumerate(stored)}
    assert {each.id: (each.title, each.summary) for each in listed} == expected
    assert {each.id: (each.title, each.summary) for each in page.items} == expected
    one = await episode_views.get(opened, made.episode_ids[0])
    assert one.episode.title == stored[0][0]
    await group_events(opened, now=later)
    again = await opened.memory.read(sql.rows, "SELECT title, summary FROM episodes ORDER BY start_time")
    assert again == stored, "a pass over everything stores what is missing"


async def test_recall_returns_nothing_blank(opened: Ledgers) -> None:
    await record(opened, "The keel needs a survey.", "")
    await group_events(opened, now=later)
    now = START + timedelta(days=1)
    asked = "What happened on 13 February 2026?"
    for kinds, expected in (
        (frozenset[Kind]({"episode"}), "+4520345678: The keel needs a survey."),
        (frozenset[Kind]({"event"}), "The keel needs a survey."),
    ):
        query = Query(text=asked, kinds=kinds, deadline_ms=20_000)
        found = await Recall(opened, None, now=lambda: now).find(query)
        assert [match.item.text for match in found.results] == [expected]


async def test_what_comes_late_extends_an_episode_that_has_only_its_own_words(opened: Ledgers) -> None:
    await record(opened, "See you there.", "The mooring is free.")
    (old,) = (await group_events(opened, now=later)).episode_ids
    await record(opened, "The keel needs a survey by Rasmussen before May.", minute=10)
    (new,) = (await group_events(opened, now=later)).episode_ids
    found = await opened.memory.read(
        sql.rows, "SELECT id, previous_version_id, event_count, summary FROM episodes ORDER BY version"
    )
    assert [row[:3] for row in found] == [(old, None, 2), (new, old, 3)]
    assert "Rasmussen" in found[1][3]


async def test_a_writers_words_are_kept_and_only_they_are_indexed(opened: Ledgers) -> None:
    said = await record(opened, "The keel needs a survey.")
    given = {"channel": "signal", "start": "2026-02-13T10:00Z", "end": "2026-02-13T10:01Z"}
    written = await Memory(opened).run(
        "episode", {**given, "events": said, "summary": "Clara asks for a survey of the boat"}
    )
    await record(opened, "The mooring is free.", minute=200)
    await group_events(opened, now=later)
    found = await opened.memory.read(sql.rows, "SELECT id, title, summary FROM episodes ORDER BY start_time")
    assert found[0] == (
        written["id"],
        "Clara asks for a survey of the boat",
        "Clara asks for a survey of the boat",
    )
    assert found[1][1] == "+4520345678: The mooring is free"
    indexed = await opened.memory.read(sql.rows, "SELECT summary_id FROM summaries_fts")
    assert [row[0] for row in indexed] == [written["id"]]
