"""The memory for programs and threads without an event loop."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from nexus.errors import LedgerClosedError, UsageError
from nexus.home import Home
from nexus.library.items import KINDS, Extract, Fact, Hit, Message, Recorded
from nexus.memory.recall.item import How, Kind

T = TypeVar("T")


class Memory:
    """A home's memory for programs and threads without an event loop: `with Memory("~/notes") as memory:`.

    It is `AsyncMemory` on a thread of its own, and may be called from any thread. Without a scope, a call
    reaches everything in the home; with one, only what was written with that scope.
    """

    def __init__(self, home: Home | Path | str | None = None, *, create: bool = False) -> None:
        """`home` defaults to the one that NEXUS_HOME names. With `create` it is made if it is missing."""
        # The ledgers and all that writes and finds: a program that only names this class starts sooner.
        from nexus.library.memory import AsyncMemory

        self._memory = AsyncMemory(home, create=create)
        self._loop = asyncio.new_event_loop()
        self._process_id = os.getpid()
        self._is_stopping = False
        self._submit_lock = threading.Lock()
        self._close_lock = threading.Lock()
        self._pool = ThreadPoolExecutor(thread_name_prefix="nexus-memory")
        self._loop.set_default_executor(self._pool)
        self._thread = threading.Thread(target=self._loop.run_forever, name="nexus-memory", daemon=True)
        self._thread.start()
        try:
            self._run(self._memory.__aenter__())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def home(self) -> Home:
        """Where the memory is."""
        return self._memory.home

    def close(self) -> None:
        """Close the home. What has no vector yet gets it when the home is next opened."""
        self._require_usable()
        with self._close_lock:
            if not self._is_stopping:
                try:
                    self._run(self._memory.close())
                finally:
                    self._stop()

    def add(
        self,
        text: str,
        *,
        about: str | None = None,
        scope: str | None = None,
        entities: Sequence[str] = (),
        at: datetime | None = None,
        replaces: Sequence[str] = (),
        how: How | None = None,
        confidence: float = 1.0,
    ) -> str:
        """Remember a statement and return its id. With `replaces`, the facts of those ids no longer hold."""
        details: dict[str, Any] = {"entities": entities, "at": at, "replaces": replaces, "how": how}
        return self._run(self._memory.add(text, about=about, scope=scope, confidence=confidence, **details))

    def add_many(self, facts: Iterable[Fact | str], *, scope: str | None = None) -> list[str]:
        """Remember many statements, some hundred in a transaction, and return their ids in order."""
        return self._run(self._memory.add_many(facts, scope=scope))

    def add_messages(
        self,
        messages: Iterable[Message],
        *,
        scope: str | None = None,
        thread: str | None = None,
        extract: Extract | None = None,
    ) -> Recorded:
        """Record a conversation, or with the same `thread` more of one; it is found by what was said.

        A message has a `role` and its `content`, as in chat APIs, and may have the speaker's `name` and its
        time, `at`. With `extract`, the facts that it returns are remembered too, except those with a secret.
        """
        return self._run(self._memory.add_messages(messages, scope=scope, thread=thread, extract=extract))

    def search(
        self,
        text: str,
        *,
        scope: str | None = None,
        limit: int = 10,
        about: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        kinds: Iterable[Kind] = KINDS,
        rerank: bool = True,
    ) -> list[Hit]:
        """Find what may answer a question, best first. Weak hits probably don't: they are near it.

        No model is called but the embedding model and a reranker, on this machine, if they are installed.
        Without `rerank` an answer comes several times sooner and is somewhat less accurate.
        """
        return self._run(
            self._memory.search(
                text,
                scope=scope,
                limit=limit,
                about=about,
                after=after,
                before=before,
                kinds=kinds,
                rerank=rerank,
            )
        )

    def correct(self, memory_id: str, text: str, *, scope: str | None = None, how: How | None = None) -> str:
        """Replace a fact by what is true now and return the new one's id. Both are kept.

        `how` says whether the old one was never true (`corrected`), was true (`changed`, the default) or was
        called off (`cancelled`).
        """
        return self._run(self._memory.correct(memory_id, text, scope=scope, how=how))

    def forget(self, memory_id: str, *, scope: str | None = None) -> Path | None:
        """Erase a fact, or a message and what was learned from it, from every file. This can't be undone.

        Returns the file of the receipt, which `nexus forget verify` checks; None if nothing was there.
        """
        return self._run(self._memory.forget(memory_id, scope=scope))

    def forget_scope(self, scope: str) -> Path | None:
        """Erase everything that was written with a scope, from every file. This can't be undone.

        Returns the file of the receipt. The home's record of the forgetting keeps the scope's name.
        """
        return self._run(self._memory.forget_scope(scope))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._require_usable()
            with self._submit_lock:
                if self._is_stopping:
                    raise _closed_error()
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except (UsageError, LedgerClosedError):
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise _closed_error() from None
        except BaseException:
            future.cancel()  # Ctrl-C
            raise

    def _require_usable(self) -> None:
        """Raise where a call would wait forever: the loop's thread is this one, or is not in this process."""
        if os.getpid() != self._process_id:
            raise UsageError("A Memory can't be used after a fork", hint="Open one in each process.")
        if threading.current_thread() is self._thread:
            raise UsageError(
                "A Memory can't be used in a coroutine that it runs", hint="Use `AsyncMemory` there."
            )

    def _stop(self) -> None:
        with self._submit_lock:
            self._is_stopping = True
        asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        # A text that is being embedded, or a model that is being opened, is not waited for.
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._loop.close()


def _closed_error() -> LedgerClosedError:
    return LedgerClosedError("The memory is closed", hint="Open it again with `Memory(...)`.")


async def _cancel_other_tasks() -> None:
    """Let nobody wait forever for what was under way."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
