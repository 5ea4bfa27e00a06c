"""Where a storm takes place: a home, the program that serves it, and what can be done to both."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

import clocks
from contract.postgres import Postgres
from nexus import config
from nexus.engine import Settings, records
from nexus.home import Home
from nexus.testing import ModelServer
from ports import free_port

LEASE_MS = 3_000
_NEXUS = Path(sys.executable).with_name("nexus")
_SECOND = Path(__file__).with_name("second.py")
_DISK_BYTES = 1024**3
# A loaded machine may take that long to start the program.
_PATIENCE_S = 600.0
_STARTS = 3

_NOTER = "def run(ctx):\n    return None\n"
_TICKER = 'def run(ctx):\n    return {"response": "TICK"}\n'


def no_clock() -> str | None:
    """Why the clock can't be set, or None."""
    return None if clocks.FAKETIME.is_file() else "libfaketime is not installed (Debian: faketime)"


def no_disk() -> str | None:
    """Why no small disk can be made, or None."""
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    return None if shutil.which("mount") else "there is no mount program"


class Place:
    """The home of a storm and its program."""

    def __init__(self, folder: Path, server: ModelServer, postgres: Postgres | None, older: str = "") -> None:
        """`older` is the folder of an older version's sources, which serves the home until it is upgraded."""
        self.folder = folder
        self.server = server
        self.postgres = postgres
        self._disk = folder / "disk"
        self._disk.mkdir()
        self._has_disk = no_disk() is None and self._mount()
        self.home = Home(self._disk / "home")
        self.effects = folder / "effects"
        self.effects.mkdir()
        self._port = free_port()
        self._environment = self._variables(server)
        self.is_older = bool(older)
        if older:
            self._environment["PYTHONPATH"] = older
        self._process: subprocess.Popen[bytes] | None = None
        self._seconds: list[subprocess.Popen[bytes]] = []
        self._clock: clocks.WrongClock | None = None
        self._is_off = False
        self.starts_s: list[float] = []
        self._begin()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        return self.home.token_file.read_text().strip()

    @property
    def settings(self) -> Settings:
        loaded = config.load(self.home.config_file, self._environment)
        return Settings.of_home(self.home, loaded.engine)

    def start(self, off_by_s: float = 0.0) -> None:
        """Serve the home; returns when it answers. Its clock may be wrong."""
        began = time.monotonic()
        for attempt in range(_STARTS):
            if self._started(off_by_s):
                break
            # As a service manager does. A slow machine may let Postgres end a start in the middle.
            assert attempt < _STARTS - 1, f"nexus up does not start: {self._said()}"
        self.starts_s.append(time.monotonic() - began)

    def _started(self, off_by_s: float) -> bool:
        environment, self._clock = self._environment, None
        if off_by_s:
            self._clock = clocks.WrongClock(self.folder)
            self._clock.be_off_by(off_by_s)
            environment = {**environment, **self._clock.variables}
            if older := self._environment.get("PYTHONPATH"):
                environment["PYTHONPATH"] += os.pathsep + older
        self._is_off = bool(off_by_s)
        with (self.folder / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                [str(_NEXUS), "--home", str(self.home.root), "up", "--json", "--port", str(self._port)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        return self._awaited()

    def await_service(self) -> None:
        """Wait until the program answers and works."""
        assert self._awaited(), f"nexus up ended: {self._said()}"

    def _awaited(self) -> bool:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._is_served():
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise AssertionError(f"nexus up did not serve within {_PATIENCE_S} s")
            time.sleep(0.1)
        return True

    def _said(self) -> str:
        return (self.folder / "stderr").read_text()[-2_000:]

    def set_clock_right(self) -> None:
        """Put the clock of the running program right."""
        assert self._clock is not None
        self._clock.be_off_by(0)
        # It looks at the file once in a second.
        time.sleep(2)
        self._is_off = False

    def upgrade(self) -> None:
        """Serve the home with this version from the next start on."""
        del self._environment["PYTHONPATH"]
        self.is_older = False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_PATIENCE_S)

    def freeze(self, seconds: float, *, second: bool) -> None:
        """Stop the program for a while; with `second`, another process stands by meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        helper = self._start_second() if second else None
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        self._process.send_signal(signal.SIGCONT)
        if helper is not None:
            time.sleep(1)
            helper.send_signal(signal.SIGTERM)
            helper.wait(_PATIENCE_S)

    def fill_disk(self) -> None:
        """Leave no room on the disk of the home."""
        with (self._disk / "ballast").open("wb") as ballast:
            size = 0
            # In smaller and smaller pieces, because the program writes meanwhile.
            for piece in (_DISK_BYTES // 16, _DISK_BYTES // 512, 4096):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(ballast.fileno(), size, piece)
                        size += piece

    def empty_disk(self) -> None:
        (self._disk / "ballast").unlink(missing_ok=True)

    def doctor(self) -> dict[str, Any]:
        """What `nexus doctor --deep` says."""
        return json.loads(self._run("doctor", "--deep", "--json", check=False))

    def keep(self) -> Path:
        """Copy the home from the disk, which goes with the storm."""
        kept = self.folder / "kept"
        shutil.copytree(self.home.root, kept, ignore=shutil.ignore_patterns("*.sock"), dirs_exist_ok=True)
        return kept

    def close(self) -> None:
        """End every process, and give the disk back."""
        for process in filter(None, [self._process, *self._seconds]):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        if self._has_disk:
            subprocess.run(["umount", "--lazy", str(self._disk)], check=False)

    def _begin(self) -> None:
        self._run("init")
        scripts = self.folder / "scripts"
        scripts.mkdir()
        for name, text in (("noter", _NOTER), ("ticker", _TICKER)):
            (scripts / f"{name}.py").write_text(text)
        noter, ticker = str(scripts / "noter.py"), str(scripts / "ticker.py")
        self._run("automations", "register", noter, "--async", "--hook-point", "after:runAgent")
        self._run("automations", "register", ticker, "--schedule", "* * * * *")

    def _run(self, *arguments: str, check: bool = True) -> str:
        command = [str(_NEXUS), "--home", str(self.home.root), *arguments]
        ended = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=_PATIENCE_S
        )
        assert not check or ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def _is_served(self) -> bool:
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            answer = httpx.get(f"{self.url}/api/home", headers=headers, timeout=5)
        except (httpx.HTTPError, OSError):
            return False
        # Older versions say otherwise who does the work.
        if not answer.is_success or self._is_off or self.is_older:
            return answer.is_success
        with records.look(self.settings) as engine:
            return engine is not None and engine.is_served

    def _start_second(self) -> subprocess.Popen[bytes]:
        with (self.folder / "stderr").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, str(_SECOND), str(self.home.root)],
                env=self._environment,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self._seconds.append(process)
        return process

    def _mount(self) -> bool:
        options = f"size={_DISK_BYTES},mode=755"
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._disk)],
            capture_output=True,
            check=False,
        )
        return made.returncode == 0

    def _variables(self, server: ModelServer) -> dict[str, str]:
        bare = {
            name: value
            for name, value in os.environ.items()
            if not name.endswith(("_API_KEY", "_BASE_URL"))
            and not name.startswith("NEXUS_")
            # An installed program has its bytecode; compiling it takes longer than starting.
            and name != "PYTHONDONTWRITEBYTECODE"
        }
        return {
            **bare,
            "NEXUS_MODELS_MANAGER": "test/manager",
            "NEXUS_MODELS_WORKER": "test/worker",
            "NEXUS_MODELS_WRITER": "test/writer",
            "NEXUS_MEMORY_CONSOLIDATION": "false",
            # Loading the embedding model would take most of each start; the memory is asked by words alone.
            "NEXUS_MEMORY_EMBEDDING_MODEL_PATH": str(self.folder / "no-model"),
            "NEXUS_PROVIDERS_TEST_KIND": "anthropic",
            "NEXUS_PROVIDERS_TEST_BASE_URL": server.url,
            "NEXUS_TOOLS_DIRECTORIES": f"{self.effects}:rw",
            "NEXUS_ENGINE_LEASE_MS": str(LEASE_MS),
            **({} if self.postgres is None else {"NEXUS_ENGINE_DATABASE": self.postgres.new_database()}),
        }

    @property
    def has_disk(self) -> bool:
        return self._has_disk
