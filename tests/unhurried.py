"""What an agent is told must not depend on how busy this machine is."""

import pytest

from nexus.memory.recall import recall
from nexus.memory.recall.item import PATIENT_MS, Query
from nexus.memory.recall.reading import Deadline
from nexus.roles import memory_injection
from nexus.roles.memory_injection import injection

_LONG_MS = 25_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time enough to recall, in this process. Tests of the limits override it."""
    monkeypatch.setattr(recall, "_deadline", _deadline)
    monkeypatch.setattr(injection, "_OPENING_S", _LONG_MS / 1000)
    monkeypatch.setattr(memory_injection, "TIMEOUT_MS", _LONG_MS + 5_000)


def _deadline(query: Query) -> Deadline:
    """A long one, unless a test gave the question a longer one than the program ever does."""
    own_ms = query.deadline_ms or 0
    return Deadline(own_ms if own_ms > PATIENT_MS else _LONG_MS)
