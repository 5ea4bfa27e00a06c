"""What the doctor says of databases that are damaged: a finding, whatever the place of the damage."""

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from nexus.cli import engine_checks, ledger_checks
from nexus.engine import Engine, Settings
from nexus.home import LEDGERS, Home

_PAGE_BYTES = 4096


def _damaged_page_by_page(path: Path) -> Iterator[int]:
    """Put random bytes at the beginning of one page after the other, and the file back in the end."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    whole, draw = path.read_bytes(), random.Random(17)
    for page in range(len(whole) // _PAGE_BYTES):
        damaged = bytearray(whole)
        begin = page * _PAGE_BYTES or 100  # behind the header of the file
        damaged[begin : begin + 300] = draw.randbytes(300)
        _lay(path, bytes(damaged))
        yield page + 1
    _lay(path, whole)


def _lay(path: Path, content: bytes) -> None:
    for rest in path.parent.glob(f"{path.name}-*"):
        rest.unlink()
    path.write_bytes(content)


@pytest.mark.parametrize("ledger", LEDGERS)
def test_a_damaged_ledger_is_a_finding(home: Home, ledger: str) -> None:
    for page in _damaged_page_by_page(home.ledger(ledger)):
        found = [
            each for each in ledger_checks.examine_ledgers(home, thorough=False) if each.level == "error"
        ]
        assert found, f"page {page}"
        assert all(ledger in each.message and each.remedy for each in found), f"page {page}"


@pytest.mark.parametrize("damaged", ["engine", "runtime"])
async def test_a_damaged_engine_is_a_finding(home: Home, damaged: str) -> None:
    settings = Settings(database=home.engine_file)
    async with Engine(settings):
        pass
    path = home.engine_file if damaged == "engine" else home.ledger("runtime")
    for page in _damaged_page_by_page(path):
        found = list(engine_checks.examine(home, settings, thorough=False))
        assert damaged == "runtime" or any(each.level == "error" for each in found), f"page {page}"
