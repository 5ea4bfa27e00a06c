"""Which of what was found is told, without any model."""

from dataclasses import replace

from nexus.memory.recall import Answer, Item, Kind, Reasons, Result
from nexus.roles.memory_injection.triage import LIMITS, judge


def _result(
    id_: str,
    score: float,
    *,
    kind: Kind = "fact",
    about: str | None = None,
    stale: bool = False,
    text: str = "Something is so.",
) -> Result:
    item = Item(
        kind=kind,
        id=id_,
        text=text,
        at="2026-05-01T00:00:00.000Z",
        subject_id=about,
        stale_since="2026-06-01T00:00:00.000Z" if stale else None,
    )
    reasons = Reasons(arms={"keyword": (1, 1.0)}, about=about)
    return Result(item=item, score=score, probability=0.1, tokens=5, reasons=reasons)


def _chosen(*results: Result, answerable: float = 0.0) -> list[str]:
    answer = Answer(results=results, answerable=answerable)
    return [verdict.result.item.id for verdict in judge(answer) if verdict.chosen]


def test_nothing_is_told_where_nothing_answers() -> None:
    assert (
        _chosen(_result("a", 3.0), _result("b", 2.0, kind="event"), answerable=LIMITS.answerable - 0.01) == []
    )


def test_the_best_and_what_is_nearly_as_good_is_told() -> None:
    near, far = 3.0 - LIMITS.gap + 0.01, 3.0 - LIMITS.gap - 0.01
    results = [
        _result("a", 3.0, kind="event"),
        _result("b", near, kind="event"),
        _result("c", far, kind="event"),
    ]
    assert _chosen(*results, answerable=0.9) == ["a", "b"]


def test_what_little_is_known_of_a_named_thing_is_told_even_where_nothing_answers() -> None:
    assert _chosen(_result("a", 1.0), _result("b", -3.0, about="Tyler")) == ["b"]


def test_of_a_thing_of_which_much_is_known_only_what_fits_is_told() -> None:
    many = [_result(f"f{n}", 3.0 - n, about="Tyler") for n in range(LIMITS.few + 2)]
    assert _chosen(*many) == []
    assert _chosen(*many, answerable=0.9) == ["f0", "f1"]


def test_what_is_about_others_stays_out_where_something_is_named() -> None:
    results = [_result("other", 3.0), _result("own", 2.5, about="Tyler"), _result("said", 2.4, kind="event")]
    assert _chosen(*results, answerable=0.9) == ["own", "said"]


def test_what_is_stale_is_never_told_and_does_not_push_others_back() -> None:
    results = [_result("old", 9.0, about="Tyler", stale=True), _result("new", 1.0, about="Tyler")]
    assert _chosen(*results, answerable=0.9) == ["new"]


def test_a_name_alone_is_not_worth_a_line() -> None:
    assert _chosen(_result("ent", 3.0, kind="entity", about="Tyler"), answerable=0.9) == []


def test_at_most_five_unless_more_things_are_named() -> None:
    results = [_result(f"e{n}", 3.0, kind="event") for n in range(9)]
    assert len(_chosen(*results, answerable=0.9)) == LIMITS.most
    named = [_result(f"f{n}", 3.0, about=f"thing {n}") for n in range(20)]
    assert len(_chosen(*named)) == LIMITS.most_named


def test_each_named_thing_has_its_best_before_another_has_its_second() -> None:
    of_one = [_result(f"a{n}", 3.0 - n / 10, about="Ann") for n in range(3)]
    of_each = [_result(f"{name}", 1.0, about=name) for name in ("Bob", "Cid", "Dan")]
    assert _chosen(*of_one, *of_each) == ["a0", "a1", "Bob", "Cid", "Dan"]


def test_what_is_too_long_is_passed_over() -> None:
    long = _result("long", 3.0, kind="event", text="word " * 4 * LIMITS.most_tokens)
    assert _chosen(long, _result("short", 2.5, kind="event"), answerable=0.9) == ["short"]


def test_every_result_has_a_verdict_with_its_reason() -> None:
    answer = Answer(results=(_result("a", 3.0), replace(_result("b", 1.0), probability=0.0)), answerable=0.9)
    verdicts = judge(answer)
    assert [verdict.why for verdict in verdicts] == ["it fits", "far behind the best"]
