"""The parts of the package, without a home: run it with pytest in this folder."""

from one_of_each import add, redact

from nexus.testing import Kit

pytest_plugins = ["nexus.testing.pytest_plugin"]


def test_redact(kit: Kit) -> None:
    assert kit.run(redact, answer="+49 30 1234567").text == "[phone]"


async def test_add() -> None:
    assert await add(2, 3) == 5
