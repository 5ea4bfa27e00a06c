"""Gates: an answer waits at one until the test opens it, so that a test need not guess at times."""

import asyncio
import threading

POLL_S = 0.002


class Gate:
    """One gate. It stays open once it was opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.waiting = 0
        """How many answers wait here now."""

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self) -> None:
        """Let every answer pass, now and later."""
        self._opened.set()

    async def passed(self) -> None:
        """Wait here; called in the server's loop, while `open` may be called in any thread."""
        self.waiting += 1
        try:
            while not self._opened.is_set():  # noqa: ASYNC110 - it is opened by another thread
                await asyncio.sleep(POLL_S)
        finally:
            self.waiting -= 1


class Gates:
    """Gates by name, made when they are first named."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}

    def named(self, name: str) -> Gate:
        with self._lock:
            return self._gates.setdefault(name, Gate())

    def all(self) -> dict[str, Gate]:
        with self._lock:
            return dict(self._gates)

    def clear(self) -> None:
        """Open and forget all gates."""
        for gate in self.all().values():
            gate.open()
        with self._lock:
            self._gates.clear()
