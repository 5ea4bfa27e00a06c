"""`nexus eval memory`: a tiny life is played through a real home, on a scripted model, and scored exactly."""

import json
from pathlib import Path
from typing import Any

import pytest

from acceptance.agents import environment, finish, kill_when, rows, start
from lives import write_life
from memory_writers import batch, is_reflection, is_writer
from nexus import __version__
from nexus.home import Home
from nexus.testing import ModelRequest, ModelServer, Turn

MOREAU = {"about": "Ada Brandt", "fact": "Ada Brandt's dentist is Dr. Moreau"}
FOURTH = {"about": "Ada Brandt", "fact": "Ada Brandt's dentist appointment is on 4 February 2026"}
ELEVENTH = {"about": "Ada Brandt", "fact": "Ada Brandt's dentist appointment is on 11 February 2026"}
SHELLFISH = {"about": "Per Lindqvist", "fact": "Per Lindqvist can't eat shellfish"}
JOKE = {"about": "Ada Brandt", "fact": "Ada Brandt wants to become a dentist"}
# What the writer writes of each message, by a part of it.
GOOD = {"Dr. Moreau": [MOREAU, FOURTH], "shellfish": [SHELLFISH], "They moved": [ELEVENTH]}
BAD = {"myself": [JOKE], "They moved": []}
RIGHT = {
    "see the dentist": "On 11 February 2026.",
    "Per eat": "Shellfish.",
    "charge": "I don't know: you never told me.",
}
WRONG = {"see the dentist": "On 4 February 2026.", "Per eat": "Nuts.", "charge": "It charges 90 euros."}


@pytest.fixture
def life(tmp_path: Path) -> Path:
    return write_life(tmp_path / "ada")


def script(server: ModelServer, facts: dict[str, list[dict[str, str]]], answers: dict[str, str]) -> None:
    """A writer that knows what to write of which message, and an agent that knows what to answer."""

    def found(request: ModelRequest) -> list[dict[str, str]]:
        shown = str(request.json["messages"])
        latest = max(facts, key=shown.rfind)
        return facts[latest] if latest in shown else []

    def write(request: ModelRequest) -> Turn:
        if request.tool_results or not found(request):
            return Turn("Done.")
        return batch(*({"operation": "fact", **fact} for fact in found(request)))

    def extract(request: ModelRequest) -> Turn:
        said = request.last_user.partition("<messages>")[2]
        learned = [fact for part, own in facts.items() if part in said for fact in own]
        return Turn(json.dumps({"people": [], "facts": [{"message": 1, **fact} for fact in learned]}))

    server.when(is_reflection).always("Nothing learned")
    server.when(last_user="Answer with the JSON object.").always(extract)
    server.when(is_writer).always(write)
    for part, answer in answers.items():
        server.when(last_user=part).always(answer)


