"""Published benchmarks as lives, for people who have the files: LongMemEval, LoCoMo, BEAM and PersonaMem.

None of their data ships with Nexus. A benchmark has questions with answers, but no list of what is worth
remembering, so only its questions are scored.
"""

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from nexus import clock
from nexus.errors import UsageError
from nexus.evaluation import life
from nexus.evaluation.life import Life, Row
from nexus.evaluation.playback import ASSISTANT, ME

_LANGUAGE: Final = "en"
_SECONDS_BETWEEN: Final = 30
_LOCOMO_TIME: Final = re.compile(r"(\d+):(\d\d) ?(am|pm) on (\d+) (\w+),? (\d{4})", re.IGNORECASE)
_LONGMEMEVAL_TIME: Final = re.compile(r"(\d{4})/(\d\d)/(\d\d)\D*(\d\d):(\d\d)")
_LOCOMO_KINDS: Final = {1: "multi", 2: "temporal", 3: "open_domain", 4: "direct", 5: "near"}
_ABSTENTION: Final = "_abs"
_NEVER_SAID: Final = frozenset({"adversarial", "abstention"})
_BEAM_ANSWERS: Final = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_PERSONAMEM_START: Final = datetime(2024, 1, 1, 9, tzinfo=UTC)
_OPTIONS: Final = "Which of these is the best reply? Answer with its letter alone, such as (a)."
_HINTS: Final = {
    "longmemeval": "LongMemEval: a file such as longmemeval_s.json.",
    "locomo": "LoCoMo: locomo10.json.",
    "beam": "BEAM: a folder such as chats/100K of its repository.",
    "personamem": "PersonaMem: questions_32k.csv, with shared_contexts_32k.jsonl beside it.",
}
NAMES: Final = tuple(_HINTS)


def read(path: Path, name: str = "") -> list[Life]:
    """Return the lives at a path: one folder, or every conversation of a file of the named benchmark."""
    if (path / "corpus.jsonl.gz").exists():
        return list(_conversations(path))
    found = _find_format(path)
    if name and found != name:
        of = f", but of {found}" if found else ""
        raise UsageError(f"{path} is not a file of {name}{of}", hint=_HINTS[name])
    if found:
        return list(_READERS[found](path))
    if path.is_dir():
        return [life.read(path)]
    if not path.exists():
        raise UsageError(f"{path} does not exist", hint="Name a life's folder or a benchmark's file.")
    raise UsageError(f"{path} is not a benchmark's file", hint=" ".join(_HINTS.values()))


def _find_format(path: Path) -> str | None:
    if path.is_dir():
        return "beam" if next(_beam_chats(path), None) else None
    if path.suffix == ".csv":
        return "personamem"
    rows = _json(path) if path.is_file() else None
    first = cast("list[Row]", rows)[0] if isinstance(rows, list) and rows else None
    if isinstance(first, dict):
        if "haystack_sessions" in first:
            return "longmemeval"
        if {"conversation", "qa"} <= first.keys():
            return "locomo"
    return None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None


def _locomo(row: Row, number: int) -> Life:
    """Read LoCoMo: two people talk, the first one is the owner and asks everything."""
    talk = row["conversation"]
    speakers = [str(talk["speaker_a"]), str(talk["speaker_b"])]
    messages: list[Row] = []
    names = sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda k: int(k[8:]))
    for name in names:
        start = _locomo_time(str(talk[f"{name}_date_time"]))
        for place, turn in enumerate(talk[name]):
            caption = turn.get("blip_caption")
            text = f"{turn.get('text', '')} [image: {caption}]".strip() if caption else str(turn["text"])
            said = _message(
                str(turn["dia_id"]), name, start, place, _speaker(turn["speaker"], speakers), text
            )
            messages.append(said)
    questions = [
        {
            "id": f"q{place}",
            "text": asked["question"],
            # What the fifth category asks was never said.
            "answer": None if asked["category"] == 5 else asked.get("answer"),
            "evidence": [] if asked["category"] == 5 else _ids(asked.get("evidence", [])),
            "kind": _LOCOMO_KINDS.get(asked["category"], "other"),
        }
        for place, asked in enumerate(row["qa"], start=1)
    ]
    return _life(str(row.get("sample_id", f"locomo-{number}")), speakers, messages, questions)


