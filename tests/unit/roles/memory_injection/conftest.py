"""What a worker is told must not depend on how busy this machine is."""

import pytest

from unhurried import unhurried


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
