"""Start the program from a process that has its libraries already: importing them takes most of a start.

That process forks, and the copy becomes the program, with its own streams, environment and signals. It then
does what the installed program does.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARIES = (
    "nexus.cli.run",
    "nexus.cli.up",
    "nexus.cli.up_running",
    "nexus.cli.talk_here",
    "nexus.cli.host_running",
    "dbos",
)
_MESSAGE_BYTES = 1 << 17


class Program(subprocess.Popen[str]):
    """`nexus` with some words, like the Popen of the installed program."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> None:
        self._ended, self._reported = os.pipe()
        super().__init__(["nexus", *words], env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=True)

    def _execute_child(self, args: list[str], *options: Any) -> None:
        """Take the place of fork and exec. Ten options come first, then both ends of each stream."""
        env: Mapping[str, str] | None = options[5]
        pipes: tuple[int, ...] = options[9:15]
        streams = [own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "words": args[1:],
            "env": dict(os.environ if env is None else env),
            "folder": str(Path.cwd()),
        }
        try:
            self.pid = _starter().start(request, [*streams, self._reported])
        finally:
            os.close(self._reported)
            getattr(self, "_close_pipe_fds")(*pipes)  # noqa: B009 - it is private to Popen
        self._child_created = True

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._wait(0)
        return None

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            # Nothing is reported if the starting process itself was killed.
            self.returncode = int(os.read(self._ended, 64) or b"1")
            os.close(self._ended)
        return self.returncode


class _Starter:
    """The process that starts programs, for one process that runs tests."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def start(self, request: dict[str, Any], descriptors: list[int]) -> int:
        with self._turn:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            return int(self._channel.recv(64))

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def _starter() -> _Starter:
    made = _Starter()
    atexit.register(made.close)
    return made


def close() -> None:
    """End the process that starts programs, and whatever it started that still runs."""
    if _starter.cache_info().currsize:
        _starter().close()


def _serve(channel: socket.socket) -> list[str] | None:
    """Start what is asked for. Returns the words of the program in a process that shall be it."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), *running], [], [])
        for each in running.keys() & ready:
            pid, reported = running.pop(each)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with suppress(BrokenPipeError):
                os.write(reported, str(code).encode())
            os.close(reported)
            os.close(each)
        if channel.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 4)
        if not message:
            for pid, _ in running.values():
                os.kill(pid, signal.SIGKILL)
            return None
        *streams, reported = descriptors
        if (pid := os.fork()) == 0:
            for own, given in enumerate(streams):
                os.dup2(given, own)
            for each in [*descriptors, *running, *(other for _, other in running.values())]:
                os.close(each)
            channel.close()
            return _prepare(**json.loads(message))
        running[os.pidfd_open(pid)] = (pid, reported)
        for each in streams:
            os.close(each)
        channel.send(str(pid).encode())


def _prepare(words: list[str], env: dict[str, str], folder: str) -> list[str]:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115 - they stay
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    return words


def _main() -> None:
    from nexus.cli import main

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the program does before it imports
    gc.disable()
    for name in _LIBRARIES:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    words = _serve(socket.socket(fileno=int(sys.argv[1])))
    if words is not None:
        program = Path(sys.executable).with_name("nexus")
        sys.argv, sys.path[0] = [str(program), *words], str(program.parent)
        main()


if __name__ == "__main__":
    _main()
