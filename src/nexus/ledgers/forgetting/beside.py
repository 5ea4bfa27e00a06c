"""A store beside the ledgers that holds copies of what runs were given and made: it forgets with them."""

from collections.abc import Sequence
from typing import Protocol


class Beside(Protocol):
    """Handed in by whoever knows the ledgers and the store."""

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        """Remove all copies that belong to these runs. It may be repeated."""
        ...

    async def scrub(self) -> str:
        """Take the removed bytes out of its files; returns what could not be done."""
        ...


class Nothing:
    """Where the ledgers are all there is."""

    async def remove(self, execution_ids: Sequence[str], /) -> None:
        pass

    async def scrub(self) -> str:
        return ""
