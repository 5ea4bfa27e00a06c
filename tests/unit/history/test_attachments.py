"""The files of an export: kept by their hash, within limits, and gone with the import that brought them."""

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from nexus import attachments, history
from nexus.history import importer
from nexus.history.sources.assistants import ChatGpt
from nexus.home import Home
from nexus.ledgers import Ledgers, backup, forgetting
from nexus.ledgers.events.imports import Batch
from nexus.memory.operations import Memory
from unit.history.exports import bring, chatgpt, conversation, mail, node, rows
from unit.history.samples import APPLE_TABLES
from unit.history.test_importing import StopError, stopping

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
_FILES = "SELECT filename, media_type, size_bytes, sha256, path FROM attachments ORDER BY filename"


def _kept(opened: Ledgers) -> dict[str, bytes]:
    """Every kept file by its name, which must be its hash."""
    folder = opened.home.root / "state/attachments"
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in found.items())
    return found


async def _undo(opened: Ledgers, import_id: str) -> None:
    target = await forgetting.find(opened, forgetting.import_, import_id)
    await forgetting.forget(opened, target, actor="test")


def _mail(number: int, *files: tuple[str, bytes]) -> str:
    """A mail with files."""
    parts = "".join(
        f'--X\nContent-Type: application/octet-stream; name="{name}"\nContent-Transfer-Encoding: base64\n\n'
        f"{base64.encodebytes(data).decode()}\n"
        for name, data in files
    )
    body = f"--X\nContent-Type: text/plain\n\nSee the files.\n{parts}--X--\n"
    return mail(number, Content_Type="multipart/mixed; boundary=X", body=body)


async def test_a_chatgpt_archive_brings_its_pictures_once(opened: Ledgers, tmp_path: Path) -> None:
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Cat1"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://file_0a1b"}
    tree = conversation(
        "c", "a",
        node("q", None, "a", role="user", content={"content_type": "multimodal_text",
                                                   "parts": [pointer, "What is this?"]},
             metadata={"attachments": [{"id": "file-Cat1", "name": "cat.png", "mime_type": "image/png"}]}),
        node("a", "q", role="assistant", content={"content_type": "multimodal_text",
                                                  "parts": [sound, "A cat."]}),
    )  # fmt: skip
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps([tree]))
        archive.writestr("file-Cat1-cat.png", PNG)
        archive.writestr("c/audio/file_0a1b.wav", b"RIFF1234WAVE")
    await bring(opened, tmp_path / "export.zip")
    digest = hashlib.sha256(PNG).hexdigest()
    found = await rows(opened, _FILES)
    assert found[0] == ("cat.png", "image/png", 48, digest, f"state/attachments/{digest[:2]}/{digest}")
    assert found[1][:3] == ("file_0a1b.wav", "audio/wav", 12)
    assert set(_kept(opened).values()) == {PNG, b"RIFF1234WAVE"}


async def test_whatsapp_and_telegram_bring_the_files_beside_the_chat(opened: Ledgers, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Anna.zip", "w") as archive:
        archive.writestr("_chat.txt", "[13/02/2026, 10:00:00] Anna: <attached: IMG-1.jpg>\n"
                         "[13/02/2026, 10:01:00] Anna: <attached: IMG-2.jpg>\n")  # fmt: skip
        archive.writestr("IMG-1.jpg", b"\xff\xd8\xff one")
    await bring(opened, tmp_path / "WhatsApp Chat - Anna.zip")
    message: dict[str, Any] = {
        "id": 2, "type": "message", "date_unixtime": "1714557600", "from": "Bob", "from_id": "user8",
        "text": "", "text_entities": [],
    }  # fmt: skip
    messages = [
        {**message, "photo": "photos/p.jpg"},
        {**message, "id": 3, "file": "(File not included. Change data exporting settings to download.)"},
        {**message, "id": 4, "file": "../secret.txt"},
    ]
    folder = tmp_path / "telegram"
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "p.jpg").write_bytes(b"\xff\xd8\xff two")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "result.json").write_text(json.dumps({"name": "Bob", "id": 9, "messages": messages}))
    await bring(opened, folder)
    assert sorted(_kept(opened).values()) == [b"\xff\xd8\xff one", b"\xff\xd8\xff two"]
    kept = await rows(opened, "SELECT filename, media_type FROM attachments WHERE path IS NOT NULL")
    assert kept == [("IMG-1.jpg", "image/jpeg"), ("p.jpg", "image/jpeg")]
    assert len(await rows(opened, _FILES)) == 5