def evaluated(home: Home, server: ModelServer, life: Path, *options: str) -> dict[str, Any]:
    done = finish(home, env(server), *command(life, *options), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def env(server: ModelServer) -> dict[str, str]:
    return environment(server, "openai", NEXUS_MEMORY_CONSOLIDATION="false")


def command(life: Path, *options: str) -> list[str]:
    out = str(life.parent / "out")
    return ["eval", "memory", str(life), "--model", "test/large", "--out", out, *options]


def test_a_good_model_scores_full_and_the_life_happens_at_its_own_time(
    home: Home, server: ModelServer, life: Path
) -> None:
    script(server, GOOD, RIGHT)
    found = evaluated(home, server, life)
    assert (found["model"], found["judge"], found["version"]) == ("test/large", "", __version__)
    ada = found["lives"]["ada"]
    assert ada["extraction"]["must"] == {"n": 4, "stored": 4}
    assert ada["extraction"]["must_not"] == {"n": 1, "stored": 0}
    assert ada["extraction"]["unsaid"] == 0
    assert ada["attribution"] == {"n": 4, "right": 4, "inferred": 0, "wrong": []}
    assert ada["supersession"].items() >= {"n": 1, "both_stored": 1, "right": 1}.items()
    assert ada["answers"]["all"] == {"n": 2, "right": 2}
    assert ada["answers"]["unanswerable"] == {"n": 1, "right": 1}
    assert ada["spent"]["writer"]["calls"] > 0
    assert ada["spent"]["answers"]["calls"] == 3
    assert "manager" not in ada["spent"], "what the recording says costs nothing"
    out = life.parent / "out"
    assert "| ada | 2 | 4 of 4 | 0 of 1 |" in (out / "results.md").read_text()
    played = Home(out / "ada" / "home")
    said = rows(
        played, "events", "SELECT direction, content, substr(occurred_at, 1, 16) FROM events ORDER BY seq"
    )
    assert said[:2] == [
        ("inbound", "My dentist is Dr. Moreau. The appointment is on 4 February.", "2026-01-10T09:00"),
        ("outbound", "Noted, 4 February.", "2026-01-10T09:00"),
    ]
    assert len(said) == 8, "questions are asked of copies"
    (dates,) = rows(played, "memory", "SELECT group_concat(substr(created_at, 1, 10)) FROM facts")
    assert dates == ("2026-01-10,2026-01-10,2026-01-20,2026-01-20",)


def test_a_bad_model_scores_low(home: Home, server: ModelServer, life: Path) -> None:
    script(server, BAD, WRONG)
    ada = evaluated(home, server, life)["lives"]["ada"]
    assert ada["extraction"]["must"] == {"n": 4, "stored": 0}
    assert ada["extraction"]["must_not"] == {"n": 1, "stored": 1}
    assert ada["supersession"]["right"] == 0
    assert ada["answers"]["all"] == {"n": 2, "right": 0}
    assert ada["answers"]["unanswerable"] == {"n": 1, "right": 0}


def test_a_killed_run_goes_on_and_plays_nothing_twice(home: Home, server: ModelServer, life: Path) -> None:
    script(server, GOOD, RIGHT)
    running = start(home, env(server), *command(life))
    kill_when(server, running, lambda: any("shellfish" in str(e.request.json) for e in server.exchanges))
    done = finish(home, env(server), *command(life))
    assert done.returncode == 0, done.stderr
    assert "session 1 of 2" not in done.stderr
    assert "4 of 4" in done.stdout
    played = Home(life.parent / "out" / "ada" / "home")
    (counts,) = rows(played, "events", "SELECT count(*), count(DISTINCT content) FROM events")
    assert counts == (8, 7), "two messages are acknowledged alike"
    back = "SELECT count(*) FROM executions AS a JOIN executions AS b ON a.rowid < b.rowid"
    assert rows(played, "runtime", f"{back} WHERE b.enqueued_at < a.enqueued_at") == [(0,)]
    asked = len(server.exchanges)
    again = finish(home, env(server), *command(life))
    assert "4 of 4" in again.stdout
    assert len(server.exchanges) == asked, "a finished run asks nothing more"


def test_a_run_can_be_short_and_be_extended(home: Home, server: ModelServer, life: Path) -> None:
    script(server, GOOD, RIGHT)
    short = evaluated(home, server, life, "--sessions", "1", "--limit", "0")["lives"]["ada"]
    assert (short["sessions"], short["answers"]["items"]) == (1, [])
    assert short["extraction"]["must"] == {"n": 2, "stored": 2}
    whole = evaluated(home, server, life)["lives"]["ada"]
    assert whole["extraction"]["must"] == {"n": 4, "stored": 4}


def test_a_judge_is_counted_beside_the_words(home: Home, server: ModelServer, life: Path) -> None:
    server.when(last_user="Which of the statements").always("They state [1].")
    server.when(last_user="Is the answer right?").always("No.")
    server.when(last_user="never told").always("Yes")
    script(server, GOOD, RIGHT)
    ada = evaluated(home, server, life, "--judge", "test/judge")["lives"]["ada"]
    assert ada["extraction"]["must"] == {"n": 4, "stored": 4, "judged": 2}
    assert ada["answers"]["all"] == {"n": 2, "right": 2, "judged": 0}
    assert ada["answers"]["unanswerable"] == {"n": 1, "right": 1, "judged": 1}
    assert ada["spent"]["judge"]["calls"] == 5


def test_lives_run_at_the_same_time_in_processes(home: Home, server: ModelServer, life: Path) -> None:
    script(server, GOOD, RIGHT)
    other = write_life(life.parent / "bea")
    found = evaluated(home, server, life, str(other), "--jobs", "2")
    assert list(found["lives"]) == ["ada", "bea"]
    assert found["total"]["extraction"]["must"] == {"n": 8, "stored": 8}
    assert found["total"]["answers"]["all"] == {"n": 4, "right": 4}


def test_a_life_is_checked(home: Home, life: Path) -> None:
    done = finish(home, environment(None), "eval", "check", str(life))
    assert done.stdout == "ada: 2 sessions, 6 messages, 4 facts, 3 questions, 5 statements for the writer\n"
    (life / "questions.jsonl").write_text('{"id": "q", "text": "?", "evidence": ["f9"], "kind": "direct"}\n')
    done = finish(home, environment(None), "eval", "check", str(life))
    assert (done.returncode, "ada: q: unknown fact f9" in done.stderr) == (1, True)