def _longmemeval(row: Row) -> Life:
    """Read LongMemEval: a person talks with an assistant; each question has a history of its own."""
    messages: list[Row] = []
    evidence: list[str] = []
    answering: list[str] = []
    sessions = zip(row["haystack_session_ids"], row["haystack_dates"], row["haystack_sessions"], strict=True)
    for number, (id_, date, turns) in enumerate(sessions):
        name, start = f"{id_}-{number}", _longmemeval_time(str(date))
        if id_ in row["answer_session_ids"]:
            answering.append(name)
        for place, turn in enumerate(turns):
            key = f"{name}:{place}"
            speaker = ME if turn["role"] == "user" else ASSISTANT
            messages.append(_message(key, name, start, place, speaker, str(turn["content"])))
            if turn.get("has_answer"):
                evidence.append(key)
    is_unanswerable = _ABSTENTION in str(row["question_id"])
    question = {
        "id": str(row["question_id"]),
        "text": row["question"],
        "answer": None if is_unanswerable else str(row["answer"]),
        "evidence": [] if is_unanswerable else evidence,
        "sessions": [] if is_unanswerable else answering,
        "kind": "near" if is_unanswerable else str(row["question_type"]),
    }
    made = _life(str(row["question_id"]), ["the user"], messages, [question])
    made.persona["now"] = clock.timestamp(_longmemeval_time(str(row["question_date"])))
    return made


def _beam_chats(folder: Path) -> Iterator[Path]:
    """The chats at or below a folder of BEAM's `chats/100K`, by number."""
    found = [path for path in (folder / "chat.json", *folder.glob("*/chat.json")) if path.exists()]
    return iter(sorted(found, key=lambda path: (len(path.parent.name), path.parent.name)))


def _beam(chat: Path) -> Life:
    """Read BEAM: a person talks with an assistant; every batch of the chat is a session."""
    messages: list[Row] = []
    for batch in _json(chat):
        session = str(batch["batch_number"])
        turns = [turn for turns in batch["turns"] for turn in turns]
        anchors = (turn.get("time_anchor") for turn in (batch, *turns))
        start = datetime.strptime(next(filter(None, anchors)), "%B-%d-%Y").replace(tzinfo=UTC)
        for place, turn in enumerate(turns):
            speaker = ME if turn["role"] == "user" else ASSISTANT
            messages.append(_message(str(turn["id"]), session, start, place, speaker, str(turn["content"])))
    questions: list[Row] = []
    for kind, asked in _json(chat.parent / "probing_questions" / "probing_questions.json").items():
        for place, row in enumerate(asked):
            is_unanswerable = kind == "abstention"
            answer = next((row[name] for name in _BEAM_ANSWERS if name in row), None)
            questions.append(
                {
                    "id": f"{kind}-{place}",
                    "text": row["question"],
                    "answer": None if is_unanswerable else answer,
                    "evidence": [] if is_unanswerable else list(map(str, _ints(row.get("source_chat_ids")))),
                    "kind": "near" if is_unanswerable else kind,
                }
            )
    return _life(f"beam-{chat.parent.parent.name}-{chat.parent.name}", ["the user"], messages, questions)


