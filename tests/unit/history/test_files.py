"""Archives that somebody made to do harm, or that broke on the way."""

import zipfile
from pathlib import Path

import pytest

from nexus.errors import CareError, UsageError
from nexus.history import files, source
from nexus.ledgers import Ledgers
from unit.history.exports import bring, chatgpt, long_conversation, mail, rows
from unit.history.samples import SAMPLES


def packed(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


async def test_a_zip_bomb_is_set_aside_and_the_rest_comes(opened: Ledgers, tmp_path: Path) -> None:
    export = chatgpt(tmp_path / "c.json", long_conversation("c", 2)).read_bytes()
    bomb = b" " * (80 * 1024 * 1024)
    path = packed(tmp_path / "x.zip", **{"conversations.json": export, "conversations-001.json": bomb})
    done = await bring(opened, path)
    assert (done.messages, dict(done.set_aside.counts)) == (2, {"it is packed like a zip bomb": 1})


async def test_an_archive_that_is_a_bomb_as_a_whole_is_refused(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOST_TOGETHER_BYTES", 1_000_000)
    # Each member is small enough to be harmless.
    path = packed(tmp_path / "x.zip", **{f"file-{number}.bin": bytes(900_000) for number in range(20)})
    with pytest.raises(CareError, match="packed like a zip bomb"):
        await bring(opened, path)
    assert not (opened.home.root / "state/attachments").exists()


async def test_a_database_in_an_archive_is_set_aside(opened: Ledgers, tmp_path: Path) -> None:
    path = packed(tmp_path / "x.zip", **SAMPLES["imessage"])
    done = await bring(opened, path)
    assert done.messages == 0
    assert dict(done.set_aside.counts) == {"a database in an archive is not read; unpack the archive": 1}


async def test_names_that_lead_out_are_set_aside_and_nothing_is_unpacked(
    opened: Ledgers, tmp_path: Path
) -> None:
    export = chatgpt(tmp_path / "c.json", long_conversation("c", 2)).read_bytes()
    names = [
        "../conversations.json",
        "/etc/conversations.json",
        "a/../../conversations.json",
        "C:\\conversations.json",
    ]
    (tmp_path / "in").mkdir()
    path = packed(tmp_path / "in" / "x.zip", **{"conversations.json": export, **dict.fromkeys(names, export)})
    done = await bring(opened, path)
    assert (done.messages, dict(done.set_aside.counts)) == (2, {"its name leads out of the archive": 4})
    assert [each.name for each in (tmp_path / "in").iterdir()] == ["x.zip"]


async def test_a_truncated_archive_is_refused(opened: Ledgers, tmp_path: Path) -> None:
    path = packed(tmp_path / "x.zip", **{"conversations.json": b"[]" * 1000})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CareError, match="not a complete zip archive"):
        await bring(opened, path)


async def test_a_damaged_member_gives_what_it_holds(opened: Ledgers, tmp_path: Path) -> None:
    export = chatgpt(tmp_path / "c.json", *(long_conversation(f"c{n}", 50) for n in range(100))).read_bytes()
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("conversations.json", export)
    data = bytearray((tmp_path / "x.zip").read_bytes())
    at = data.find(b'"word 10"', len(data) // 2)
    data[at] = ord("x")
    (tmp_path / "x.zip").write_bytes(data)
    done = await bring(opened, tmp_path / "x.zip")
    assert 1000 < done.messages < 5000
    assert done.set_aside.total


async def test_links_are_not_followed(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text('{"id": "1", "text": "secret"}')
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "2", "text": "open"}')
    (tmp_path / "in" / "b.jsonl").symlink_to(tmp_path / "secret.jsonl")
    await bring(opened, tmp_path / "in")
    assert await rows(opened, "SELECT content FROM events") == [("open",)]


async def test_a_line_that_is_too_long_is_set_aside(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LONGEST_LINE_BYTES", 1_000)
    path = tmp_path / "a.jsonl"
    path.write_text('{"id":"1","text":"a"}\n{"id":"2","text":"' + "x" * 5_000 + '"}\n{"id":"3","text":"c"}')
    done = await bring(opened, path)
    assert (done.messages, done.set_aside.total) == (2, 1)


async def test_bytes_that_are_no_text_are_replaced(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"id": "1", "text": "caf\xff"}\n{"id": "2", "text": "\\ud83d"}\n\xff\xfe\n'
    )
    done = await bring(opened, tmp_path / "a.jsonl")
    assert await rows(opened, "SELECT content FROM events") == [("caf�",), ("�",)]
    assert done.set_aside.total == 1


async def test_what_is_no_export_is_refused(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    with pytest.raises(UsageError, match="unrecognized format"):
        await bring(opened, tmp_path / "a.bin")
    (tmp_path / "a.mbox").write_text(mail(1))
    with pytest.raises(UsageError, match="Unknown format"):
        await bring(opened, tmp_path / "a.mbox", format_="carrier-pigeon")


async def test_a_member_without_a_name_is_set_aside_and_the_rest_comes(
    opened: Ledgers, tmp_path: Path
) -> None:
    export = chatgpt(tmp_path / "c.json", long_conversation("c", 2)).read_bytes()
    path = packed(tmp_path / "x.zip", **{"conversations.json": export, ".": b"x"})
    done = await bring(opened, path)
    assert (done.messages, dict(done.set_aside.counts)) == (2, {"it has no name": 1})


async def test_a_deeply_nested_line_is_set_aside_and_the_rest_comes(opened: Ledgers, tmp_path: Path) -> None:
    deep = '{"id": "1", "text": "a", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path = tmp_path / "x.jsonl"
    path.write_text(deep + '\n{"id": "2", "thread": "t", "role": "user", "text": "b"}\n')
    done = await bring(opened, path)
    assert (done.messages, dict(done.set_aside.counts)) == (1, {"the line is not valid JSON": 1})
