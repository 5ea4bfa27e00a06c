"""Killed while it writes its memory, a home has every batch whole or not at all, and no loose ends."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw

from acceptance.remembering import FACTS
from long_form import times
from new_homes import new_home
from nexus.home import Home

_KILLS = times(3, long=6)


def _killed(home: Home, name: str, seconds: float) -> list[str]:
    """What the program had acknowledged when it was killed."""
    command = [sys.executable, str(Path(__file__).with_name("remembering.py")), str(home.root), name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    try:
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
    return (first + rest).decode().split()


def test_batches_are_whole_and_every_reference_leads_somewhere(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    draw = random.Random(7)
    told = [key for kill in range(_KILLS) for key in _killed(home, f"k{kill}x", draw.uniform(0, 0.5))]

    connection = apsw.Connection(str(home.ledger("memory")))
    connection.execute("ATTACH DATABASE ? AS identity", (str(home.ledger("identity")),))

    def count_of(query: str) -> object:
        return connection.execute(f"SELECT count(*) FROM {query}").get

    counts = {
        str(entity): count
        for entity, count in connection.execute("SELECT source_entity_id, count(*) FROM facts GROUP BY 1")
    }
    assert set(told) <= counts.keys()
    assert set(counts.values()) == {FACTS}
    assert count_of("facts WHERE source_entity_id NOT IN (SELECT id FROM entities)") == 0
    assert count_of("entities WHERE id NOT IN (SELECT entity_id FROM entity_aliases)") == 0
    explained = "SELECT source_entity_id, target_entity_id FROM entity_merge_events"
    assert count_of(f"entities WHERE merged_into IS NOT NULL AND (id, merged_into) NOT IN ({explained})") == 0
    connection.close()
