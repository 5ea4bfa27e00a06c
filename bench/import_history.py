"""How fast a history is imported, in how much memory, and whether a killed import ends as a whole one.

    python bench/import_history.py --messages 1000000 --format chatgpt

An export is generated, imported in one go, and imported into a second home by a process that is killed
three times. Both homes must then hold the same rows (ids, order, threads, participants, times and text), and
`nexus export --format markdown` must write the same files, byte for byte.

With `--part` and a `--folder`, one part is done at a time: `whole`, `killed`, `compare`.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

_WORDS = [
    *("the", "garden", "needs", "water", "before", "summer", "and", "we", "should", "ask", "Anna", "about"),
    *("old", "ladder", "in", "shed", "because", "it", "rained", "all", "week", "nobody", "found", "blue"),
    *(
        "tin",
        "with",
        "seeds",
        "that",
        "came",
        "from",
        "Ghent",
        "piano",
        "letter",
        "train",
        "window",
        "doctor",
    ),
]
_SYLLABLES = [a + b for a in "bdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "el", "ir", "on")]
_START = 1_500_000_000
_PEOPLE = 2_000
_ROWS = {
    "events": "SELECT seq, id, thread_id, channel, direction, kind, external_id, sender, content, "
    "content_type, reply_to_event_id, metadata_json, occurred_at FROM events ORDER BY seq",
    "threads": "SELECT id, channel, external_id, kind, title, parent_thread_id, metadata_json, created_at "
    "FROM threads ORDER BY id",
    "participants": "SELECT event_id, role, identifier, display_name, canonical_name FROM event_participants "
    "LEFT JOIN identity.entities ON entities.id = entity_id ORDER BY event_id, role, identifier",
    "attachments": "SELECT id, event_id, filename, media_type, sha256 FROM attachments ORDER BY id",
    "imports": "SELECT source, threads, messages, known, set_aside_json FROM imports",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--format", choices=("chatgpt", "mbox"), default="chatgpt")
    parser.add_argument("--folder", type=Path, help="Where to work. Default: a temporary folder.")
    parser.add_argument("--part", choices=("whole", "killed", "compare"), help="Default: all of them.")
    given = parser.parse_args()
    if given.part:
        done = PARTS[given.part](given.folder, given.format, given.messages)
        (given.folder / f"{given.part}.json").write_text(json.dumps(done))
        print(json.dumps(done, indent=2))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        for part, run in PARTS.items():
            (folder / f"{part}.json").write_text(json.dumps(run(folder, given.format, given.messages)))
        print((folder / "compare.json").read_text())


def import_whole(folder: Path, format_: str, messages: int) -> dict[str, Any]:
    """Generate an export, and import it in one go."""
    path, write = _export(folder, format_), chatgpt if format_ == "chatgpt" else mbox
    with path.open("w", encoding="utf-8") as stream:
        for part in write(messages):
            stream.write(part)
    _init(folder / "whole")
    return _import(folder / "whole", path)


def import_killed(folder: Path, format_: str, messages: int) -> dict[str, Any]:
    """Import the same export with three kills."""
    path, home = _export(folder, format_), folder / "killed"
    _init(home)
    kills = [_import(home, path, messages * part // 4) for part in (1, 2, 3)]
    # The last one may have ended before it could be killed.
    last = kills[-1] if kills[-1]["recorded"] == messages else _import(home, path)
    peak = max(run["peak_rss_mb"] for run in (*kills, last))
    return {"killed_at": [run["recorded"] for run in kills], "peak_rss_mb": peak}


def compare(folder: Path, format_: str, messages: int) -> dict[str, Any]:
    """Compare both homes and their exports."""
    whole, killed = (json.loads((folder / f"{part}.json").read_text()) for part in ("whole", "killed"))
    digests = [_digest(folder / name) for name in ("whole", "killed")]
    exports = [_exported(folder / name, folder / f"{name}.export") for name in ("whole", "killed")]
    return {
        "format": format_,
        "messages": messages,
        "source_mb": round(_export(folder, format_).stat().st_size / 1e6, 1),
        "seconds": round(whole["seconds"], 1),
        "messages_per_second": round(messages / whole["seconds"]),
        "peak_rss_mb": max(whole["peak_rss_mb"], killed["peak_rss_mb"]),
        "killed_at": killed["killed_at"],
        "recorded": [_recorded(folder / name) for name in ("whole", "killed")],
        "identical": digests[0] == digests[1],
        "exports_identical": exports[0] == exports[1],
        "sha256": exports[0],
        "events_mb": round((folder / "whole" / "data" / "events.db").stat().st_size / 1e6, 1),
    }


PARTS: dict[str, Callable[[Path, str, int], dict[str, Any]]] = {
    "whole": import_whole, "killed": import_killed, "compare": compare,
}  # fmt: skip


def _export(folder: Path, format_: str) -> Path:
    return folder / ("conversations.json" if format_ == "chatgpt" else "mail.mbox")


def _init(home: Path) -> None:
    subprocess.run([*_nexus(home), "init", "--yes"], check=True, capture_output=True)


def chatgpt(messages: int, each: int = 40) -> Iterator[str]:
    """Conversations with a branch now and then, as ChatGPT exports them."""
    chance = random.Random(1)
    yield "["
    for number in range(0, messages, each):
        if number:
            yield ","
        yield json.dumps(_conversation(number, min(each, messages - number), chance), ensure_ascii=False)
    yield "]"


def _conversation(first: int, count: int, chance: random.Random) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    above = "root"
    for number in range(first, first + count):
        id_ = f"message-{number:09}"
        role = "assistant" if number % 2 else "user"
        mapping[id_] = {
            "id": id_,
            "message": {
                "id": id_,
                "author": {"role": role, "name": None, "metadata": {}},
                "create_time": _START + number * 60 + 0.25,
                "update_time": None,
                "content": {"content_type": "text", "parts": [_text(chance)]},
                "status": "finished_successfully",
                "end_turn": True,
                "weight": 1.0,
                "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
                "recipient": "all",
            },
            "parent": above,
            "children": [],
        }
        mapping[above]["children"].append(id_)
        # Now and then the next message answers an earlier one: a branch.
        above = id_ if number % 17 else above
    return {
        "title": " ".join(chance.sample(_WORDS, 4)),
        "create_time": _START + first * 60,
        "update_time": _START + first * 60,
        "mapping": mapping,
        "conversation_id": f"conversation-{first:09}",
        "current_node": above,
        "default_model_slug": "gpt-4o",
    }


def mbox(messages: int) -> Iterator[str]:
    """Mail of two thousand people in threads of four."""
    chance = random.Random(2)
    for number in range(messages):
        person, first = chance.randrange(_PEOPLE), number - number % 4
        name = _name(person)
        references = f"References: <{first}@example.org>\n" if number != first else ""
        date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(_START + number * 60))
        yield (
            f"From person{person} {date}\nFrom: {name} <person{person}@example.org>\n"
            f"To: Me <me@example.org>\nSubject: {' '.join(chance.sample(_WORDS, 3))}\nDate: {date}\n"
            f"Message-ID: <{number}@example.org>\n{references}"
            f"Content-Type: text/plain; charset=utf-8\n\n{_text(chance)}\n\n"
        )


def _name(person: int) -> str:
    """As different from each other as people's names are."""
    chance = random.Random(person)
    first, last = ("".join(chance.choices(_SYLLABLES, k=chance.randint(2, 3))).title() for _ in range(2))
    return f"{first} {last}"


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(5, 60)))


