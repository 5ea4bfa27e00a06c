"""What the doctor says of databases that are damaged: a finding, whatever the place of the damage."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from nexus import ledgers
from nexus.cli import doctor, engine_checks, ledger_checks
from nexus.cli.ledger_checks import Finding
from nexus.engine import Engine, Settings
from nexus.errors import CareError, LedgerError
from nexus.home import LEDGERS, Home
from nexus.ledgers import backup, reconcile

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
        found = troubles(home)
        assert found, f"page {page}"
        assert all(ledger in each.message and each.remedy for each in found), f"page {page}"


@pytest.mark.parametrize("damaged", ["engine", "runtime"])
async def test_a_damaged_engine_is_a_finding(home: Home, damaged: str) -> None:
    settings = Settings(database=home.engine_file)
    async with Engine(settings):
        pass
    path = home.engine_file if damaged == "engine" else home.ledger("runtime")
    for page in _damaged_page_by_page(path):
        found = list(engine_checks.check_engine(home, settings, thorough=False))
        assert damaged == "runtime" or any(each.level == "error" for each in found), f"page {page}"


def troubles(home: Home, *, creates_empty: bool = False) -> list[Finding]:
    findings = ledger_checks.check_ledgers(home, thorough=False, creates_empty=creates_empty)
    return [each for each in findings if each.level != "ok"]


def lose(path: Path, how: str) -> None:
    if how == "damaged":
        path.write_bytes(b"this was a ledger" * 1000)
        return
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def use(home: Home) -> None:
    connection = apsw.Connection(str(home.ledger("runtime")))
    connection.execute("INSERT INTO requests (id, root_request_id) VALUES ('req_1', 'req_1')")
    connection.close()


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_lost_ledger_is_restored_from_the_newest_backup(home: Home, tmp_path: Path, how: str) -> None:
    backup.make(home, tmp_path / "older")
    use(home)
    backup.make(home, tmp_path / "newer")
    lose(home.ledger("runtime"), how)

    [finding] = troubles(home)
    assert f"Newest backup: {tmp_path / 'newer'}, from 20" in finding.remedy
    assert finding.fix is not None
    finding.fix()
    finding.fix()  # one damage may have several findings

    assert troubles(home) == []
    connection = apsw.Connection(str(home.ledger("runtime")))
    assert connection.execute("SELECT id FROM requests").get == "req_1"
    connection.close()
    assert reconcile.is_due(home)
    assert len(list(home.data.glob("damaged-*-runtime.db"))) == (how == "damaged")


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_a_backup_only_a_flag_creates_a_lost_ledger_empty(home: Home, how: str) -> None:
    use(home)
    lose(home.ledger("events"), how)

    [finding] = troubles(home)
    assert finding.fix is None
    assert "`nexus doctor --fix --create-empty` creates an empty ledger: all messages" in finding.remedy
    if how == "missing":
        with pytest.raises(LedgerError, match=r"events\.db is missing"):
            ledgers.create(home)

    [finding] = troubles(home, creates_empty=True)
    assert finding.fix is not None
    finding.fix()
    assert "all messages and answers are lost" in finding.fixed
    assert troubles(home) == []
    assert reconcile.is_due(home)


def test_a_damaged_backup_is_not_restored(home: Home, tmp_path: Path) -> None:
    backup.make(home, tmp_path / "only")
    (tmp_path / "only/data/events.db").write_bytes(b"no ledger")
    lose(home.ledger("events"), "missing")

    [finding] = troubles(home)
    assert finding.fix is not None
    with pytest.raises(CareError, match="is damaged"):
        finding.fix()
    assert not home.ledger("events").exists()


def test_texts_that_could_not_be_embedded_are_a_finding(home: Home) -> None:
    with closing(apsw.Connection(str(home.ledger("embeddings")))) as connection:
        connection.execute("INSERT INTO embedding_models (id, dimensions) VALUES ('m', 2)")
        put = """INSERT INTO embeddings (target_type, target_id, model_id, vector, source_text_hash)
        VALUES ('fact', ?, 'm', ?, ?)"""
        connection.executemany(put, [("fact_1", bytes(4), "abc"), ("fact_2", b"", "")])
    found = [each for each in doctor.examine(home, thorough=False) if "embedded" in each.message]
    assert [(each.level, each.message.split(",")[0]) for each in found] == [
        ("warning", "1 text could not be embedded")
    ]


@pytest.mark.parametrize("page", [0, 1, 3])
def test_damaged_vectors_are_rebuilt_when_the_home_is_served(home: Home, page: int) -> None:
    path = home.ledger("embeddings")
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    assert ledgers.rebuild_if_damaged(home) is None
    damaged = bytearray(path.read_bytes())
    damaged[page * _PAGE_BYTES : (page + 1) * _PAGE_BYTES] = random.Random(3).randbytes(_PAGE_BYTES)
    _lay(path, bytes(damaged))

    aside = ledgers.rebuild_if_damaged(home)

    assert aside is not None
    assert aside.read_bytes() == bytes(damaged)
    assert troubles(home) == []
    assert ledgers.rebuild_if_damaged(home) is None