async def test_apples_messages_bring_all_files_of_a_message(opened: Ledgers, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "chat.db"))
    connection.execute(
        APPLE_TABLES + "INSERT INTO handle VALUES (1, '+4917012345678');"
        "INSERT INTO message VALUES (1, 'g1', 'Two', NULL, 700000000000000000, 0, 1, NULL, 0, 0, 0);"
        "INSERT INTO attachment VALUES "
        "(1, '~/Library/Messages/Attachments/a/1/x.png', 'x.png', 'image/png', 4),"
        "(2, '~/Library/Messages/Attachments/b/2/y.mov', 'y.mov', 'video/quicktime', 9),"
        "(3, '~/Library/Messages/Attachments/../../../chat.db', 'z', 'x/y', 9);"
        "INSERT INTO message_attachment_join VALUES (1, 1), (1, 2), (1, 3)"
    )
    connection.close()
    (tmp_path / "Attachments/a/1").mkdir(parents=True)
    (tmp_path / "Attachments/a/1/x.png").write_bytes(PNG)
    await bring(opened, tmp_path)
    assert list(_kept(opened).values()) == [PNG]
    assert [row[0] for row in await rows(opened, _FILES)] == ["x.png", "y.mov", "z"]


async def test_sessions_bring_their_images(opened: Ledgers, tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                         "data": base64.b64encode(PNG).decode()}}  # fmt: skip
    broken = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?!"}}
    line = {"uuid": "u1", "sessionId": "s", "timestamp": "2025-01-01T10:00:00Z",
            "message": {"role": "user", "content": [image, broken]}}  # fmt: skip
    (tmp_path / "s.jsonl").write_text(json.dumps(line))
    await bring(opened, tmp_path)
    assert list(_kept(opened).values()) == [PNG]
    assert len(await rows(opened, _FILES)) == 2


async def test_a_file_that_is_too_large_is_counted_and_known_by_its_name(
    opened: Ledgers, tmp_path: Path
) -> None:
    (tmp_path / "a.mbox").write_text(_mail(1, ("big.bin", bytes(5_000)), ("small.bin", b"small")))
    source = history.open_source(tmp_path / "a.mbox", history.Options())
    done = await history.Importer(opened, Memory(opened), source, attachment_bytes=1_000).run()
    assert dict(done.set_aside.counts) == {
        "an attachment is larger than 1,000 bytes; only its name is kept": 1
    }
    assert list(_kept(opened).values()) == [b"small"]
    assert (await rows(opened, _FILES))[0] == ("big.bin", "application/octet-stream", 5_000, None, None)


