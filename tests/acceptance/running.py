"""A home that really runs: `nexus up` in a process of its own, and a workspace with the memory skill."""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acceptance.program import start_program
from nexus.home import Home
from nexus.skills import memory
from nexus.skills.memory_socket import OWNER


class Served:
    """`nexus up` on a home, ready to answer."""

    def __init__(self, home: Home, env: dict[str, str] | None = None, *arguments: str) -> None:
        words = ("--home", str(home.root), "up", "--json", *arguments)
        self._process = start_program(*words, env=os.environ if env is None else env, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"nexus up ended with {self._process.wait(30)}"
        self.told: dict[str, Any] = json.loads(line)

    @property
    def url(self) -> str:
        return self.told["url"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """As a service manager does it; returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._ended()

    def _ended(self) -> int:
        try:
            return self._process.wait(60)
        finally:
            if self._process.poll() is None:
                self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()


@contextmanager
def serving(home: Home, env: dict[str, str] | None = None, *arguments: str) -> Generator[Served]:
    """The home runs while the context lasts."""
    served = Served(home, env, *arguments)
    try:
        yield served
    finally:
        assert served.stop() == 0


class Workspace:
    """A folder with the skill, and how an agent runs its scripts."""

    def __init__(self, home: Home, folder: Path, socket_folder: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.folder = folder
        self.skill = memory.install(home, folder, socket_folder or home.run / OWNER).folder

    def run(
        self, script: str, *arguments: str, stdin: str = "", path: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": path or os.environ["PATH"]}
        command = [str(self.skill / script), *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, env=environment
        )

    def write(self, *arguments: str, stdin: str = "") -> dict[str, Any]:
        """What memory-write.sh answers."""
        done = self.run("memory-write.sh", *arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, ""), done
        return json.loads(done.stdout)

    def typed(self, line: str) -> subprocess.CompletedProcess[str]:
        """What comes of a line typed in the skill's folder, whose scripts are on the PATH."""
        environment = {**os.environ, "PATH": f"{self.skill}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", "-c", line], cwd=self.skill, capture_output=True, text=True, timeout=120, env=environment
        )

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows that the plain sqlite3 program gives, found as SCHEMA.md says."""
        line = """sqlite3 -bail -json -init "$(sed -n 's/^attach=//p' DB_PATHS)" :memory: "$STATEMENT" 2>&1"""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.skill,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "STATEMENT": statement},
        )
        assert done.returncode == 0, done.stdout
        return json.loads(done.stdout) if done.stdout.strip() else []
