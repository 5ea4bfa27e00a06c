"""How soon a message reaches a local model that the memory writer uses too.

    python bench/yielding.py MODEL.gguf [--quiet-ms 60000]

It serves the file with llama.cpp (`pip install xllamacpp`, one slot), sends five messages to a new home, each
right after the answer to the one before, and prints how long each took to reach the model. Then it waits
until the memory writer has read all of them.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from local_model import served

from nexus.app import App
from nexus.config import AgentsConfig, Config, EngineConfig, ModelsConfig, ProviderConfig
from nexus.home import Home
from nexus.ledgers import Database

_MESSAGES = (
    "My dog's name is Pixel.",
    "My sister Clara moved to Bern in May.",
    "What is my dog's name?",
    "I work as a nurse at the Inselspital.",
    "Where does Clara live?",
)
_OPEN = """SELECT (SELECT count(*) FROM invocations WHERE status IN ('queued', 'running'))
    + (SELECT count(*) FROM executions WHERE status IN ('queued', 'running'))"""


async def talk(url: str, place: Path, quiet_ms: int) -> None:
    home = Home(place / "home")
    home.create()
    config = Config(
        engine=EngineConfig(lease_ms=60_000),
        models=ModelsConfig(manager=("local/local",), writer=("local/local",)),
        providers={"local": ProviderConfig(base_url=url)},
        agents=AgentsConfig(quiet_ms=quiet_ms, output_tokens=60),
    )
    config = replace(config, memory=replace(config.memory, consolidation=False))
    async with App(home, config) as app:
        # `nexus up` and `nexus chat` do the same before anybody can write. It imports the provider's library.
        await app.broker.check_models("manager")
        print("| message | reached the model after | answered after | status shown meanwhile | answer |")
        print("|---|---|---|---|---|")
        for text in _MESSAGES:
            began, reached, shown = time.perf_counter(), 0.0, list[str]()
            run = await app.send(text)
            async for delta in run.deltas():
                if delta.kind == "status":
                    shown.append(delta.doing)
                    reached = time.perf_counter() - began
            answer = " ".join((await run.result()).response.content.split())[:100]
            took = time.perf_counter() - began
            print(f"| {text} | {reached:.2f} s | {took:.1f} s | {'; '.join(shown)} | {answer} |", flush=True)
        began = time.perf_counter()
        while (await _value(app.ledgers.runtime, _OPEN))[0]:  # noqa: ASYNC110 - a ledger wakes nobody
            await asyncio.sleep(1)
        waited = time.perf_counter() - began
        facts = await _value(app.ledgers.memory, "SELECT count(*) FROM facts")
        failed = await _value(app.ledgers.runtime, "SELECT count(*) FROM invocations WHERE status = 'failed'")
        print(f"The writer had caught up {waited:.0f} s later: {facts[0]} facts, {failed[0]} failed runs.")


async def _value(database: Database, query: str) -> tuple[int]:
    return cast("tuple[int]", await database.read(lambda c: c.execute(query).fetchone()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--quiet-ms", type=int, default=AgentsConfig.quiet_ms)
    given = parser.parse_args()
    with served(given.model, 8_192) as url, tempfile.TemporaryDirectory() as place:
        asyncio.run(talk(url, Path(place), given.quiet_ms))


if __name__ == "__main__":
    main()
