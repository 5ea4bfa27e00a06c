"""Slack, WhatsApp in three locales, Telegram, and Apple's Messages."""

import json
import zipfile
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw
import pytest

from nexus.ledgers import Ledgers
from unit.history.exports import bring, rows, said
from unit.history.samples import APPLE_TABLES


async def test_a_slack_export(opened: Ledgers, tmp_path: Path) -> None:
    users = [
        {"id": "U1", "name": "me", "real_name": "Max"},
        {
            "id": "U2",
            "name": "ada",
            "real_name": "Ada",
            "profile": {"real_name": "Ada L", "email": "Ada@Example.com"},
        },
    ]
    day = [
        {
            "type": "message",
            "subtype": "channel_join",
            "user": "U2",
            "ts": "1700000000.000100",
            "text": "joined",
        },
        {
            "type": "message",
            "user": "U1",
            "ts": "1700000001.000100",
            "text": "Hi <@U2>, see <https://x.example|this> &amp; that",
            "thread_ts": "1700000001.000100",
            "reply_count": 1,
        },
        {
            "type": "message",
            "user": "U2",
            "ts": "1700000002.000100",
            "text": "Nice",
            "thread_ts": "1700000001.000100",
            "edited": {"ts": "1"},
            "files": [{"name": "a.png", "mimetype": "image/png", "size": 5}],
        },
        {
            "type": "message",
            "subtype": "tombstone",
            "ts": "1700000003.000100",
            "text": "This message was deleted.",
        },
    ]
    with zipfile.ZipFile(tmp_path / "slack.zip", "w") as archive:
        archive.writestr("users.json", json.dumps(users))
        archive.writestr("channels.json", json.dumps([{"id": "C1", "name": "general"}]))
        archive.writestr("general/2023-11-14.json", json.dumps(day))
    done = await bring(opened, tmp_path / "slack.zip", owner=("me",))
    assert done.source == "slack"
    assert await said(opened) == [
        ("inbound", "owner", "Hi @Ada, see this (https://x.example) & that"),
        ("inbound", "Ada L", "Nice"),
    ]
    assert await rows(
        opened, "SELECT DISTINCT t.external_id FROM events JOIN threads AS t ON t.id = thread_id"
    ) == [("C1/1700000001.000100",)]
    aliases = await rows(opened, "SELECT normalized FROM entity_aliases WHERE type = 'email'", "identity")
    assert aliases == [("ada@example.com",)]


_WHATSAPP = {
    "German Android": "13.02.26, 09:59 - Nachrichten sind verschlüsselt.\n"
    "13.02.26, 10:00 - Anna: Hallo: du\nzweite Zeile\n14.02.26, 18:30 - Max: IMG-1.jpg (Datei angehängt)\n",
    "American Android": "2/13/26, 9:59\u202fAM - Messages are encrypted.\n"
    "2/13/26, 10:00\u202fAM - Anna: Hallo: du\nzweite Zeile\n"
    "2/14/26, 6:30\u202fPM - Max: IMG-1.jpg (file attached)\n",
    "British iPhone": "[13/02/2026, 09:59:00] Anna & Max: \u200eMessages are encrypted.\r\n"
    "[13/02/2026, 10:00:00] Anna: Hallo: du\r\nzweite Zeile\r\n"
    "\u200e[14/02/2026, 18:30:00] Max: \u200e<attached: IMG-1.jpg>\r\n",
}


@pytest.mark.parametrize("locale", sorted(_WHATSAPP))
async def test_whatsapp_in_three_locales(opened: Ledgers, tmp_path: Path, locale: str) -> None:
    path = tmp_path / "WhatsApp Chat with Anna.txt"
    path.write_bytes(_WHATSAPP[locale].encode())
    done = await bring(opened, path, owner=("Max",), timezone=ZoneInfo("Europe/Berlin"))
    assert done.source == "whatsapp"
    found = await rows(
        opened,
        "SELECT sender, content, occurred_at FROM events WHERE sender IN ('owner', 'Anna') ORDER BY seq",
    )
    assert found[0] == ("Anna", "Hallo: du\nzweite Zeile", "2026-02-13T09:00:00.000Z")
    assert (found[1][0], found[1][2]) == ("owner", "2026-02-14T17:30:00.000Z")
    assert await rows(opened, "SELECT filename FROM attachments") == [("IMG-1.jpg",)]
    assert await rows(opened, "SELECT title FROM threads") == [("Anna",)]


