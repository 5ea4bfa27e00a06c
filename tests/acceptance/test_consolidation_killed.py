"""Killed between the model's answer and its recording, consolidation pays nothing twice and loses nothing."""

import json

import apsw

from acceptance.agents import PATIENCE_MS, PATIENCE_S, environment, finish, rows, start
from nexus.home import Home
from nexus.testing import Hold, ModelServer, Turn

ANSWER = json.dumps({"observations": [{"text": "Tyler likes tea and sings.", "facts": [1, 2]}]})
_ANSWERED = "SELECT count(*) FROM executions WHERE work = 'agent' AND status = 'done'"


def _learn(home: Home, env: dict[str, str]) -> None:
    facts = [{"operation": "fact", "about": "ent_tyler", "fact": text} for text in ("likes tea", "sings")]
    who = {"operation": "entity", "id": "ent_tyler", "name": "Tyler", "type": "Person"}
    written = finish(home, env, "memory", "write", "batch", stdin=json.dumps([who, *facts]))
    assert written.returncode == 0, written.stderr


def test_an_answer_that_was_given_before_the_kill_is_recorded_after_it(
    home: Home, server: ModelServer
) -> None:
    server.script(Turn(ANSWER, faults=[Hold(gate="answer")]))
    env = environment(server, NEXUS_MODELS_CONSOLIDATION="test/large")
    _learn(home, env)
    blocker = apsw.Connection(str(home.ledger("memory")))
    blocker.set_busy_timeout(30_000)
    process = start(home, env, "memory", "consolidate")
    try:
        server.wait_until(lambda: server.exchanges, PATIENCE_MS)
        # Nothing can be recorded in the memory from here on; everything else goes its way.
        blocker.execute("BEGIN IMMEDIATE")
        server.gate("answer").open()
        server.wait_until(lambda: rows(home, "runtime", _ANSWERED) == [(1,)], PATIENCE_MS)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
        blocker.close()
    assert rows(home, "memory", "SELECT count(*) FROM observations") == [(0,)]

    done = finish(home, env, "memory", "consolidate", "--json")
    assert done.returncode == 0, done.stderr
    assert len(server.exchanges) == 1
    server.assert_exhausted()
    found = rows(home, "memory", "SELECT content, version FROM observations")
    assert found == [("Tyler likes tea and sings.", 1)]
    assert rows(home, "memory", "SELECT count(*) FROM observation_facts") == [(2,)]
    log = rows(home, "memory", "SELECT status FROM processing_log WHERE processor = 'consolidation'")
    assert log == [("done",), ("done",)]
