"""A small process that runs every script in a fork of its own.

It has one thread and has loaded what scripts need, so that a fork is cheap and safe. What is asked comes
over a socket, one JSON object a line, with the script's three pipes beside it; how each script ended goes
back. When the socket closes, because the runtime ended in whatever way, all scripts end too.

A script's process adopts what it starts and loses; when it ends, those come here and are ended as well,
so that nothing of a script outlives it.
"""

import array
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from nexus.automations.scripts import child

_DEATH_SIGNAL, _SUBREAPER = 1, 36  # of prctl
_PIPES = 3
_MOST_DESCRIPTORS = 64  # that one message of the socket may bring
_OPEN_FILES = 1024
_NICENESS = 5


class Zygote:
    """Forks, kills and reaps."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, int] = {}  # jobs by process
        self._pending = b""
        self._descriptors: list[int] = []
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the runtime's to handle

    def serve(self) -> None:
        """Until the runtime is gone."""
        while True:
            readable, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in readable:
                os.read(self._woken, 512)
                self._reap()
            if self._control in readable and not self._read_requests():
                break
        for process in self._running:
            _kill_group(process)
        self._end_strays()

    def _read_requests(self) -> bool:
        """Do what is asked. False: nobody is there any more."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(65536, socket.CMSG_LEN(4 * _MOST_DESCRIPTORS))
        except OSError:
            return False
        for _, _, content in ancillary:
            received = array.array("i")
            received.frombytes(content[: len(content) - len(content) % received.itemsize])
            self._descriptors += received
        self._pending += data
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return bool(data)

    def _handle(self, asked: dict[str, Any]) -> None:
        if "kill" in asked:
            for process, job in self._running.items():
                if job == asked["kill"]:
                    _kill_group(process)
            return
        pipes, self._descriptors = self._descriptors[:_PIPES], self._descriptors[_PIPES:]
        process = os.fork()
        if process == 0:
            self._become_child(asked, pipes)
        for pipe in pipes:
            os.close(pipe)
        self._running[process] = asked["run"]

    def _become_child(self, asked: dict[str, Any], pipes: list[int]) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            self._control.close()
            os.setsid()
            _prctl(_DEATH_SIGNAL, signal.SIGKILL)
            _prctl(_SUBREAPER, 1)
            _set_limits(asked)
            os.environ.clear()
            os.environ.update(asked["environment"])
            with suppress(OSError):
                os.chdir(asked["directory"])
            child.run(asked["program"], asked["sandbox"], *pipes)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            job = self._running.pop(found.si_pid, None)
            if job is not None:
                # Before it is reaped its number cannot mean another process.
                _kill_group(found.si_pid)
            os.waitpid(found.si_pid, 0)
            if job is not None:
                self._end_strays()
                self._tell({"ended": job, "status": found.si_status, "signalled": _was_signalled(found)})

    def _end_strays(self) -> None:
        """What ended scripts left behind hangs below this process now."""
        with suppress(OSError):
            listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
            for process in map(int, listed.split()):
                if process not in self._running:
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

    def _tell(self, what: dict[str, Any]) -> None:
        with suppress(OSError):
            self._control.sendall(json.dumps(what).encode() + b"\n")


def _ignore_signal(number: int, frame: object) -> None:
    """The wake-up descriptor tells; without a handler it would not."""


def _was_signalled(found: Any) -> bool:
    return found.si_code != os.CLD_EXITED


def _kill_group(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it may not have become a group's leader yet
        os.kill(process, signal.SIGKILL)


def _set_limits(asked: dict[str, Any]) -> None:
    os.nice(_NICENESS)
    for kind, most in (
        (resource.RLIMIT_DATA, asked["memory_bytes"]),
        (resource.RLIMIT_CPU, asked["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, present = resource.getrlimit(kind)
        allowed = most if present == resource.RLIM_INFINITY else min(most, present)
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (allowed, allowed))


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere a script's group is still ended."""
    with suppress(AttributeError, OSError):
        _LIBC.prctl(option, value, 0, 0, 0)


_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    _prctl(_SUBREAPER, 1)
    zygote = Zygote(control)
    gc.collect()
    gc.freeze()
    control.sendall(b'{"ready": true}\n')
    zygote.serve()


if __name__ == "__main__":
    main()
