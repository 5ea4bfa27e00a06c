"""A home that is killed while vectors are being made has every one of them afterwards, and none twice.

NEXUS_LONG=1 kills it more often.
"""

import json
import random
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from acceptance.program import nexus
from acceptance.running import Served, Workspace, serving
from long_form import times
from nexus.home import Home

_KILLS = times(3, long=10)
_FACTS = 600

_MISSING = """SELECT count(*) AS n FROM facts WHERE id NOT IN
  (SELECT target_id FROM embeddings WHERE target_type = 'fact')"""
_FACTS_AND_VECTORS = """SELECT (SELECT count(*) FROM facts),
  (SELECT count(*) FROM made.embeddings WHERE target_type = 'fact')"""
_VECTORS = (
    "SELECT count(*) AS n, count(DISTINCT target_id) AS things FROM embeddings WHERE target_type = 'fact'"
)


@pytest.fixture
def workspace(home: Home, tmp_path: Path) -> Workspace:
    return Workspace(home, tmp_path / "workspace")


def batch(workspace: Workspace, number: int) -> subprocess.Popen[str]:
    """A batch on its way: the kill may come before, while or after it is written."""
    lines = "\n".join(
        json.dumps({"operation": "fact", "fact": f"in batch {number} fact {n} is told"})
        for n in range(_FACTS)
    )
    process = subprocess.Popen(
        [str(workspace.skill / "memory-write.sh"), "batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.close()
    process.stdin = None
    return process


def await_work(home: Home, vectors: int) -> bool:
    """Wait for facts without a vector and that many more vectors; say whether some are still to be made."""
    with closing(sqlite3.connect(f"file:{home.ledger('memory')}?mode=ro", uri=True)) as connection:
        connection.execute("ATTACH ? AS made", (f"file:{home.data / 'embeddings.db'}?mode=ro",))
        _, before = connection.execute(_FACTS_AND_VECTORS).fetchone()
        made = before
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            facts, made = connection.execute(_FACTS_AND_VECTORS).fetchone()
            if made - before >= vectors and facts > made:
                return True
            if facts == made and made > before:
                return False
            time.sleep(0.005)
    raise AssertionError(f"{made - before} of {vectors} vectors were made in two minutes")


def test_after_kills_every_fact_has_its_vector_once(home: Home, workspace: Workspace) -> None:
    acknowledged: list[str] = []
    unfinished = 0
    for number in range(_KILLS):
        served = Served(home)
        writing = batch(workspace, number)
        if number:
            unfinished += int(await_work(home, random.randint(1, _FACTS // 3)))
        else:
            time.sleep(random.uniform(0.05, 0.5))  # about where the batch is written
        served.kill()
        answer, _ = writing.communicate(timeout=60)
        if writing.returncode == 0:
            acknowledged += [result["id"] for result in json.loads(answer)["results"]]
    assert unfinished, "no kill came while work was outstanding"

    with serving(home):
        deadline = time.monotonic() + 240
        while workspace.sql(_MISSING)[0]["n"] and time.monotonic() < deadline:
            time.sleep(0.2)

    facts = {row["id"] for row in workspace.sql("SELECT id FROM facts")}
    assert set(acknowledged) <= facts
    (vectors,) = workspace.sql(_VECTORS)
    assert vectors["n"] == vectors["things"] == len(facts)
    told = json.loads(nexus(home.root, "memory", "embeddings", "--json").stdout)
    assert (told["depth"], told["lag_ms"]) == (0, 0)
