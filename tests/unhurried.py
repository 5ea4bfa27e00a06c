"""What an agent is told must not depend on how busy this machine is."""

import pytest

from nexus.memory.recall import recall
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.memory.recall.reading import Deadline
from nexus.roles import memory_injection
from nexus.roles.memory_injection import candidates

_LONG_MS = 60_000


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to recall, in this process; the limits themselves are those of the deadline's tests."""
    monkeypatch.setattr(recall, "_deadline", _deadline)
    for asking in (candidates.find, recall.Recall.known):
        assert asking.__kwdefaults__ is not None
        monkeypatch.setitem(asking.__kwdefaults__, "deadline_ms", 25_000)
    monkeypatch.setattr(candidates, "_OPENING_S", 25.0)
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", 30_000)


def _deadline(query: Query) -> Deadline:
    """A long one, unless the question has one of its own."""
    own_ms = query.deadline_ms
    return Deadline(_LONG_MS if own_ms is None or own_ms == PATIENT_MS else own_ms)
