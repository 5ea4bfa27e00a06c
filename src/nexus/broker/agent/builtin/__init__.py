"""A small language model that Nexus runs itself, for people without a key or a server of their own."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Final

from nexus.errors import ConfigError, ModelError, ModelFileError
from nexus.memory.embedding.catalogue import Build, File
from nexus.memory.embedding.files import check, pull_build, pulled_folder

__all__ = ["BUILTIN", "DEFAULT", "BuiltinModel", "is_installed", "weights"]
EXTRA: Final = "local"
_SUFFIX: Final = ".gguf"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltinModel:
    """A language model in one file."""

    name: str
    about: str
    licence: str
    build: Build

    def pull(
        self, *, endpoint: str | None = None, told: Callable[[int], None], folder: Path | None = None
    ) -> Path:
        """Download it and check it; a connection that drops is resumed. Blocking."""
        place = pull_build(self.name, self.build, folder or pulled_folder(), endpoint=endpoint, told=told)
        return place / self.build.weights.name


DEFAULT: Final = BuiltinModel(
    name="qwen2.5-1.5b-instruct",
    about="Small talk, short answers and simple tools, in 1.5 GB of memory.",
    licence="Apache-2.0",
    build=Build(
        weights=File(
            name="qwen2.5-1.5b-instruct-q4_k_m.gguf",
            sha256="6a1a2eb6d15622bf3c96857206351ba97e1af16c30d7a74ee38970e434e9407e",
            size_bytes=1_117_320_736,
            hub_path="qwen2.5-1.5b-instruct-q4_k_m.gguf",
        ),
        hub_repository="Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        hub_revision="91cad51170dc346986eccefdc2dd33a9da36ead9",
    ),
)
BUILTIN: Final = {DEFAULT.name: DEFAULT}


def is_installed() -> bool:
    """Whether the package that runs a model is there."""
    return util.find_spec("xllamacpp") is not None


def weights(name: str, folder: Path | None = None) -> Path:
    """The file of a model: one of those above, or the path of a GGUF file. Blocking: a hash is checked.

    An error says what to do where it can't be run.
    """
    if not is_installed():
        raise ConfigError(
            "The package for built-in models is not installed",
            hint=f"Run `pip install 'nexus-runtime[{EXTRA}]'`.",
        )
    if name.endswith(_SUFFIX):
        file = Path(name).expanduser()
        if not file.is_file():
            raise ConfigError(f"No model at {file}", hint="Fix its path in [models].")
        return file
    known = BUILTIN.get(name)
    if known is None:
        raise ConfigError(
            f"Unknown built-in model `{name}`",
            hint=f"Known: {', '.join(BUILTIN)}. The path of a GGUF file works too.",
        )
    file = (folder or pulled_folder()) / known.name / known.build.weights.name
    if not file.is_file():
        raise ModelFileError(f"The model {name} is not installed", hint=f"Run `nexus models pull {name}`.")
    check(file, known.build.weights)
    return file


CONTEXT_TOKENS: Final = 8_192
_START_S: Final = 300
_STOP_S: Final = 10


class ModelProcess:
    """One model's server. It is started again if it has died."""

    def __init__(self, name: str, find: Callable[[str], Path] = weights) -> None:
        self.name = name
        self._find = find
        self._process: Process | None = None
        self._address = ""
        self._starting = asyncio.Lock()

    async def address(self) -> str:
        """Where it serves, once it does."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            return self._address

    async def stop(self) -> None:
        """End it. It would end by itself with this process, too."""
        async with self._starting:
            process, self._process = self._process, None
            if process is None or process.returncode is not None:
                return
            assert process.stdin is not None  # noqa: S101 - an invariant, for the reader and the type checker
            process.stdin.close()
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def _start(self) -> None:
        file = await asyncio.to_thread(self._find, self.name)
        arguments = (str(Path(__file__).with_name("serve.py")), str(file), self.name, str(CONTEXT_TOKENS))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
        self._process = process
        assert process.stdout is not None  # noqa: S101 - an invariant, for the reader and the type checker
        try:
            async with asyncio.timeout(_START_S):
                line = await process.stdout.readline()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if not line:
            code = await process.wait()
            raise ModelError(
                f"The model {self.name} can't be loaded: its server exited with code {code}",
                hint="Check free memory, and the file with `nexus doctor`.",
            )
        self._address = line.decode().strip()
