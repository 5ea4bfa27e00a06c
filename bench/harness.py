"""Runs Nexus in Bench'd, a public harness for memory systems, so that others can check our figures.

    pip install benchd-harness
    python bench/harness.py list
    python bench/harness.py run -a nexus -b longmemeval-v1 --out runs
    python bench/harness.py run -a nexus -b smoke-memory-v0 --out runs

It is the harness's own command line with one more adapter. Each question has a home of its own: the turns are
recorded as messages, and the answer is what `Memory.search` finds. No model is called;
with `--judge` the harness answers and judges with models of its choice.
"""

# The harness is not installed for the type check.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownArgumentType=false

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchd_harness import adapters, cli  # type: ignore[import-not-found]

import nexus

_RESULTS = 10


class NexusAdapter(adapters.BaseAdapter):  # type: ignore[misc]
    """The memory as a library, in a folder that is deleted afterwards."""

    name = "nexus"
    version = nexus.__version__

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nexus-harness-")
        self._homes = 0
        self._memory: nexus.Memory | None = None

    def ingest(self, turns: list[dict[str, Any]]) -> None:
        """Record turns, session by session."""
        if self._memory is None:
            self._homes += 1
            self._memory = nexus.Memory(Path(self._folder.name) / str(self._homes), create=True)
        sessions: dict[str, list[dict[str, Any]]] = {}
        for turn in turns:
            session = str((turn.get("metadata") or {}).get("session_index", 0))
            message = {"role": turn["role"], "content": turn["content"]}
            if turn.get("timestamp"):
                message["at"] = turn["timestamp"]
            sessions.setdefault(session, []).append(message)
        for session, messages in sessions.items():
            self._memory.add_messages(messages, thread=session)

    def recall(self, query: str) -> str:
        """Find what answers a question."""
        if self._memory is None:
            return ""
        return "\n".join(hit.text for hit in self._memory.search(query, limit=_RESULTS))

    def reset(self) -> None:
        """Forget everything: the next question gets a new home."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def teardown(self) -> None:
        """Delete the homes."""
        self.reset()
        self._folder.cleanup()


if __name__ == "__main__":
    adapters._BUILTIN_ADAPTERS["nexus"] = NexusAdapter  # type: ignore[attr-defined]  # noqa: SLF001 - it has no other place
    sys.argv[0] = "benchd"
    cli.main()
