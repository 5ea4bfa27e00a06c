"""The program that the contract runs as many processes: it produces work, or serves it, and leaves evidence.

    python workload.py '{"role": "serve", "database": "…", "evidence": "…", …}'

Evidence is one line for each thing that happened, appended with a single write, so it survives kill -9.
`without` takes a protection away; the contract then has to notice.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from nexus.engine import Engine, Lane, Settings, WorkContext, dbos_runtime, owner, store
from nexus.engine import engine as engine_module
from nexus.engine.database import Database

_SIDE_BY_SIDE = 4
LANES = (Lane(name="chat", limit=16, priority=0), Lane(name="background", limit=8, priority=100))


class Evidence:
    """Appends what happens to a file of this process alone."""

    def __init__(self, folder: str) -> None:
        self._file = os.open(
            Path(folder, f"{os.getpid()}.jsonl"), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600
        )

    def note(self, what: str, **values: Any) -> None:
        line = {"ns": time.monotonic_ns(), "pid": os.getpid(), "what": what, **values}
        os.write(self._file, (json.dumps(line) + "\n").encode())


class Works:
    """The pieces of work that the contract runs."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    async def plain(self, context: WorkContext, payload: dict[str, Any]) -> None:
        """Begin, take a moment, end."""
        self._note("begin", context, payload)
        try:
            await asyncio.sleep(payload.get("ms", 0) / 1000)
            self._note("end", context, payload)
        finally:
            self._note("stopped", context, payload)

    async def steps(self, context: WorkContext, payload: dict[str, Any]) -> None:
        """Two recorded steps with a moment between."""
        self._note("begin", context, payload)
        try:
            for name in ("first", "second"):
                await context.step(name, self._step, context, payload, name)
                self._note("recorded", context, payload, step=name)
                await asyncio.sleep(payload.get("ms", 0) / 1000)
            self._note("end", context, payload)
        finally:
            self._note("stopped", context, payload)

    async def _step(self, context: WorkContext, payload: dict[str, Any], name: str) -> None:
        self._note("ran", context, payload, step=name)
        await asyncio.sleep(payload.get("step_ms", 0) / 1000)

    async def parallel(self, context: WorkContext, payload: dict[str, Any]) -> None:
        """Steps of one name side by side, of which the last to start is the first to end."""
        self._note("begin", context, payload)

        async def one(number: int) -> int:
            result = await context.step("call", self._call, context, payload, number)
            self._note("recorded", context, payload, step=f"call-{number}")
            return result

        try:
            results = await asyncio.gather(*[one(number) for number in range(_SIDE_BY_SIDE)])
            self._note("end", context, payload, results=results)
        finally:
            self._note("stopped", context, payload)

    async def _call(self, context: WorkContext, payload: dict[str, Any], number: int) -> int:
        self._note("ran", context, payload, step=f"call-{number}")
        await asyncio.sleep((_SIDE_BY_SIDE - number) * payload["step_ms"] / 1000)
        return number

    async def stubborn(self, context: WorkContext, payload: dict[str, Any]) -> None:
        """Takes its time to stop when it is cancelled."""
        self._note("begin", context, payload)
        try:
            await asyncio.sleep(payload["ms"] / 1000)
            self._note("end", context, payload)
        finally:
            await asyncio.sleep(payload.get("cleanup_ms", 0) / 1000)
            self._note("stopped", context, payload)

    def _note(self, what: str, context: WorkContext, payload: dict[str, Any], **more: Any) -> None:
        self._evidence.note(
            what, id=context.id, key=context.key, producer=payload["producer"], seq=payload["seq"], **more
        )


def engine(config: dict[str, Any], evidence: Evidence) -> Engine:
    """An engine with the contract's works."""
    database = config["database"]
    made = Engine(
        Settings(
            database=database if database.startswith("postgres") else Path(database),
            lanes=LANES,
            host_limit=20,
            lease_ms=config.get("lease_ms", 2_000),
            poll_ms=config.get("poll_ms", 500),
        )
    )
    works = Works(evidence)
    for work in (works.plain, works.steps, works.parallel, works.stubborn):
        made.register(work.__name__, work)
    return made


async def serve(config: dict[str, Any], evidence: Evidence) -> None:
    """Run work until told to stop."""
    made = engine(config, evidence)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await made.open()
    evidence.note("serving")
    await stop.wait()
    await made.close()


async def produce(config: dict[str, Any], evidence: Evidence) -> None:
    """Start executions over some keys; note each once it is acknowledged."""
    made = engine(config, evidence)
    await made.open(serve=False)
    chance = random.Random(config["producer"])
    together = config.get("together", 20)
    evidence.note("producing")
    for first in range(0, config["count"], together):
        numbers = range(first, min(first + together, config["count"]))
        await asyncio.gather(*[_start(made, config, evidence, number, chance) for number in numbers])
        await asyncio.sleep(config.get("pause_ms", 0) / 1000)
    await made.close()


async def both(config: dict[str, Any], evidence: Evidence) -> None:
    """Start and run work in one process, until it is killed."""
    made = engine(config, evidence)
    await made.open()
    evidence.note("serving")
    chance = random.Random(config["producer"])
    for number in itertools.count():
        await _start(made, config, evidence, number, chance)


async def _start(
    made: Engine, config: dict[str, Any], evidence: Evidence, number: int, chance: random.Random
) -> None:
    key = f"session-{chance.randrange(config['keys'])}"
    payload = {**config.get("payload", {}), "producer": config["producer"], "seq": number}
    handle = await made.start(config["work"], payload, key=key, lane="chat")
    evidence.note("acknowledged", id=handle.id, key=key, producer=config["producer"], seq=number)


def take_away(protection: str) -> None:
    """Remove one protection, to show that the contract notices."""
    {
        "one owner": _without_one_owner,
        "order of recording": _without_order_of_recording,
        "takeover": _without_takeover,
        "order of starting steps": _without_step_order,
        "commit before acknowledging": _without_commit,
    }[protection]()


def _without_one_owner() -> None:
    """Whoever comes takes the work, also of one that lives."""
    owner._lock = lambda descriptor: True  # pyright: ignore[reportPrivateUsage]


def _without_order_of_recording() -> None:
    """All that waits was recorded in the same moment, and ids are by chance."""
    store.new_id = lambda: f"exe_{uuid.uuid4()}"
    real = store.insert

    def insert(database: Database, connection: Any, executions: Any) -> None:
        real(database, connection, executions)
        connection.execute(
            database.sql("UPDATE {t}workflow_status SET created_at = 1 WHERE status = 'ENQUEUED'")
        )

    store.insert = insert


def _without_takeover() -> None:
    store.take_over = lambda database, version, most_crashes: (0, 0)


def _without_step_order() -> None:
    """Of steps side by side the last one is numbered first."""
    real = dbos_runtime.step
    begun = itertools.count()

    async def late(*arguments: Any) -> Any:
        await asyncio.sleep((_SIDE_BY_SIDE - next(begun) % _SIDE_BY_SIDE) * 0.02)
        return await real(*arguments)

    dbos_runtime.step = late


def _without_commit() -> None:
    real = engine_module.Enqueuer.add

    async def early(self: engine_module.Enqueuer, execution: Any) -> None:
        asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(real(self, execution)))

    engine_module.Enqueuer.add = early


def main() -> None:
    config = json.loads(sys.argv[1])
    for protection in config.get("without", []):
        take_away(protection)
    evidence = Evidence(config["evidence"])
    asyncio.run({"serve": serve, "produce": produce, "both": both}[config["role"]](config, evidence))


if __name__ == "__main__":
    main()
