"""The names that other programs may import: adding one is a decision, losing one breaks them."""

import nexus
from nexus import home, ledgers


def test_the_package_has_a_version() -> None:
    assert nexus.__version__.count(".") == 2


def test_the_public_names_of_the_ledgers_are_these() -> None:
    assert ledgers.__all__ == ["Database", "Ledgers", "create"]
    assert all(hasattr(ledgers, name) for name in ledgers.__all__)


def test_the_ledgers_are_these_six_in_this_order() -> None:
    assert home.LEDGERS == ("events", "agents", "identity", "memory", "embeddings", "runtime")
