"""Lives as they are read from a folder, and which are refused."""

import json
from pathlib import Path

import pytest

from lives import write_life
from nexus.errors import UsageError
from nexus.evaluation import life as lives

TRAINING = Path(__file__).parents[3] / "bench/lives/train"


def test_the_authored_lives_are_valid() -> None:
    for folder in sorted(TRAINING.iterdir()):
        assert lives.problems(lives.read(folder)) == []


def test_a_reference_to_nothing_is_a_problem(tmp_path: Path) -> None:
    folder = write_life(tmp_path / "ada")
    with (folder / "questions.jsonl").open("a") as questions:
        questions.write(json.dumps({"id": "q9", "text": "?", "evidence": ["f9"], "kind": "direct"}) + "\n")
    assert lives.problems(lives.read(folder)) == ["q9: unknown fact f9"]


def test_what_replaced_what_must_make_sense(tmp_path: Path) -> None:
    folder = write_life(tmp_path / "ada")
    rows = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    told = {**rows[0], "key": "f7", "as_of": "2026-01-05T10:00:00Z", "replaced_by": "f8", "how": "corrected"}
    same_minute = {**rows[0], "key": "f8", "as_of": "2026-01-05T10:00:00Z", "distinct_from": ["f0"]}
    for order, wanted in (
        ([told, same_minute], ["f8: unknown fact f0"]),
        ([same_minute, told], ["f8: unknown fact f0", "f7: replaced by the older f8"]),
    ):
        (folder / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, *order]))
        assert lives.problems(lives.read(folder)) == wanted
    (folder / "facts.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, told | {"how": "so"}, same_minute])
    )
    assert "f7: how so" in lives.problems(lives.read(folder))


def test_a_folder_without_a_life_and_a_broken_line_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"persona\.json is missing"):
        lives.read(tmp_path)
    folder = write_life(tmp_path / "ada")
    (folder / "facts.jsonl").write_text('{"key": "f1"\n')
    with pytest.raises(UsageError, match=r"facts\.jsonl line 1 is not valid JSON"):
        lives.read(folder)


def test_a_shortened_life_asks_only_what_its_sessions_answer(tmp_path: Path) -> None:
    life = lives.read(write_life(tmp_path / "ada"))
    first = life.shorten(1, None)
    assert list(first.sessions) == ["s1"]
    assert [row["id"] for row in first.questions] == ["q3"], "the others are about the second session"
    assert [row["session"] for row in first.writer] == ["s1"]
    assert [row["id"] for row in life.shorten(None, 2).questions] == ["q1", "q2"]
    assert life.shorten(None, 0).questions == []


def test_sessions_are_played_in_the_order_of_their_time(tmp_path: Path) -> None:
    folder = write_life(tmp_path / "ada")
    file = folder / "messages.jsonl"
    file.write_text("".join(f"{line}\n" for line in file.read_text().splitlines()[::-1]))
    assert list(lives.read(folder).sessions) == ["s1", "s2"]
