"""How values read on a page."""

from datetime import UTC, datetime
from importlib import resources

import pytest

from nexus.gateway.dashboard import words
from nexus.text import strip_citations

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-05-01T11:59:50.000Z", "just now"),
        ("2026-05-01T11:48:00.000Z", "12 min ago"),
        ("2026-04-29T12:00:00.000Z", "2 d ago"),
        ("2025-01-01T12:00:00.000Z", "1 y ago"),
        ("2026-05-03T12:00:00.000Z", "in 2 d"),
        ("no time", "no time"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(moment: str, said: str) -> None:
    assert words.age(moment, NOW) == said


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](https://elsewhere.example/pixel.png)",
        '<img src=x onerror="alert(1)">',
        "[x]( data:text/html,<script>alert(1)</script> )",
    ],
)
def test_markdown_loads_nothing_and_runs_nothing(text: str) -> None:
    shown = str(words.markdown(text))
    assert "<script" not in shown
    assert "<img" not in shown
    assert 'href="javascript' not in shown
    assert 'href="data' not in shown


def test_markdown_is_shown_as_it_is_meant() -> None:
    assert "<strong>nuts</strong>" in words.markdown("Allergic to **nuts**")
    link = words.markdown("[docs](https://example.org)")
    assert 'rel="noopener noreferrer nofollow"' in link


def test_what_stands_between_ticks_is_code_and_stays_text() -> None:
    assert words.code_spans("Run `nexus up` <b>") == "Run <code>nexus up</code> &lt;b&gt;"


def test_citations_lead_to_what_a_conclusion_rests_on() -> None:
    said = "It opens late [fact_01A]. It is loud [obs_02B] [fact_01A]."
    assert strip_citations(said) == "It opens late. It is loud."
    shown = str(words.link_citations(said))
    assert shown.count('<a href="#fact_01A">1</a>') == 2
    assert '<a href="#obs_02B">2</a>' in shown


def test_timestamps_in_a_sentence_are_to_the_minute() -> None:
    assert words.shorten_times("open since 2026-11-12T07:39:17.765Z") == "open since 2026-11-12 07:39"


def test_a_preview_has_the_words_of_an_answer_without_its_marks() -> None:
    answer = (
        "## Plan\n\nTake the **early**\ntrain, see [the table](https://example.org), `run`.\n\n```\ncode\n```"
    )
    assert words.preview(answer, 100) == "Plan Take the early train, see the table, run. code"
    assert words.preview("a " * 100, 20) == "a a a a a a a a a a" + "…"
    assert words.preview(None, 20) == ""


def test_why_a_memory_was_used_is_told_in_plain_words() -> None:
    assert words.why("needed (same words, linked to Clara)") == (
        "The task needs it (same words, linked to Clara)."
    )
    for name in ("pinned", "found by pin"):
        assert words.why(f"pinned ({name})") == (
            "You pinned it to somebody or something that the message names."
        )
    assert words.why("needed (found by semantic, gist)") == "The task needs it (same meaning).", (
        "as once recorded"
    )


def test_breadcrumbs_begin_with_their_room_and_end_with_a_name() -> None:
    folder = resources.files("nexus.gateway.dashboard") / "templates"
    found = [
        line
        for page in folder.iterdir()
        for line in page.read_text(encoding="utf-8").splitlines()
        if 'class="crumbs"' in line
    ]
    assert len(found) > 20
    assert [line for line in found if line.endswith("/</p>")] == []
    of_memory = [line for line in found if "/memory" in line]
    assert [line for line in of_memory if 'class="crumbs"><a href="/memory">' not in line] == []


def test_sizes_are_shown_in_a_unit_that_keeps_them_short() -> None:
    assert [words.size(count) for count in (0, 2_000, 4 * 1024**3, 1.5 * 1024**3)] == [
        "0 B",
        "2 KiB",
        "4 GiB",
        "1.5 GiB",
    ]
