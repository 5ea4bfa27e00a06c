"""Whether a backfill costs what was estimated, and loses and doubles nothing when it is killed.

    python bench/backfill.py --messages 5000 --kills 6

A history is generated, imported, estimated, sampled and read by the memory writer on the model server for
tests, whose answers are what a good model would find. The process that reads is killed at random moments and
started again, each time after it has read a random number of further episodes. In the end every episode must
have been read once, every fact be there once, the bill be near the estimate, and questions be answered with
their sources.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import apsw

from nexus.testing import ModelRequest, ModelServer, Turn

_TOWNS = ["Ghent", "Turin", "Porto", "Malmo", "Krakow", "Basel", "Lyon", "Graz", "Bergen", "Oviedo"]
_THINGS = ["harp", "cello", "drums", "organ", "violin", "tuba", "piano", "flute"]
_NAMES = ["Elin", "Marek", "Ines", "Tomas", "Greta", "Paulo", "Sanna", "Viktor", "Ruth", "Anton"]
_CHAT = [
    "It rained all week again.",
    "Can you shorten this mail?",
    "Thanks, that helps.",
    "What is a good soup?",
]
_LINE = re.compile(r"^\[(\d+)\] [^\n]*?\d\d:\d\d: (.*)$", re.MULTILINE)
_HELD = re.compile(r"(\w+) (?:lives in \w+|plays the \w+)(?= since)")
_START = 1_500_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        server.when(lambda request: "Answer with the JSON object." in request.last_user).always(_answer)
        server.always("Noted.")
        print(json.dumps(measure(Path(folder), server, given.messages, given.kills, given.seed), indent=2))


def measure(folder: Path, server: ModelServer, messages: int, kills: int, seed: int) -> dict[str, Any]:
    """Import, estimate, sample, read with kills, compare."""
    chance, home = random.Random(seed), folder / "home"
    path, stated = folder / "history.jsonl", _history(folder / "history.jsonl", messages, random.Random(seed))
    _nexus(home, "init", "--yes")
    config = home / "config.toml"
    config.write_text(
        '[models]\nmanager = "test/large"\nwriter = "test/large"\n[memory]\nwriter = "structured"\n'
        f'consolidation = false\n[providers.test]\nkind = "openai"\nbase_url = "{server.openai_url}"\n'
        '[prices."test/large"]\nfresh_usd = 3.0\ncached_usd = 0.3\noutput_usd = 15.0\n'
    )
    _nexus(home, "import", str(path))
    before = json.loads(_nexus(home, "backfill", "estimate", "--json"))
    sample = json.loads(_nexus(home, "backfill", "sample", "--json"))
    after = json.loads(_nexus(home, "backfill", "estimate", "--json"))
    _nexus(home, "backfill", "start", "--yes")
    began = time.monotonic()
    at = sorted(chance.sample(range(1, after["episodes"] - len(sample)), kills))
    killed = [_run(home, episodes, chance.uniform(0.0, 0.5)) for episodes in at]
    _nexus(home, "backfill", "run")
    done = json.loads(_nexus(home, "backfill", "status", "--json"))
    progress = done["progress"]
    tokens = progress["input_tokens"] + progress["output_tokens"]
    facts = _rows(home, "memory", "SELECT fact, source_event_id, as_of FROM facts")
    said = dict(_rows(home, "events", "SELECT id, occurred_at FROM events"))
    return {
        "messages": messages,
        "episodes": after["episodes"],
        "sample_episodes": len(sample),
        "estimated_before_sample": {"tokens": before["tokens"], "cost_microusd": before["cost_microusd"]},
        "estimated": {"tokens": after["tokens"], "cost_microusd": after["cost_microusd"]},
        "billed": {"tokens": tokens, "cost_microusd": progress["cost_microusd"]},
        "off_percent_tokens": round(100 * (after["tokens"] / tokens - 1), 1),
        "off_percent_cost": round(100 * (after["cost_microusd"] / progress["cost_microusd"] - 1), 1),
        "off_percent_before_sample": round(
            100 * (before["cost_microusd"] / progress["cost_microusd"] - 1), 1
        ),
        "killed_after_episodes": killed,
        "seconds": round(time.monotonic() - began),
        "status": done["status"],
        "reason": done["reason"],
        "waiting": progress["waiting"],
        "read": progress["done"] + progress["skipped"],
        "facts": len(facts),
        "facts_stated": stated,
        "facts_doubled": len(facts) - len({row[:2] for row in facts}),
        "as_of_is_the_message": all(said[event] == as_of for _, event, as_of in facts),
        "calls_asked_twice": len(server.exchanges)
        - len({each.request.last_user for each in server.exchanges}),
        "questions_with_sources": _questions(home),
    }


def _history(path: Path, messages: int, chance: random.Random) -> int:
    """Write years of short chats in which people move or learn an instrument.

    Returns how often; what is said twice in one chat counts once.
    """
    stated: set[tuple[int, str, str]] = set()
    with path.open("w", encoding="utf-8") as stream:
        for number in range(messages):
            thread, place = divmod(number, 8)
            role, text = ("assistant", "I see.") if number % 2 else ("user", chance.choice(_CHAT))
            if role == "user" and place in (0, 4):
                name = chance.choice(_NAMES)
                what = chance.choice(
                    [f"lives in {chance.choice(_TOWNS)}", f"plays the {chance.choice(_THINGS)}"]
                )
                stated.add((thread, name, what))
                text = f"My friend {name} {what} since {1990 + number % 30}, number {number}."
            line = {"id": f"m{number}", "thread": f"t{thread}", "role": role, "text": text}
            stream.write(json.dumps({**line, "time": _START + thread * 86_400 + place * 60}) + "\n")
    return len(stated)


def _answer(request: ModelRequest) -> Turn:
    facts = [
        {"message": int(number), "about": found[1], "fact": found[0]}
        for number, text in _LINE.findall(request.last_user)
        for found in _HELD.finditer(text)
    ]
    return Turn(json.dumps({"people": [], "facts": facts}))


def _questions(home: Path) -> str:
    """How many of some questions recall answers with a fact that has its message."""
    answered = 0
    for name in _NAMES:
        found = json.loads(_nexus(home, "recall", f"Where does {name} live?", "--json"))["results"]
        answered += any(name in str(each) and "evt_" in str(each) for each in found[:5])
    return f"{answered} of {len(_NAMES)}"


def _nexus(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "nexus", "--home", str(home), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(home: Path, episodes: int, seconds: float) -> int:
    """Kill a process a moment after so many episodes are read; returns how many are."""
    command = [sys.executable, "-m", "nexus", "--home", str(home), "backfill", "run"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and _read(home) < episodes:
        time.sleep(0.05)
    time.sleep(seconds)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return _read(home)


def _read(home: Path) -> int:
    query = "SELECT count(*) FROM backfill_episodes WHERE status <> 'waiting'"
    return int(_rows(home, "memory", query)[0][0])


def _rows(home: Path, ledger: str, query: str) -> list[Any]:
    connection = apsw.Connection(str(home / "data" / f"{ledger}.db"))
    connection.set_busy_timeout(10_000)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


if __name__ == "__main__":
    main()
