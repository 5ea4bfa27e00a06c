"""What an agent is told must not depend on how busy this machine is."""

import pytest

from nexus.memory.recall.recall import Recall
from nexus.roles import memory_injection
from nexus.roles.memory_injection import candidates


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to recall, in this process; the limits themselves are those of the deadline's tests."""
    for asking in (candidates.find, Recall.known):
        assert asking.__kwdefaults__ is not None
        monkeypatch.setitem(asking.__kwdefaults__, "deadline_ms", 8_000)
    monkeypatch.setattr(candidates, "_OPENING_S", 8.0)
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", 10_000)