def _nexus(home: Path) -> list[str]:
    return [sys.executable, "-m", "nexus", "--home", str(home)]


def _import(home: Path, path: Path, kill_at: int | None = None) -> dict[str, Any]:
    """Run the program until it ends, or until it has recorded so many messages."""
    started = time.monotonic()
    process = subprocess.Popen(
        [*_nexus(home), "import", str(path), "--me", "me@example.org"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    while kill_at is not None and process.poll() is None and _recorded(home) < kill_at:
        time.sleep(0.2)
    if kill_at is not None and process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    if process.returncode is None:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        peak = used.ru_maxrss / 1000
    else:
        peak = 0.0
    assert process.returncode in (0, -signal.SIGKILL), process.stderr and process.stderr.read()
    seconds = time.monotonic() - started
    return {"seconds": seconds, "peak_rss_mb": round(peak), "recorded": _recorded(home)}


def _recorded(home: Path) -> int:
    connection = _opened(home)
    try:
        return int(connection.execute("SELECT coalesce(sum(messages), 0) FROM imports").get)
    finally:
        connection.close()


def _digest(home: Path) -> str:
    """Of every row that an import makes, but for when it was made."""
    digest = hashlib.sha256()
    connection = _opened(home)
    connection.execute("ATTACH ? AS identity", (str(home / "data" / "identity.db"),))
    for name, query in _ROWS.items():
        digest.update(name.encode())
        for row in connection.execute(query):
            digest.update(repr(row).encode())
    connection.close()
    return digest.hexdigest()


def _exported(home: Path, folder: Path) -> str:
    """Of every file of a Markdown export: its name and its bytes."""
    command = [*_nexus(home), "export", str(folder), "--format", "markdown"]
    subprocess.run(command, check=True, capture_output=True)
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    shutil.rmtree(folder)
    return digest.hexdigest()


def _opened(home: Path) -> Any:
    connection = apsw.Connection(str(home / "data" / "events.db"))
    connection.set_busy_timeout(10_000)
    return connection


if __name__ == "__main__":
    main()
