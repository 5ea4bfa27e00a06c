"""Which of what was found is told, without any model."""

from dataclasses import replace
from datetime import UTC, datetime

from nexus.memory.recall.item import PIN, Item, Kind, Match, Matches, Named, Reasons
from nexus.roles.memory_injection.triage import LIMITS, Limits, judge, limit_verdicts

NEEDED = 0.5


def _result(
    id_: str,
    need: float = 0.9,
    *,
    kind: Kind = "fact",
    about: str | None = None,
    stale: bool = False,
    outbound: bool = False,
    text: str = "Something is so.",
) -> Match:
    item = Item(
        kind=kind,
        id=id_,
        text=text,
        at="2026-05-01T00:00:00.000Z",
        subject_id=about,
        outbound=outbound,
        stale_since="2026-06-01T00:00:00.000Z" if stale else None,
    )
    reasons = Reasons(arms={"keyword_facts": (1, 1.0)}, about=about)
    return Match(item=item, score=need, probability=0.1, tokens=5, reasons=reasons, need=need)


def _chosen(*results: Match, task: str = "") -> list[str]:
    verdicts = judge(Matches(results=results, answerable=0.1), Limits(need=NEEDED), task=task)
    return [verdict.result.item.id for verdict in verdicts if verdict.chosen]


def test_only_what_the_task_probably_needs_is_told() -> None:
    assert _chosen(_result("a", NEEDED), _result("b", NEEDED - 0.01), _result("c", kind="event")) == [
        "a",
        "c",
    ]
    assert _chosen(_result("a", 0.1), _result("b", 0.2, kind="event")) == []


def test_what_little_is_known_of_a_named_thing_is_told_in_any_case() -> None:
    assert _chosen(_result("a", 0.1), _result("b", 0.0, about="Tyler")) == ["b"]


def test_of_a_thing_of_which_much_is_known_only_what_is_needed_is_told() -> None:
    many = [_result(f"f{n}", 0.8 - n / 5, about="Tyler") for n in range(LIMITS.few + 2)]
    assert _chosen(*many) == ["f0", "f1"]


def test_what_constrains_others_who_take_part_is_told_beside_what_is_named() -> None:
    assert _chosen(_result("owner"), _result("guest", about="Tyler")) == ["owner", "guest"]


def test_questions_and_the_agents_own_answers_are_no_evidence() -> None:
    asked = _result("asked", kind="event", text="When does my train leave?")
    answered = _result("answered", kind="event", outbound=True, text="It leaves at nine.")
    assert _chosen(asked, answered, _result("said", kind="event", text="It leaves at nine.")) == ["said"]


def test_what_was_replaced_is_never_told() -> None:
    assert _chosen(_result("old", about="Tyler", stale=True), _result("new", about="Tyler")) == ["new"]


def test_a_conclusion_that_is_out_of_date_may_be_told() -> None:
    assert _chosen(_result("obs", kind="observation", stale=True)) == ["obs"]


def test_a_name_alone_is_not_worth_a_line() -> None:
    assert _chosen(_result("ent", kind="entity", about="Tyler")) == []


def _reached(task: str) -> list[str]:
    """Which of Ann, Bob and Cid, whose addresses are known, are told of."""
    named = {name: Named(name, via="name", said=name.lower()) for name in ("Ann", "Bob", "Cid")}
    contacts = [
        _result(name, 0.0, kind="entity", about=name, text=f"{name} (Person); email {name}@post.example")
        for name in named
    ]
    verdicts = judge(Matches(results=(*contacts,), named=named), Limits(need=NEEDED), task=task)
    return [verdict.result.item.id for verdict in verdicts if verdict.chosen]


def test_whoever_a_task_reaches_comes_with_their_address() -> None:
    assert _reached("Write to Ann about Bob") == ["Ann"]
    assert _reached("Write to Ann, Bob and Cid about Friday") == ["Ann", "Bob", "Cid"]
    assert _reached("Pay Cid back") == ["Cid"]
    assert _reached("Cook dinner for Ann") == []


def test_there_is_a_limit_unless_more_things_are_named() -> None:
    assert len(_chosen(*(_result(f"e{n}", kind="event") for n in range(9)))) == LIMITS.most
    assert len(_chosen(*(_result(f"f{n}", about=f"thing {n}") for n in range(20)))) == LIMITS.most_named


def test_each_named_thing_has_its_best_before_another_has_its_second() -> None:
    of_one = [_result(f"a{n}", 0.9 - n / 100, about="Ann") for n in range(6)]
    of_each = [_result(name, 0.6, about=name) for name in ("Bob", "Cid", "Dan")]
    assert _chosen(*of_one, *of_each) == ["a0", "a1", "a2", "Bob", "Cid", "Dan"]


def test_what_is_too_long_is_passed_over() -> None:
    long = _result("long", kind="event", text="word " * 4 * LIMITS.most_tokens)
    assert _chosen(long, _result("short", kind="event")) == ["short"]


def test_every_result_has_a_verdict_with_its_reason() -> None:
    verdicts = judge(Matches(results=(_result("a"), _result("b", 0.0))), Limits(need=NEEDED))
    assert [verdict.why for verdict in verdicts] == ["needed", "the task hardly needs it"]


