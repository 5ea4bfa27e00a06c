"""A tiny life: two sessions, somebody else in the second one, one thing that changes, one joke."""

import json
from pathlib import Path
from typing import Any

MESSAGES = [
    ("m1", "s1", "2026-01-10T09:00:00Z", "me", "My dentist is Dr. Moreau. The appointment is on 4 February."),
    ("m2", "s1", "2026-01-10T09:01:00Z", "assistant", "Noted, 4 February."),
    ("m3", "s1", "2026-01-10T09:02:00Z", "me", "I could become a dentist myself, of course. Ha."),
    ("m4", "s2", "2026-01-20T18:00:00Z", "per", "I can't eat shellfish, Ada, so no prawns on Saturday."),
    ("m5", "s2", "2026-01-20T18:02:00Z", "me", "They moved my dentist appointment to 11 February."),
    ("m6", "s2", "2026-01-20T18:03:00Z", "assistant", "11 February then."),
]
FACTS: list[dict[str, Any]] = [
    {"key": "f1", "text": "Ada's dentist is Dr. Moreau", "about": ["ada"], "message": "m1"},
    {
        "key": "f2",
        "text": "Ada's dentist appointment is on 4 February 2026",
        "about": ["ada"],
        "message": "m1",
        "replaced_by": "f4",
    },
    {"key": "f3", "text": "Per Lindqvist cannot eat shellfish", "about": ["per"], "message": "m4"},
    {
        "key": "f4",
        "text": "Ada's dentist appointment is on 11 February 2026",
        "about": ["ada"],
        "message": "m5",
    },
]
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "q1",
        "text": "When do I see the dentist?",
        "evidence": ["f4"],
        "wrong": ["f2"],
        "kind": "update",
    },
    {"id": "q2", "text": "What can't Per eat?", "evidence": ["f3"], "kind": "other_person"},
    {"id": "q3", "text": "What does the dentist charge?", "evidence": [], "kind": "near"},
]
WRITER: list[dict[str, Any]] = [
    {
        "session": "s1",
        "must": ["Ada's dentist is Dr. Moreau", "The dentist appointment is on 4 February"],
        "must_not": ["Ada wants to become a dentist"],
    },
    {
        "session": "s2",
        "must": ["Per cannot eat shellfish", "The dentist appointment is on 11 February"],
        "must_not": [],
    },
]


def write_life(folder: Path) -> Path:
    """Write the life into a folder of that name."""
    folder.mkdir()
    persona = {"owner": "Ada Brandt", "language": "en", "now": "2026-03-01T10:00:00Z", "about": "Invented."}
    (folder / "persona.json").write_text(json.dumps(persona))
    names = {"ada": "Ada Brandt", "per": "Per Lindqvist"}
    columns = ("key", "session", "time", "speaker", "text")
    _write(
        folder,
        entities=[{"key": key, "name": name, "type": "person", "aliases": []} for key, name in names.items()],
        messages=[{**dict(zip(columns, row, strict=True)), "channel": "app"} for row in MESSAGES],
        facts=[{**fact, "as_of": "2026-01-20" if fact["message"] > "m3" else "2026-01-10"} for fact in FACTS],
        questions=QUESTIONS,
        writer=WRITER,
    )
    return folder


def _write(folder: Path, **files: list[dict[str, Any]]) -> None:
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