async def test_without_attachments_nothing_is_copied(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(_mail(1, ("a.bin", b"data")))
    source = history.open_source(tmp_path / "a.mbox", history.Options())
    done = await history.Importer(opened, Memory(opened), source, attachment_bytes=0).run()
    assert done.set_aside.total == 0
    assert not (opened.home.root / "state/attachments").exists()


async def test_undoing_an_import_takes_its_files_along_but_those_that_another_message_has(
    opened: Ledgers, tmp_path: Path
) -> None:
    (tmp_path / "a.mbox").write_text(_mail(1, ("a.bin", b"only here"), ("b.bin", b"shared")))
    (tmp_path / "b.mbox").write_text(_mail(2, ("c.bin", b"shared")))
    first = await bring(opened, tmp_path / "a.mbox")
    second = await bring(opened, tmp_path / "b.mbox")
    assert sorted(_kept(opened).values()) == [b"only here", b"shared"]
    await _undo(opened, first.id)
    assert list(_kept(opened).values()) == [b"shared"]
    await _undo(opened, second.id)
    assert _kept(opened) == {}


async def test_a_backup_holds_the_files(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(_mail(1, ("a.bin", b"data")))
    await bring(opened, tmp_path / "a.mbox")
    backup.make(opened.home, tmp_path / "backup")
    [(path,)] = await rows(opened, "SELECT path FROM attachments")
    assert (tmp_path / "backup" / str(path)).read_bytes() == b"data"


async def test_an_interrupted_import_has_every_file_once(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "_BATCH", 2)
    tree = [
        conversation(f"c{n}", "q", node("q", None, id=f"m{n}", role="user", text="See", metadata={
            "attachments": [{"id": f"file-{n}", "name": f"{n}.txt"}]}))
        for n in range(8)
    ]  # fmt: skip
    folder = tmp_path / "export"
    folder.mkdir()
    chatgpt(folder / "conversations.json", *tree)
    for n in range(8):
        (folder / f"file-{n}-{n}.txt").write_text(f"text {n}")
    for after in (5, 9):
        source = stopping(
            ChatGpt(history.open_source(folder, history.Options()).files, history.Options()), after
        )
        with pytest.raises(StopError):
            await history.Importer(opened, Memory(opened), source).run()
    await bring(opened, folder)
    assert [row[0] for row in await rows(opened, _FILES)] == [f"{n}.txt" for n in range(8)]
    assert sorted(_kept(opened).values()) == [f"text {n}".encode() for n in range(8)]


async def test_undoing_a_killed_import_takes_files_along_whose_messages_were_not_recorded(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.mbox").write_text(_mail(1, ("a.bin", b"shared")))
    (tmp_path / "b.mbox").write_text(_mail(2, ("b.bin", b"only here"), ("c.bin", b"shared")))
    await bring(opened, tmp_path / "a.mbox")

    def killed(self: Batch, connection: apsw.Connection) -> int:
        raise StopError

    monkeypatch.setattr(Batch, "record", killed)
    with pytest.raises(StopError):
        await bring(opened, tmp_path / "b.mbox")
    assert sorted(_kept(opened).values()) == [b"only here", b"shared"]
    [(_,), (second,)] = await rows(opened, "SELECT id FROM imports ORDER BY created_at, id")
    await _undo(opened, second)
    assert list(_kept(opened).values()) == [b"shared"]
    assert list((opened.home.run / "imports").iterdir()) == []


async def test_a_batch_counts_the_bytes_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_BATCH_BYTES", 10_000)
    (tmp_path / "a.mbox").write_text("".join(_mail(n, ("a.bin", bytes(6_000))) for n in range(10)))
    source = history.open_source(tmp_path / "a.mbox", history.Options())
    held = [len(chunk.messages) for chunk in importer.chunks(source, None)]
    assert max(held) <= 2


async def test_a_damaged_file_of_an_archive_is_counted(opened: Ledgers, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("_chat.txt", "[13/02/2026, 10:00:00] Anna: <attached: IMG-1.jpg>\n")
        archive.writestr("IMG-1.jpg", b"picture " * 100)
    data = (tmp_path / "x.zip").read_bytes().replace(b"picture picture", b"picture pictore", 1)
    (tmp_path / "x.zip").write_bytes(data)
    done = await bring(opened, tmp_path / "x.zip")
    assert (done.messages, done.set_aside.total) == (1, 1)
    assert _kept(opened) == {}


def test_a_stream_that_breaks_off_leaves_nothing_behind(home: Home, tmp_path: Path) -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        attachments.keep_stream(
            home,
            cast("Any", Broken()),
            name="a",
            media_type="text/plain",
            most_bytes=9,
        )
    assert [path for path in (home.root / "state/attachments").rglob("*") if path.is_file()] == []
