"""Promises are recognized by rules: on labelled messages, with their dates, and quickly whatever is said."""

from datetime import UTC, date, datetime, time
from time import process_time

import pytest
from promises import FOLDER, load, measure

from nexus.roles.follow_ups.promises import Due, Promise, Speaker, find_due, find_promises

THURSDAY = datetime(2026, 11, 19, 9, tzinfo=UTC)


def find(text: str, speaker: Speaker = "owner") -> list[Promise]:
    return find_promises(text, speaker=speaker, said_at=THURSDAY, zone="Europe/Berlin")


def test_the_labelled_messages_are_enough_and_a_third_look_alike() -> None:
    assert FOLDER.is_dir()
    labelled = [*load("train"), *load("held_out")]
    promises = sum("who" in each for each in labelled)
    assert promises >= 100
    assert (len(labelled) - promises) / len(labelled) >= 1 / 3
    assert not {each["text"] for each in load("train")} & {each["text"] for each in load("held_out")}


@pytest.mark.parametrize("half", ["train", "held_out", "fresh"])
def test_promises_are_recognized_without_a_model(half: str) -> None:
    score = measure(half)
    assert score.precision >= 0.85, score.wrong
    assert score.recall >= 0.70, score.wrong


@pytest.mark.parametrize(
    ("said", "due"),
    [
        ("I'll call tomorrow at 9", Due(day=date(2026, 11, 20), at=time(9))),
        ("I'll call on Monday", Due(day=date(2026, 11, 23))),
        ("I'll call by the end of the month", Due(day=date(2026, 11, 30))),
        ("I'll call by the 5th", Due(day=date(2026, 12, 5))),
        ("I'll call on 3 March", Due(day=date(2027, 3, 3))),
        ("I'll call a week from tomorrow", Due(day=date(2026, 11, 27))),
        ("I'll call next week", Due(day=date(2026, 11, 27))),
        ("I'll call this evening", Due(day=date(2026, 11, 19), at=time(18))),
        ("I'll call you", None),
    ],
)
def test_the_last_day_that_is_named_is_the_due_date(said: str, due: Due | None) -> None:
    assert find_due(said, THURSDAY.date()) == due


def test_tomorrow_is_that_of_the_owners_time_zone() -> None:
    late = datetime(2026, 11, 19, 23, 30, tzinfo=UTC)  # past midnight in Berlin
    (found,) = find_promises("I'll call Ada tomorrow", speaker="owner", said_at=late, zone="Europe/Berlin")
    assert found.due == Due(day=date(2026, 11, 21))


def test_a_message_tells_who_promises_to_whom() -> None:
    own, other = find("I'll send Jonas the slides tomorrow. Priya said she'd call me on Monday.")
    assert (own.who, own.recipient) == ("speaker", "Jonas")
    assert (other.who, other.name) == ("named", "Priya")
    (landlord,) = find("The landlord said he'll repair the heating by Monday.")
    assert (landlord.who, landlord.name) == ("named", "The landlord")
    (asked,) = find("Remind Jonas next week if he hasn't answered.")
    assert (asked.who, asked.recipient) == ("agent", "Jonas")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Remind me to call Ada tomorrow",
        "> I'll send it tomorrow\n\nThanks!",
        "```\nI'll send it tomorrow\n```",
        "The docs say `I'll send it tomorrow`.",
        "Will you send it tomorrow?",
        "I could write: I'll send it tomorrow.",
        'How about this: "Thanks, I\'ll send it by Friday."',
        "Here's a shorter version:\n\nHi Tom,\nI'll send you the numbers tomorrow.",
        "The template says I'll answer within two days.",
        "Jonas will be at the meeting on Thursday.",
        "Luis will get the results on Friday.",
        "I'll be at the workshop until six tomorrow.",
    ],
)
def test_reminders_quotes_drafts_whereabouts_and_questions_promise_nothing(text: str) -> None:
    assert find(text) == []


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("I got the email at 10:30, I'll reply to you tomorrow.", date(2026, 11, 20)),
        ("I saw your message at 9:15. I'll call you tomorrow.", date(2026, 11, 20)),
        ("Thanks for your message: I'll send the report on Friday.", date(2026, 11, 20)),
        ("I'll ask Tom if he could reply by Friday.", date(2026, 11, 20)),
    ],
)
def test_words_about_messages_and_answers_do_not_hide_a_promise(text: str, due: date) -> None:
    (found,) = find(text)
    assert (found.who, found.due and found.due.day) == ("speaker", due)


@pytest.mark.parametrize(
    "text",
    [
        "Here's the email:\n\nHi Tom,\nI'll send you the numbers tomorrow.",
        "A possible reply: I'll send it by Friday.",
        "You could reply: I'll send it by Friday.",
        "We could say I'll send it by Friday.",
    ],
)
def test_words_for_somebody_to_use_promise_nothing(text: str) -> None:
    assert find(text) == []


def test_bring_is_no_participle() -> None:
    own, other = find("I will bring the cake tomorrow. Devon says he will bring the ladder on Wednesday.")
    assert (own.who, other.who, other.name) == ("speaker", "named", "Devon")


def test_a_list_of_promises_is_cut() -> None:
    assert len(find("I'll send it tomorrow.\n" * 1_000)) == 5


@pytest.mark.parametrize(
    "text",
    ["I'll " * 5_000, "if " * 9_000, "A" * 20_000, "ok " * 7_000 + "will do?", "let me " + "x " * 9_000],
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    """The patterns look at sentences of limited length: nothing grows with the square of a message."""
    assert len(find(text)) <= 5


@pytest.mark.parametrize(
    "text",
    [
        "„" * 20_000,
        '"„ I ' * 4_000,
        "„ I " * 5_000,
        "“ I " * 5_000,
        '"I say ' * 3_000,
        '" I\n' * 5_000,
        ("„" * 19 + "\n") * 1_000,
    ],
)
def test_quotes_without_an_end_are_read_in_linear_time(text: str) -> None:
    """Of 20,000 characters, within a second; a pattern that begins anew at each mark took half a minute."""
    begun = process_time()
    assert find(text) == []
    assert process_time() - begun < 5