def _ints(value: object) -> Iterator[int]:
    """The numbers in nested lists and dictionaries: BEAM names its evidence in either."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from _ints(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _ints(each)


def _personamem(file: Path) -> Iterator[Life]:
    """Read PersonaMem: questions with four options each, about the beginning of a chat up to a place.

    A system message describes the person and begins a session; it is left out. Days are invented.
    The file has no evidence, so retrieval can't be scored.
    """
    contexts: dict[str, list[Row]] = {}
    beside = file.with_name(file.name.replace("questions", "shared_contexts")).with_suffix(".jsonl")
    if not beside.exists():
        raise UsageError(f"{beside} does not exist", hint=_HINTS["personamem"])
    for line in beside.read_text(encoding="utf-8").splitlines():
        contexts |= json.loads(line)
    asked: dict[tuple[str, int], list[Row]] = {}
    with file.open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            asked.setdefault((row["shared_context_id"], int(row["end_index_in_shared_context"])), []).append(
                {
                    "id": row["question_id"],
                    "text": f"{row['user_question_or_message']}\n\n{_OPTIONS}\n{row['all_options']}",
                    "answer": row["correct_answer"],
                    "evidence": [],
                    "kind": row["question_type"],
                }
            )
    for (context, end), questions in asked.items():
        messages: list[Row] = []
        session = 0
        for place, turn in enumerate(contexts[context][:end]):
            if turn["role"] == "system":
                session += 1
                continue
            speaker = ME if turn["role"] == "user" else ASSISTANT
            start = _PERSONAMEM_START + timedelta(days=session)
            key, text = str(place), str(turn["content"])
            messages.append(_message(key, str(session), start, place, speaker, text))
        yield _life(f"{context[:12]}-{end}", ["the user"], messages, questions)


def _conversations(folder: Path) -> Iterator[Life]:
    """Read a folder with `corpus.jsonl.gz` and `queries.jsonl.gz`: turns and questions of conversations."""
    turns: dict[str, list[Row]] = {}
    for row in _rows(folder / "corpus.jsonl.gz"):
        turns.setdefault(row["conversation"], []).append(row)
    asked: dict[str, list[Row]] = {}
    for row in _rows(folder / "queries.jsonl.gz"):
        asked.setdefault(row["conversation"], []).append(row)
    for name, rows in turns.items():
        said = dict.fromkeys(str(row["speaker"]) for row in rows)
        speakers = [speaker for speaker in said if speaker != ASSISTANT]
        messages: list[Row] = []
        places: Counter[str] = Counter()
        for row in rows:
            session = str(row["session"])
            caption = row.get("image_caption")
            text = f"{row['text']} [image: {caption}]".strip() if caption else str(row["text"])
            speaker = _speaker(row["speaker"], speakers)
            start = _time(str(row["time"]))
            messages.append(_message(str(row["id"]), session, start, places[session], speaker, text))
            places[session] += 1
        yield _life(name, speakers, messages, [_question(row) for row in asked.get(name, [])])


def _question(row: Row) -> Row:
    asked = {"id": str(row["id"]), "text": row["question"]}
    if row["category"] in _NEVER_SAID:
        return {**asked, "answer": None, "evidence": [], "kind": "near"}
    evidence = [str(id_) for id_ in row["evidence"]]
    return {**asked, "answer": row.get("answer"), "evidence": evidence, "kind": str(row["category"])}


def _life(name: str, speakers: Sequence[str], messages: list[Row], questions: list[Row]) -> Life:
    """Return a life whose facts are its messages: a question's evidence names the messages that answer it."""
    known = {row["key"] for row in messages}
    last = max(clock.parse(row["time"]) for row in messages)
    persona = {"owner": speakers[0], "language": _LANGUAGE, "now": clock.timestamp(last + timedelta(days=1))}
    entities: list[Row] = [{"key": each, "name": each, "type": "person", "aliases": []} for each in speakers]
    facts: list[Row] = [
        {"key": row["key"], "text": row["text"], "about": [], "as_of": row["time"], "message": row["key"]}
        for row in messages
    ]
    kept = [{**row, "evidence": [key for key in row["evidence"] if key in known]} for row in questions]
    return Life(name, persona, entities, facts, messages, kept, [], [])


def _message(key: str, session: str, start: datetime, place: int, speaker: str, text: str) -> Row:
    at = clock.timestamp(start + timedelta(seconds=place * _SECONDS_BETWEEN))
    return {
        "key": key,
        "session": session,
        "time": at,
        "speaker": speaker,
        "channel": "chat",
        "text": text,
    }


def _speaker(name: object, speakers: Sequence[str]) -> str:
    said = str(name)
    return ME if said == speakers[0] else said


def _ids(evidence: Iterable[object]) -> list[str]:
    """Return the ids of some evidence; some of LoCoMo's names several turns in one text."""
    return [id_ for each in evidence for id_ in re.findall(r"D\d+:\d+", str(each))]


def _locomo_time(text: str) -> datetime:
    found = _LOCOMO_TIME.search(text)
    if found is None:
        raise UsageError(f"{text!r} is not a time as LoCoMo writes it")
    hour, minute, half, day, month, year = found.groups()
    written = f"{int(hour)}:{minute} {half.upper()} {day} {month} {year}"
    return datetime.strptime(written, "%I:%M %p %d %B %Y").replace(tzinfo=UTC)


def _time(text: str) -> datetime:
    return clock.parse(text) if "T" in text else datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC)


def _longmemeval_time(text: str) -> datetime:
    found = _LONGMEMEVAL_TIME.search(text)
    if found is None:
        raise UsageError(f"{text!r} is not a time as LongMemEval writes it")
    year, month, day, hour, minute = map(int, found.groups())
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def _rows(file: Path) -> Iterator[Row]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


_READERS: Final[dict[str, Callable[[Path], Iterable[Life]]]] = {
    "longmemeval": lambda path: map(_longmemeval, _json(path)),
    "locomo": lambda path: (_locomo(row, number) for number, row in enumerate(_json(path), start=1)),
    "beam": lambda path: map(_beam, _beam_chats(path)),
    "personamem": _personamem,
}
