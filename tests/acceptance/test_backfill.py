"""`nexus backfill`: estimate, sample, a start that is killed in its middle, and questions with sources."""

import json
import re
from pathlib import Path

from acceptance.agents import PATIENCE_MS, PATIENCE_S, environment, finish, rows, start
from nexus.home import Home
from nexus.testing import Hold, ModelRequest, ModelServer, Turn

_LINE = re.compile(r"^\[(\d+)\] [^\n]*?\d\d:\d\d: (Elin lives in \w+)", re.MULTILINE)
_READ = "SELECT count(*) FROM backfill_episodes WHERE status = 'done'"


def _answer(request: ModelRequest) -> Turn:
    facts = [
        {"message": int(number), "about": "Elin", "fact": text}
        for number, text in _LINE.findall(request.last_user)
    ]
    held = "Ghent4" in request.last_user
    return Turn(json.dumps({"people": [], "facts": facts}), faults=[Hold(gate="fifth")] if held else [])


def _history(path: Path) -> Path:
    lines = [
        {"id": str(day), "thread": f"t{day}", "role": "user", "text": f"Elin lives in Ghent{day}.",
         "time": f"2021-03-{day + 1:02}T10:00:00Z"}
        for day in range(8)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_backfill_that_is_killed_reads_every_episode_once(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    server.when(lambda request: "Answer with the JSON object." in request.last_user).always(_answer)
    env = environment(server, "openai", NEXUS_MODELS_WRITER="test/large", NEXUS_MEMORY_WRITER="structured")
    assert finish(home, env, "import", str(_history(tmp_path / "a.jsonl"))).returncode == 0
    expected = json.loads(finish(home, env, "backfill", "estimate", "--json").stdout)
    assert (expected["episodes"], expected["calls"], expected["measured"]) == (8, 8, 0)
    refused = finish(home, env, "backfill", "start")
    assert "no terminal to confirm" in refused.stderr
    begun = finish(home, env, "backfill", "start", "--order", "oldest", "--yes")
    assert begun.returncode == 0, begun.stderr
    assert "0 of 8 episodes read" in begun.stdout
    process = start(home, env, "backfill", "run")
    try:
        # The fifth is held by the model, the first four were asked about together with it or before.
        server.wait_until(lambda: rows(home, "memory", _READ)[0][0] >= 4, PATIENCE_MS)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    server.gate("fifth").open()
    done = finish(home, env, "backfill", "run", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["progress"]["done"], found["progress"]["facts"]) == ("done", 8, 8)
    facts = rows(home, "memory", "SELECT fact, as_of FROM facts ORDER BY as_of")
    assert facts == [(f"Elin lives in Ghent{day}", f"2021-03-{day + 1:02}T10:00:00.000Z") for day in range(8)]
    answer = json.loads(finish(home, env, "recall", "where does Elin live?", "--json").stdout)
    assert any("Elin lives in Ghent7" in str(each) and "evt_" in str(each) for each in answer["results"])
    assert "8 of 8 episodes read, 8 facts stored" in finish(home, env, "backfill", "status").stdout
    assert finish(home, env, "doctor", "--deep").returncode == 0
