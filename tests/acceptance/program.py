"""The real `nexus` program, the way a person uses it."""

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from nexus.cli import main
from program_starter import Program

NEXUS = Path(sys.executable).with_name("nexus")
_PATIENCE_S = 120
# Commands that run until they are stopped, or whose place another program takes.
_OWN_PROCESS = {"up", "mcp", "sql", "acp"}
# Variables that count when Python starts.
_AT_THE_START = ("LD_PRELOAD", "PYTHONPATH")


def nexus(home: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one command on a home and return what it printed and its exit code."""
    return typed("--home", str(home), *arguments, stdin=stdin)


def typed(
    *words: str, stdin: str = "", env: Mapping[str, str] = os.environ, together: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command by its words, in this process if it can: starting Python takes longer than most of them.

    A process is started for what needs its own, and where an event loop runs already. `together`: standard
    error goes where the rest does.
    """
    if _needs_a_process(words) or _needs_python(env) or not _is_free():
        pipe = subprocess.PIPE
        errors = subprocess.STDOUT if together else pipe
        with start_program(*words, env=env, stdin=pipe, stdout=pipe, stderr=errors) as process:
            try:
                out, err = process.communicate(stdin, timeout=_PATIENCE_S)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)
    out = _stream()
    err = out if together else _stream()
    with (
        patch.dict(os.environ, env, clear=True),
        patch.multiple(sys, argv=["nexus", *words], stdin=_stream(stdin), stdout=out, stderr=err),
    ):
        code = _exit_code()
    return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def start_program(
    *words: str,
    env: Mapping[str, str] = os.environ,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[str]:
    """Start a command by its words, in a process of its own."""
    if _needs_python(env):
        command = [str(NEXUS), *words]
        return subprocess.Popen(command, env=env, stdin=stdin, stdout=stdout, stderr=stderr, text=True)
    return Program(words, env=env, stdin=stdin, stdout=stdout, stderr=stderr)


def _needs_a_process(words: tuple[str, ...]) -> bool:
    command = words[2:] if words[:1] == ("--home",) else words
    return bool(set(command[:1]) & _OWN_PROCESS) or command[:2] == ("host", "serve")


def _needs_python(env: Mapping[str, str]) -> bool:
    return any(env.get(name) != os.environ.get(name) for name in _AT_THE_START)


def _is_free() -> bool:
    """Whether a command may have its own event loop here, and the signals."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return False
    return threading.current_thread() is threading.main_thread()


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    found = stream.buffer
    assert isinstance(found, io.BytesIO)
    return found.getvalue().decode()
