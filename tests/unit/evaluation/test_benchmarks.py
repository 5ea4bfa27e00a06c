"""Published benchmarks become lives. These files are invented, in the published shape."""

import asyncio
import csv
import gzip
import json
from pathlib import Path

import pytest

from nexus.errors import UsageError
from nexus.evaluation import benchmarks, retrieval
from nexus.evaluation.scores import Scorer

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Per",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a tortoise called Brisk."},
                {"speaker": "Per", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a green kayak"},
            ],
            "session_10_date_time": "9:05 am on 2 June, 2023",
            "session_10": [{"speaker": "Per", "dia_id": "D10:1", "text": "I sold the kayak."}],
            "session_2_date_time": "12:30 am on 9 May, 2023",
            "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "Brisk eats dandelions."}],
        },
        "qa": [
            {
                "question": "What is the tortoise called?",
                "answer": "Brisk",
                "evidence": ["D1:1"],
                "category": 4,
            },
            {"question": "When was it sold?", "answer": 2023, "evidence": ["D10:1; D1:2"], "category": 2},
            {"question": "Who bought it?", "adversarial_answer": "Eva", "evidence": ["D10:1"], "category": 5},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "Where do I swim?",
        "answer": "At the lido",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["a", "b"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/22 (Mon) 08:00"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}],
            [{"role": "user", "content": "I swim at the lido now.", "has_answer": True}],
        ],
        "answer_session_ids": ["b"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is my cat called?",
        "answer": "You did not mention a cat.",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["a"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "Hello"}]],
        "answer_session_ids": ["a_abs"],
    },
]


def file(folder: Path, rows: object) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps(rows))
    return path


def test_locomo(tmp_path: Path) -> None:
    (life,) = benchmarks.read(file(tmp_path, LOCOMO))
    assert (life.name, life.owner) == ("conv-1", "Ada")
    assert list(life.sessions) == ["session_1", "session_2", "session_10"]
    said = [(row["speaker"], row["text"], row["time"]) for row in life.sessions["session_1"]]
    assert said == [
        ("me", "I adopted a tortoise called Brisk.", "2023-05-08T13:56:00.000Z"),
        ("Per", "Look! [image: a green kayak]", "2023-05-08T13:56:30.000Z"),
    ]
    assert life.sessions["session_2"][0]["time"] == "2023-05-09T00:30:00.000Z"
    assert life.persona["now"] == "2023-06-03T09:05:00.000Z"
    named, sold, never_said = life.questions
    assert (named["answer"], named["evidence"], named["kind"]) == ("Brisk", ["D1:1"], "direct")
    assert sold["evidence"] == ["D10:1", "D1:2"]
    assert (never_said["answer"], never_said["evidence"], never_said["kind"]) == (None, [], "near")


def test_longmemeval_makes_a_life_of_each_question(tmp_path: Path) -> None:
    swim, cat = benchmarks.read(file(tmp_path, LONGMEMEVAL))
    assert (swim.name, cat.name) == ("q1", "q2_abs")
    assert [row["speaker"] for row in swim.messages] == ["me", "assistant", "me"]
    assert swim.persona["now"] == "2023-05-30T23:40:00.000Z"
    (asked,) = swim.questions
    assert (asked["answer"], asked["evidence"]) == ("At the lido", ["b-1:0"])
    assert (cat.questions[0]["evidence"], cat.questions[0]["kind"]) == ([], "near")
    assert [row["id"] for row in swim.shorten(1, None).questions] == [], "its evidence is in the second"


def test_longmemeval_is_scored_by_messages_and_sessions(tmp_path: Path) -> None:
    lives = benchmarks.read(file(tmp_path, LONGMEMEVAL), "longmemeval")
    asked = asyncio.run(retrieval.ask_all(lives, tmp_path, budget="low", told=lambda _: None))
    (row,) = map(json.loads, (tmp_path / "retrieval.jsonl").read_text().splitlines())
    assert [row] == asked, "what nothing answers has no place among what is found"
    assert (row["wanted_sessions"], row["found_sessions"][0], row["found"][0]) == (["b-1"], "b-1", "b-1:0")
    summary = retrieval.summarize([row, {**row, "kind": "other", "R@5": 0.0, "any@5": 0.0}])
    assert (summary["knowledge-update"]["R@5"], summary["all"]["R@5"], summary["all"]["any@5"]) == (
        1,
        0.5,
        0.5,
    )
    lines = list(retrieval.table(summary))
    assert [line[:3] for line in lines] == [
        ("knowledge-update", "1", "1.000"),
        ("other", "1", "0.000"),
        ("all", "2", "0.500"),
    ]
    assert {len(line) for line in lines} == {len(retrieval.COLUMNS)}


