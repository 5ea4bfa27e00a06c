"""The automations that come with the program, as people have them."""

import pytest

from nexus.roles.bundled import bundled_plugins


@pytest.fixture(autouse=True)
def patient() -> None:
    """The limit that people have is what is tested here."""


def test_nobody_waits_longer_than_three_seconds_for_memories() -> None:
    injecting = [each for each in bundled_plugins() if each.name.startswith("memory-injection")]
    assert [each.timeout_ms for each in injecting] == [3_000, 3_000]
