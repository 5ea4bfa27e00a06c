"""Where the processor time of a turn goes, by room and library, and how often it commits.

A thread is mostly seen where it gives up the interpreter's lock, and what it computed before counts there:
`select` and a pool's `_worker` stand for short work that was done since, not for waiting.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import apsw
import sqlalchemy as sa
from sqlalchemy import event

import nexus

_EVERY_S = 0.002
_SWITCH_S = 0.0001
_ROOT = str(Path(nexus.__file__).parent)
_DEEP = ("ledgers", "engine", "broker", "memory", "roles", "automations", "context", "pipeline")


class Profile:
    """What the process did while it was watched."""

    def __init__(self) -> None:
        self.rooms: Counter[str] = Counter()
        """Nanoseconds of processor time by the innermost room that is on the stack."""
        self.lines: Counter[str] = Counter()
        """The same by the innermost function of ours, and what it was calling."""
        self.commits: Counter[str] = Counter()
        self.statements = 0
        """Of the engine's database."""
        self.threads: Counter[str] = Counter()
        """Nanoseconds of processor time by kind of thread."""
        self.cpu_s = 0.0
        self._stopping = threading.Event()

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch until the block is left. Each thread's own clock says what it has computed since."""
        thread = threading.Thread(target=self._watch, name="profile", daemon=True)
        before = _threads_ns()
        began, interval = time.process_time(), sys.getswitchinterval()
        # Otherwise a thread is only ever seen where it lets the others in by itself.
        sys.setswitchinterval(_SWITCH_S)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()
            sys.setswitchinterval(interval)
            self.cpu_s = time.process_time() - began
            names = {each.native_id: each.name.rstrip("_-0123456789") for each in threading.enumerate()}
            for id_, spent in _threads_ns().items():
                self.threads[names.get(id_, "others")] += spent - before.get(id_, 0)

    def count_commits(self) -> None:
        """Call it before anything is opened."""

        def opened(connection: apsw.Connection) -> None:
            name = Path(connection.filename).stem

            def committed() -> bool:
                self.commits[name] += 1
                return False

            connection.set_commit_hook(committed)

        apsw.connection_hooks.append(opened)

        def begun(connection: sa.Connection, cursor: object, statement: str, *_: object) -> None:
            self.statements += 1
            if statement.lstrip()[:6].upper() in {"INSERT", "UPDATE", "DELETE"}:
                connection.info["wrote"] = True

        def ended(connection: sa.Connection) -> None:
            if connection.info.pop("wrote", False):  # a read alone commits nothing
                self.commits["engine"] += 1

        event.listen(sa.Engine, "before_cursor_execute", begun)
        event.listen(sa.Engine, "commit", ended)

    def _watch(self) -> None:
        spent: dict[int, int] = {}
        me = threading.get_ident()
        while not self._stopping.wait(_EVERY_S):
            for ident, frame in sys._current_frames().items():  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - there is no other way
                if ident == me:
                    continue
                try:
                    now = time.clock_gettime_ns(time.pthread_getcpuclockid(ident))
                except OSError:
                    continue
                used, spent[ident] = now - spent.get(ident, now), now
                if used > 0:
                    room, line = _place(frame)
                    self.rooms[room] += used
                    self.lines[line] += used


def _threads_ns() -> dict[int, int]:
    """What each thread has computed so far."""
    found: dict[int, int] = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            found[int(task.name)] = int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return found


def _place(frame: FrameType | None) -> tuple[str, str]:
    library = ""
    innermost = "" if frame is None else f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_ROOT):
            parts = file[len(_ROOT) + 1 :].removesuffix(".py").split("/")
            room = "/".join(parts[: 2 if parts[0] in _DEEP else 1])
            return room, f"{'/'.join(parts)}.{frame.f_code.co_name} → {library or 'itself'}"
        if "site-packages/" in file and not library:
            library = file.partition("site-packages/")[2].partition("/")[0]
        frame = frame.f_back
    return f"({library or 'event loop and threads'})", library or innermost
