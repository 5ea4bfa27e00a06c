"""The program that the contract of the session queue runs again and again on one home, and kills.

    python sessions.py '{"role": "talk", "home": "…", "database": "…", "evidence": "…", "die": "hand over"}'

It recovers what the last one left, then asks for runs until it dies; as `finish` it only recovers and
waits. `die` names a moment between two records, where it kills itself after a few runs.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from contract.workload import Evidence, take_away
from nexus.broker.queue import ActiveRun, SessionQueue
from nexus.config import LedgersConfig
from nexus.engine import Engine, Settings, StartedExecution, WorkContext
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.ledgers.runtime import executions

_SESSIONS = 4
_RUNS_BEFORE_DEATH = 5


class Death:
    """Kills this process the n-th time that a moment comes."""

    def __init__(self, moment: str | None) -> None:
        self._moment = moment
        self._left = _RUNS_BEFORE_DEATH

    def at(self, moment: str) -> None:
        if moment == self._moment:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class MortalEngine(Engine):
    """May die when a run stands in the ledger and the engine does not know it yet."""

    death: Death

    async def start(self, work: str, payload: Any, **options: Any) -> StartedExecution:
        self.death.at("hand over")
        return await super().start(work, payload, **options)


class MortalQueue(SessionQueue):
    """May die when an end stands in the ledger and the engine does not know it yet."""

    death: Death

    async def _execute(self, context: WorkContext, payload: Any) -> None:
        await super()._execute(context, payload)
        self.death.at("end")


class Talk:
    """The runs: each takes two recorded steps."""

    def __init__(self, evidence: Evidence, death: Death) -> None:
        self._evidence = evidence
        self._death = death

    async def __call__(self, turn: ActiveRun) -> dict[str, Any]:
        self._note("begin", turn)
        try:
            for name in ("first", "second"):
                await turn.steps.run(name, self._step, turn, name)
                self._note("recorded", turn, step=name)
                self._death.at("step")
            return {"said": [each.input for each in (turn.execution, *turn.collected)]}
        finally:
            self._note("stopped", turn)

    async def _step(self, turn: ActiveRun, name: str) -> None:
        self._note("ran", turn, step=name)
        await asyncio.sleep(0.02)

    def _note(self, what: str, turn: ActiveRun, **more: Any) -> None:
        run = turn.execution
        self._evidence.note(what, id=run.id, key=run.session_label, producer=0, seq=run.input, **more)


async def talk(queue: SessionQueue, evidence: Evidence) -> None:
    """Ask for runs without end; note each once it is acknowledged."""
    for _ in itertools.count():
        label = f"chat:{random.randrange(_SESSIONS)}"
        seq = time.monotonic_ns()
        handle = await queue.start_execution("talk", seq, session_label=label, request_id="req_1")
        evidence.note("acknowledged", id=handle.id, key=label, producer=0, seq=seq)


async def finish(queue: SessionQueue, ledgers: Ledgers) -> None:
    """Wait until everything that was asked for has ended."""
    for execution_id in await ledgers.runtime.read(executions.list_unfinished):
        await queue.run(execution_id).result()


async def main(config: dict[str, Any]) -> None:
    evidence, death = Evidence(config["evidence"]), Death(config.get("die"))
    async with Ledgers(Home(Path(config["home"])), LedgersConfig()) as ledgers:
        engine = MortalEngine(Settings(database=Path(config["database"]), lease_ms=config["lease_ms"]))
        engine.death = MortalQueue.death = death
        queue = MortalQueue(engine, ledgers)
        queue.register("talk", Talk(evidence, death))
        await engine.open()
        if "recovery" not in config["without"]:
            await queue.hand_over_missing()
        evidence.note("serving")
        await (talk(queue, evidence) if config["role"] == "talk" else finish(queue, ledgers))
        await engine.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    for protection in set(given["without"]) - {"recovery"}:
        take_away(protection)
    asyncio.run(main(given))
