"""Threads for the work of ledgers: a queue, and no future for each piece of work.

`ThreadPoolExecutor` spends more on its futures, conditions and semaphores than a short read takes. Whoever
hands work over here is told of its end by the work itself.
"""

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Task = Callable[[], object]


class Workers(Protocol):
    """Whatever runs functions on threads: `Threads`, or an executor."""

    def submit(self, work: Task, /) -> object: ...


class Threads:
    """Up to a number of threads, each started when there is work and none is idle."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work: SimpleQueue[Task | None] = SimpleQueue()
        # One entry for each thread that waits; more once all are started, when none is started any more.
        self._idle: deque[None] = deque(maxlen=most)
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def submit(self, work: Task, /) -> None:
        """Run it on a thread. It must not raise."""
        self._work.put(work)
        try:
            self._idle.pop()
        except IndexError:
            self._start_one()

    def shutdown(self) -> None:
        """Finish what was handed over, and end the threads."""
        with self._starting:
            threads, self._threads, self._most = self._threads, [], 0
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _start_one(self) -> None:
        with self._starting:
            if len(self._threads) < self._most:
                thread = threading.Thread(
                    target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # what it holds must not live until the next one comes
            self._idle.append(None)
