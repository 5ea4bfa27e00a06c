"""Uploads: streamed to disk within a limit, under a name that leads nowhere, and gone when they broke off."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nexus.config import Config
from nexus.errors import MissingError, UsageError
from nexus.history import Choices, ImportJobs, Job
from nexus.history.uploads import Uploads, file_name
from nexus.home import Home
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from unit.history.exports import mail, said


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("export.zip", "export.zip"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("/", "export"),
        ("..", "export"),
        (".choices.json", "choices.json"),
        ("a\0b\n.txt", "a b .txt"),
        ("WhatsApp Chat with Anna.txt", "WhatsApp Chat with Anna.txt"),
        ("ü" * 300 + ".mbox", "ü" * 98 + ".mbox"),
    ],
)
def test_a_name_leads_nowhere(given: str, kept: str) -> None:
    assert file_name(given) == kept


async def test_an_upload_is_a_private_file_of_its_own(home: Home) -> None:
    uploads = Uploads(home, 100)
    made = await uploads.receive("../a.mbox", pieces(b"From ", b"me"))
    assert (made.name, made.size_bytes, made.path.read_bytes()) == ("a.mbox", 7, b"From me")
    assert made.path.is_relative_to(home.run / "uploads" / made.id)
    assert made.path.stat().st_mode & 0o077 == 0
    assert uploads.list_complete() == [made]
    uploads.discard(made)
    assert uploads.list_complete() == []


@pytest.mark.parametrize(
    ("parts", "expected"), [((b"x" * 60, b"x" * 60), None), ((b"x",), 101), ((), None), ((b"",), 0)]
)
async def test_what_is_too_large_or_empty_leaves_nothing(
    home: Home, parts: tuple[bytes, ...], expected: int | None
) -> None:
    uploads = Uploads(home, 100)
    with pytest.raises(UsageError):
        await uploads.receive("a.zip", pieces(*parts), expected)
    assert list(home.run.glob("uploads/*")) == []


async def test_an_upload_that_breaks_off_leaves_nothing(home: Home) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    uploads = Uploads(home, 100)
    with pytest.raises(ConnectionError):
        await uploads.receive("a.zip", broken())
    assert list((home.run / "uploads").iterdir()) == []


async def test_what_a_killed_process_left_is_swept(home: Home) -> None:
    uploads = Uploads(home, 100)
    made = await uploads.receive("a.zip", pieces(b"whole"))
    half = home.run / "uploads" / "upl_01M7H5825M6A21S33RXZF1E08N"
    half.mkdir()
    (half / ".unfinished").write_bytes(b"half")
    uploads.sweep()
    assert uploads.list_complete() == [made]
    assert not half.exists()


@pytest.mark.parametrize("id_", ["../..", "upl_01M7H5825M6A21S33RXZF1E08N", "", "upl_../x"])
async def test_an_unknown_id_is_missing(home: Home, id_: str) -> None:
    with pytest.raises(MissingError):
        Uploads(home, 100).get(id_)


async def over(job: Job) -> Job:
    while not job.is_over:
        await asyncio.sleep(0.01)
    return job


async def test_a_preview_counts_and_an_import_records_and_deletes_the_upload(opened: Ledgers) -> None:
    jobs = ImportJobs(opened, Memory(opened), Config())
    upload = await jobs.uploads.receive("Sent", pieces(mail(1, From="me@example.com").encode()))
    choices = Choices(owner=("me@example.com",))
    counted = await over(await jobs.preview(upload.id, choices))
    assert counted.preview
    assert (counted.status, counted.preview.messages) == ("done", 1)
    assert await said(opened) == []
    done = await over(await jobs.start(upload.id, choices))
    assert done.imported
    assert (done.status, done.imported.messages) == ("done", 1)
    assert [sender for _, sender, _ in await said(opened)] == ["owner"]
    assert jobs.uploads.list_complete() == []
    await jobs.close()


async def test_what_is_no_export_fails_with_a_reason_and_stays(opened: Ledgers) -> None:
    jobs = ImportJobs(opened, Memory(opened), Config())
    upload = await jobs.uploads.receive("a.bin", pieces(bytes(range(256))))
    job = await over(await jobs.start(upload.id, Choices()))
    assert job.error
    assert "unrecognized format" in job.error.message
    assert jobs.uploads.list_complete() == [upload]
    with pytest.raises(UsageError, match="Unknown time zone"):
        await jobs.preview(upload.id, Choices(timezone="Mars/Olympus"))


async def test_an_import_goes_on_after_a_restart(opened: Ledgers, tmp_path: Path) -> None:
    first = ImportJobs(opened, Memory(opened), Config())
    text = "".join(mail(number, From="me@example.com") for number in range(3)).encode()
    upload = await first.uploads.receive("Sent", pieces(text))
    await first.start(upload.id, Choices(owner=("me@example.com",)))
    await first.close()
    assert first.uploads.get(upload.id).choices is not None
    second = ImportJobs(opened, Memory(opened), Config())
    await second.recover()
    job = second.job(upload.id)
    assert job is not None
    assert (await over(job)).status == "done"
    assert [sender for _, sender, _ in await said(opened)] == ["owner"] * 3
    assert second.uploads.list_complete() == []