def test_what_is_less_likely_is_told_beside_what_is_needed_and_never_alone() -> None:
    limits = Limits(need=0.5, beside=0.1)
    needed, likely, not_likely = _result("a", 0.6), _result("b", 0.2), _result("c", 0.05)
    verdicts = judge(Matches(results=(needed, likely, not_likely)), limits)
    assert [verdict.chosen for verdict in verdicts] == [True, True, False]
    assert not any(verdict.chosen for verdict in judge(Matches(results=(likely, not_likely)), limits))


def test_a_question_gets_the_best_in_the_order_of_recall() -> None:
    many = [_result(f"f{n}", 0.0) for n in range(LIMITS.most_for_question + 2)]
    asked = "When does my train leave?"
    assert _chosen(*many, task=asked) == [f"f{n}" for n in range(LIMITS.most_for_question)]
    assert _chosen(*many, task="Can you book my train?") == []


def test_a_question_does_not_get_what_lies_far_behind_the_best() -> None:
    """A home that holds a dozen facts always has seven best ones."""
    scores = {"best": 3.0, "close": 3.0 - LIMITS.gap, "far": 2.9 - LIMITS.gap, "farther": -9.0}
    results = [replace(_result(id_), score=score) for id_, score in scores.items()]
    assert _chosen(*results, task="When does my train leave?") == ["best", "close"]


def test_a_question_about_nobody_gets_something_only_if_it_probably_answers() -> None:
    results = (_result("a", 0.0),)
    for text, answerable, told in (
        ("How long does an egg boil?", 0.04, False),
        ("How long does an egg boil?", 0.2, True),
        ("How do I like my egg?", 0.04, True),
        ("How do I like my egg?", 0.01, False),
    ):
        verdicts = judge(Matches(results=results, answerable=answerable), task=text)
        assert [verdict.chosen for verdict in verdicts] == [told], text


def test_a_question_about_the_past_is_told_what_was_replaced() -> None:
    """As recall understood it: an ended time means what held then. What was replaced held all of May."""
    results = (_result("old", stale=True), _result("new", 0.8))

    def told(
        task: str = "Where did Clara live?", *, asks_past: bool = False, until: datetime | None = None
    ) -> list[str]:
        window = None if until is None else (datetime(2019, 1, 1, tzinfo=UTC), until)
        answer = Matches(results=results, answerable=0.1, asks_past=asks_past, window=window)
        verdicts = judge(answer, Limits(need=NEEDED), task=task)
        return [verdict.result.item.id for verdict in verdicts if verdict.chosen]

    assert told() == ["new"]
    assert told(asks_past=True) == ["old", "new"]
    assert told(until=datetime(2026, 5, 20, tzinfo=UTC)) == ["old", "new"]
    assert told(until=datetime(2026, 4, 20, tzinfo=UTC)) == ["new"]
    assert told(until=datetime(2026, 6, 20, tzinfo=UTC)) == ["new"]
    # A task may name a time for what has nothing to do with the past.
    assert told("Send the money for April", until=datetime(2026, 5, 20, tzinfo=UTC)) == ["new"]


def test_a_model_may_choose_as_many_for_a_question_as_the_rules_do() -> None:
    answer = Matches(results=tuple(_result(f"f{n}", 0.9) for n in range(9)), answerable=0.9)
    for task, most in (("Where is my train?", LIMITS.most_for_question), ("Book my train", LIMITS.most)):
        verdicts = [replace(each, chosen=True) for each in judge(answer, task=task)]
        assert sum(each.chosen for each in limit_verdicts(verdicts, task)) == most


def test_a_request_an_echo_and_small_talk_are_no_evidence() -> None:
    said = [
        _result("order", kind="event", text="Plan a dinner with Tyler."),
        _result("echo", kind="event", text="my train leaves at what time"),
        _result("fact", kind="event", text="Book a train. Tyler cannot eat nuts."),
    ]
    assert _chosen(*said, task="At what time my train leaves") == ["fact"]


def test_what_is_pinned_comes_first_and_no_more_than_three_of_it() -> None:
    pins = [_pinned(_result(f"p{n}", 0.0, about="Tyler")) for n in range(5)]
    rest = [_result(f"e{n}", 0.9, kind="event") for n in range(8)]
    chosen = _chosen(*rest, *pins)
    assert len(chosen) == LIMITS.most
    assert {id_ for id_ in chosen if id_.startswith("p")} == {"p0", "p1", "p2"}


def test_a_pin_does_not_tell_what_was_replaced() -> None:
    assert _chosen(_pinned(_result("old", stale=True))) == []


def test_no_model_leaves_out_what_is_pinned() -> None:
    (verdict,) = judge(Matches(results=(_pinned(_result("a", 0.0)),)), Limits(need=NEEDED))
    assert (verdict.chosen, verdict.is_final, verdict.why) == (True, True, "pinned")


def _pinned(match: Match) -> Match:
    return replace(match, reasons=replace(match.reasons, arms={PIN: (1, 1.0)}))