def test_beam(tmp_path: Path) -> None:
    chat = tmp_path / "100K" / "1"
    (chat / "probing_questions").mkdir(parents=True)
    said = [{"id": 7, "role": "user", "content": "I row."}, {"id": 8, "role": "assistant", "content": "OK."}]
    batch = {"batch_number": 1, "time_anchor": "March-15-2024", "turns": [said]}
    (chat / "chat.json").write_text(json.dumps([batch]))
    asked = {
        "abstention": [{"question": "Do I ski?", "ideal_response": "Not said."}],
        "knowledge_update": [
            {"question": "?", "answer": "Row", "source_chat_ids": {"now": [7], "then": [8]}}
        ],
        "summarization": [{"question": "?", "ideal_summary": "Rowing", "source_chat_ids": [8]}],
    }
    (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    (life,) = benchmarks.read(chat.parent, "beam")
    assert [(row["speaker"], row["time"]) for row in life.messages] == [
        ("me", "2024-03-15T00:00:00.000Z"),
        ("assistant", "2024-03-15T00:00:30.000Z"),
    ]
    found = [(row["kind"], row["answer"], row["evidence"]) for row in life.questions]
    assert found == [
        ("near", None, []),
        ("knowledge_update", "Row", ["7", "8"]),
        ("summarization", "Rowing", ["8"]),
    ]


def test_personamem_ends_where_the_question_stands(tmp_path: Path) -> None:
    said = [
        ("system", "A person"),
        ("user", "I row."),
        ("assistant", "OK."),
        ("system", "A person"),
        ("user", "No"),
    ]
    turns = [{"role": role, "content": text} for role, text in said]
    (tmp_path / "shared_contexts_32k.jsonl").write_text(json.dumps({"context": turns}))
    row = {"question_id": "q", "question_type": "suggest", "user_question_or_message": "Sport?"}
    row |= {"correct_answer": "(b)", "all_options": "(a) Ski (b) Row", "shared_context_id": "context"}
    asked = tmp_path / "questions_32k.csv"
    with asked.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, [*row, "end_index_in_shared_context"])
        writer.writeheader()
        writer.writerow(row | {"end_index_in_shared_context": 4})
    (life,) = benchmarks.read(asked, "personamem")
    assert [(row["session"], row["text"]) for row in life.messages] == [("1", "I row."), ("1", "OK.")]
    (question,) = life.questions
    scorer = Scorer(life, {})
    assert [scorer.is_right(question, answer) for answer in ("(b)", "b", "(a)", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_folder_of_turns_and_queries(tmp_path: Path) -> None:
    turn = {"conversation": "c", "id": "D1:1", "session": 1, "time": "2023-05-08T13:56:00Z"}
    asked = {"conversation": "c", "question": "?", "answer": 1, "evidence": ["D1:1"]}
    rows = {
        "corpus": [{**turn, "speaker": "Ada", "text": "I row."}],
        "queries": [
            {**asked, "id": "q", "category": "direct"},
            {**asked, "id": "r", "category": "adversarial"},
        ],
    }
    for name, held in rows.items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as lines:
            lines.writelines(f"{json.dumps(row)}\n" for row in held)
    (life,) = benchmarks.read(tmp_path)
    said, never_said = life.questions
    assert (life.messages[0]["speaker"], said["evidence"]) == ("me", ["D1:1"])
    assert (never_said["evidence"], never_said["kind"]) == ([], "near")


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a benchmark's file"):
        benchmarks.read(file(tmp_path, [{"a": 1}]))
    with pytest.raises(UsageError, match="not a file of beam, but of locomo"):
        benchmarks.read(file(tmp_path, LOCOMO), "beam")
    with pytest.raises(UsageError, match="does not exist"):
        benchmarks.read(tmp_path / "nothing.json")
