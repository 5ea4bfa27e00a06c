"""Answers while they are being written, for subscribers in this process or another.

A run appends lines of JSON to a file in the home's `run` folder; whoever wants to see it reads the file
from its beginning. It is not synced: what counts is in the ledgers, and the file goes when the run has ended.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from types import TracebackType
from typing import Self

from nexus import clock
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE
from nexus.runs import Delta, with_elapsed
from nexus.watch import wait_at_most

# Deltas that come within this time are written together: a subscriber cannot tell the difference. It grows
# with the number of answers that are being written, because each delivery costs as much as what it carries.
_GATHER_S = 0.015
_SLOWEST_GATHER_S = 0.15
_EASY_ANSWERS = 20
_POLL_S = 0.015
_SLOWEST_POLL_S = 0.1
_ASK_ENDED_S = 0.5
_SLOWEST_ASK_S = 2.0
_KEPT_AFTER_END_S = 60.0
# No run writes nothing for so long; its process was killed between its end and that of its stream.
_ABANDONED_S = 86_400.0
# More than a line that says what a run does.
_LAST_BYTES = 4096


class Stream:
    """The one writer of a run's deltas."""

    def __init__(self, path: Path, streams: "Streams", execution_id: str) -> None:
        # A run goes on though nobody can watch it, such as when the disk is full.
        self._descriptor = -1
        with suppress(OSError):
            path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            self._descriptor = os.open(
                path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE
            )
        self._streams = streams
        self._execution_id = execution_id
        self._waiting: list[Delta] = []
        self._timer: asyncio.TimerHandle | None = None
        self._open_answer, self.answers = self._read_written(path)
        """`answers`: how many are complete, with those of a process before this one."""
        self.partial = ""
        """The text of the answer that is being written."""
        self.is_held = False
        """Whether nothing of the answer is shown until `replace`."""

    def publish(self, delta: Delta) -> None:
        """Add a piece. It is written within moments; an answer's beginning and end at once."""
        if delta.kind == "begin" and self._open_answer:
            delta = Delta(kind="restart")
        if self.is_held and delta.kind in {"text", "thinking"}:
            return
        if delta.kind in {"begin", "restart", "done"}:
            self._open_answer = delta.kind != "done"
            self.answers += delta.kind == "done"
            self.partial = ""
        elif delta.kind == "text":
            self.partial += delta.text
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.kind == delta.kind and delta.kind in {"text", "thinking"}:
            self._waiting[-1] = Delta(kind=delta.kind, text=last.text + delta.text)
        else:
            self._waiting.append(delta)
        if delta.kind in {"done", "end"}:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._streams.gather_s(), self._flush)

    def replace(self, answer: str) -> None:
        """Show an answer in the place of what was written, or held back."""
        self.is_held = False
        for delta in (Delta(kind="begin"), Delta(kind="text", text=answer), Delta(kind="done")):
            self.publish(delta)

    def close(self) -> None:
        """Write what waits. The run may go on elsewhere, so this is not its end."""
        self._flush()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._streams.leave(self._execution_id)

    def _read_written(self, path: Path) -> tuple[bool, int]:
        """Whether an answer was left open, and how many are complete."""
        if self._descriptor < 0:
            return False, 0
        lines = path.read_bytes().split(b"\n")
        if lines[-1]:
            with suppress(OSError):
                os.write(self._descriptor, b"\n")  # of a process that was killed while writing
        kinds = [delta.kind for line in lines if (delta := _parse(line)) is not None]
        marks = [kind for kind in kinds if kind in {"begin", "restart", "done"}]
        return bool(marks) and marks[-1] != "done", marks.count("done")

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        if waiting and self._descriptor >= 0:
            with suppress(OSError):
                os.write(self._descriptor, b"".join(map(_line, waiting)))
            self._streams.wake(self._execution_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Streams:
    """The runs of one home that are being written."""

    def __init__(self, run: Path, writes_here: Callable[[], bool] = lambda: False) -> None:
        """`writes_here`: whether every run is written in this process, so that nobody need look for it."""
        self._directory = run / "streams"
        self._writes_here = writes_here
        self._wakes: dict[str, set[asyncio.Event]] = {}
        self._written_here: set[str] = set()

    def open(self, execution_id: str) -> Stream:
        """The writer of a run, which goes on behind what an earlier process wrote."""
        self._written_here.add(execution_id)
        return Stream(self._path(execution_id), self, execution_id)

    async def subscribe(
        self, execution_id: str, ended: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncIterator[Delta]:
        """Every delta of a run from its first on, until its end.

        `ended` is asked now and then while nothing comes: the file of a run that ended long ago is gone.
        """
        wake = asyncio.Event()
        self._wakes.setdefault(execution_id, set()).add(wake)
        reader = _Reader(self._path(execution_id))
        try:
            async for delta in self._read(reader, execution_id, wake, ended):
                yield delta
        finally:
            reader.close()
            self._wakes[execution_id].discard(wake)
            if not self._wakes[execution_id]:
                del self._wakes[execution_id]

    async def _read(
        self,
        reader: "_Reader",
        execution_id: str,
        wake: asyncio.Event,
        ended: Callable[[], Awaitable[bool]] | None,
    ) -> AsyncIterator[Delta]:
        quiet_since = time.monotonic()
        pause_s, ask_s = _POLL_S, self._ask_s()
        over = False
        while True:
            wake.clear()
            deltas = reader.read()
            for delta in deltas:
                yield delta
                if delta.kind == "end":
                    return
            if over:
                return
            pause_s = _POLL_S if deltas else min(pause_s * 1.2, _SLOWEST_POLL_S)
            if deltas:
                quiet_since, ask_s = time.monotonic(), self._ask_s()
            here = execution_id in self._written_here or self._writes_here()
            await wait_at_most(wake.wait(), _ASK_ENDED_S if here else pause_s)
            if ended is not None and time.monotonic() - quiet_since > ask_s:
                # What was written before the end is read once more.
                over = await ended()
                quiet_since = time.monotonic()
                ask_s = max(self._ask_s(), min(ask_s * 1.5, _SLOWEST_ASK_S))

    def describe_progress(self, execution_id: str) -> str:
        """What a run does at the moment, and for how long; nothing if that isn't known."""
        try:
            with self._path(execution_id).open("rb") as written:
                written.seek(max(0, written.seek(0, os.SEEK_END) - _LAST_BYTES))
                lines = written.read().split(b"\n")
        except OSError:
            return ""
        last = next((delta for line in reversed(lines) if (delta := _parse(line)) is not None), None)
        if last is None:
            return ""
        if last.kind == "status":
            return with_elapsed(last.doing, (clock.now() - clock.parse(last.at)).total_seconds())
        return "writing" if last.kind == "text" else f"using {last.tool}" if last.tool else ""

    def finish(self, execution_id: str, stream: Stream) -> None:
        """Tell that a run has ended, and remove its file once everybody had time to read it."""
        stream.publish(Delta(kind="end"))
        stream.close()
        # In a context of its own: the run's would keep all that was said in it until then.
        loop = asyncio.get_running_loop()
        loop.call_later(_KEPT_AFTER_END_S, self.remove, execution_id, context=Context())

    def remove(self, execution_id: str) -> None:
        self._path(execution_id).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what runs that have ended left behind. Call it when a home is opened to be served."""
        for path in self._directory.glob("*.jsonl"):
            if path.stem in self._written_here:
                continue
            if _has_ended(path) or time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink(missing_ok=True)

    def wake(self, execution_id: str) -> None:
        """Something was written."""
        for event in self._wakes.get(execution_id, ()):
            event.set()

    def leave(self, execution_id: str) -> None:
        """Nothing more is written here; another process may go on."""
        self._written_here.discard(execution_id)

    def gather_s(self) -> float:
        """For how long deltas are gathered, with as many answers being written as there are."""
        return min(_GATHER_S * max(1, len(self._written_here) / _EASY_ANSWERS), _SLOWEST_GATHER_S)

    def _ask_s(self) -> float:
        """After how long it is asked whether a run has ended: later, the more subscribers would ask."""
        return _ASK_ENDED_S * max(1, len(self._wakes) / _EASY_ANSWERS)

    def _path(self, execution_id: str) -> Path:
        return self._directory / f"{execution_id}.jsonl"


class _Reader:
    """Whole lines of a file that grows, and may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._rest = b""

    def read(self) -> list[Delta]:
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        data = self._rest
        while part := os.read(self._descriptor, 1 << 16):
            data += part
        *lines, self._rest = data.split(b"\n")
        return [delta for line in lines if (delta := _parse(line)) is not None]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _line(delta: Delta) -> bytes:
    said = {key: value for key, value in vars(delta).items() if value}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Delta | None:
    try:
        return Delta(**json.loads(line))
    except (ValueError, TypeError):
        return None  # torn, by a process that was killed while writing


def _has_ended(path: Path) -> bool:
    last = _parse(path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2])
    return last is not None and last.kind == "end"