async def test_ambiguous_dates_are_told_by_their_order(opened: Ledgers, tmp_path: Path) -> None:
    lines = ["1/5/26, 10:00 - A: x", "1/6/26, 10:00 - A: y", "2/1/26, 10:00 - A: z"]
    (tmp_path / "chat.txt").write_text("\n".join(lines))
    await bring(opened, tmp_path / "chat.txt")
    found = await rows(opened, "SELECT substr(occurred_at, 1, 10) FROM events ORDER BY seq")
    assert found == [("2026-01-05",), ("2026-01-06",), ("2026-02-01",)]


async def test_the_same_words_in_the_same_minute_are_two_messages(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text("13.02.26, 10:00 - A: ha\n13.02.26, 10:00 - A: ha\n")
    assert (await bring(opened, tmp_path / "chat.txt")).messages == 2
    assert (await bring(opened, tmp_path / "chat.txt")).known == 2


async def test_telegrams_export_of_everything(opened: Ledgers, tmp_path: Path) -> None:
    messages = [
        {"id": 1, "type": "service", "date": "2024-05-01T10:00:00", "action": "invite", "text": ""},
        {
            "id": 2,
            "type": "message",
            "date": "2024-05-01T10:00:00",
            "date_unixtime": "1714557600",
            "from": "Max",
            "from_id": "user7",
            "text": ["Look: ", {"type": "link", "text": "https://x.example"}],
        },
        {
            "id": 3,
            "type": "message",
            "date": "2024-05-01T10:01:00",
            "date_unixtime": "1714557660",
            "from": "Bob",
            "from_id": "user8",
            "text": "Nice",
            "reply_to_message_id": 2,
            "edited": "2024-05-01T10:02:00",
            "photo": "photos/p.jpg",
        },
    ]
    whole = {
        "about": "x",
        "personal_information": {"user_id": 7, "first_name": "Max"},
        "contacts": {"list": [{"first_name": "Bob"}]},
        "chats": {
            "about": "y",
            "list": [{"name": "Bob", "type": "personal_chat", "id": 99, "messages": messages}],
        },
    }
    (tmp_path / "result.json").write_text(json.dumps(whole, indent=1))
    done = await bring(opened, tmp_path / "result.json")
    assert done.source == "telegram"
    assert await said(opened) == [("inbound", "owner", "Look: https://x.example"), ("inbound", "Bob", "Nice")]
    assert await rows(opened, "SELECT external_id, title FROM threads") == [("99", "Bob")]
    assert await rows(opened, "SELECT occurred_at FROM events WHERE seq = 1") == [
        ("2024-05-01T10:00:00.000Z",)
    ]


async def test_apples_messages(opened: Ledgers, tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "chat.db"))
    connection.execute(
        APPLE_TABLES + "INSERT INTO handle VALUES (1, '+4917012345678');"
        "INSERT INTO chat VALUES (1, '+4917012345678', NULL);"
        "INSERT INTO chat_message_join VALUES (1, 1), (1, 2), (1, 3)"
    )
    body = b"\x04\x0bstreamtyped\x81\xe8\x03NSAttributedString\x00NSString\x01\x94\x84\x01+\x06Hello!\x86"
    date = 700_000_000 * 10**9
    add = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, 1, NULL, 0, ?, 0)"
    connection.execute(add, (1, "g1", None, body, date, 0, 0))
    connection.execute(add, (2, "g2", "Hi", None, date + 10**9, 1, 0))
    connection.execute(add, (3, "g3", "Loved “Hi”", None, date + 2 * 10**9, 0, 2000))
    connection.close()
    done = await bring(opened, tmp_path / "chat.db")
    assert done.source == "imessage"
    assert await said(opened) == [("inbound", "+4917012345678", "Hello!"), ("inbound", "owner", "Hi")]
    assert await rows(opened, "SELECT occurred_at FROM events WHERE seq = 1") == [
        ("2023-03-08T20:26:40.000Z",)
    ]
