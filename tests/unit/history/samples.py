"""A small authored export of every format that can be imported: the names of its files, and their bytes."""

import base64
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import apsw

from unit.history.exports import conversation, long_conversation, mail, node

PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(24)
_AT: Final = "2024-05-01T10:00:00Z"


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: dict[str, Any]) -> bytes:
    return b"\n".join(map(_json, values)) + b"\n"


def _chatgpt() -> dict[str, bytes]:
    pictured = conversation(
        "p", "a",
        node("q", None, "a", role="user", create_time=1_700_000_000, content={
            "content_type": "multimodal_text",
            "parts": [{"asset_pointer": "file-service://file-Cat1", "size_bytes": 32}, "What is this?"],
        }),
        node("a", "q", role="assistant", text="A cat.", create_time=1_700_000_001),
    )  # fmt: skip
    whole = [pictured, *(long_conversation(f"c{number}", 4) for number in range(3))]
    return {"conversations.json": _json(whole), "file-Cat1-cat.png": PNG}


def _claude() -> dict[str, bytes]:
    def said(number: int) -> list[dict[str, Any]]:
        file = {"file_name": "a.txt", "file_size": 4, "extracted_content": "text"}
        return [
            {"uuid": f"q{number}", "sender": "human", "text": "Hi", "created_at": _AT, "attachments": [file]},
            {"uuid": f"a{number}", "sender": "assistant", "created_at": _AT,
             "content": [{"type": "text", "text": "Hello"}, {"type": "tool_use", "name": "x", "input": {}}]},
        ]  # fmt: skip

    talks = [{"uuid": f"c{n}", "name": "Talk", "created_at": _AT, "chat_messages": said(n)} for n in range(4)]
    return {"conversations.json": _json(talks)}


def _image() -> dict[str, Any]:
    data = base64.b64encode(PNG).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _claude_code() -> dict[str, bytes]:
    def line(number: int, role: str, content: Any) -> dict[str, Any]:
        return {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s",
                "timestamp": _AT, "type": role, "message": {"role": role, "content": content}}  # fmt: skip

    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "content": [{"type": "text", "text": "a b"}]}
    return {
        "project/s.jsonl": _lines(
            line(0, "user", "Fix it"), line(1, "assistant", [{"type": "text", "text": "Looking"}, call]),
            line(2, "user", [result]), line(3, "user", [_image(), {"type": "text", "text": "And this"}]),
        )
    }  # fmt: skip


def _codex() -> dict[str, bytes]:
    def message(role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        return {"timestamp": _AT, "type": "response_item", "payload": item}

    call = {"type": "function_call", "name": "shell", "arguments": "{}"}
    return {
        "2025/rollout-1.jsonl": _lines(
            message("user", "Hi"), message("assistant", "Hello"), {"type": "response_item", "payload": call},
            message("user", "Thanks"),
        )
    }  # fmt: skip


def _openclaw() -> dict[str, bytes]:
    def line(number: int, role: str, content: Any) -> dict[str, Any]:
        return {"type": "message", "id": f"m{number}", "timestamp": _AT,
                "message": {"role": role, "content": content}}  # fmt: skip

    return {
        "agents/main/sessions/s.jsonl": _lines(
            {"type": "session", "version": 3, "id": "s"}, line(0, "user", "Hi"),
            line(1, "assistant", [{"type": "text", "text": "Hello"}]), line(2, "toolResult", "done"),
        )
    }  # fmt: skip


def _slack() -> dict[str, bytes]:
    def message(number: int) -> dict[str, Any]:
        return {"type": "message", "user": "U1", "ts": f"170000000{number}.000100",
                "text": f"Hi <@U1> {number}",
                "files": [{"id": "F1", "name": "a.png", "mimetype": "image/png"}]}  # fmt: skip

    return {
        "users.json": _json([{"id": "U1", "name": "ada", "profile": {"real_name": "Ada"}}]),
        "channels.json": _json([{"id": "C1", "name": "general"}]),
        "general/2023-11-14.json": _json([message(number) for number in range(4)]),
        "__uploads/F1/a.png": PNG,
    }


def _telegram() -> dict[str, bytes]:
    def message(number: int) -> dict[str, Any]:
        return {"id": number, "type": "message", "date": _AT, "date_unixtime": f"{1_714_557_600 + number}",
                "from": "Bob", "from_id": "user8", "text": f"Nice {number}", "text_entities": [],
                "photo": "photos/p.jpg"}  # fmt: skip

    chat = {"name": "Bob", "type": "personal_chat", "id": 99, "messages": [message(n) for n in range(4)]}
    whole = {"personal_information": {"user_id": 7}, "chats": {"list": [chat]}}
    return {"result.json": _json(whole), "photos/p.jpg": PNG}


def _whatsapp() -> dict[str, bytes]:
    lines = [f"13.02.26, 10:0{number} - Anna: Hallo {number}\nzweite Zeile" for number in range(4)]
    return {
        "_chat.txt": "\n".join([*lines, "14.02.26, 18:30 - Max: IMG-1.jpg (Datei angehängt)"]).encode(),
        "IMG-1.jpg": PNG,
    }


APPLE_TABLES = (
    "CREATE TABLE message (ROWID INTEGER PRIMARY KEY, guid TEXT, text TEXT, attributedBody BLOB, "
    "date INTEGER, is_from_me INTEGER, handle_id INTEGER, thread_originator_guid TEXT, "
    "date_edited INTEGER, associated_message_type INTEGER, item_type INTEGER);"
    "CREATE TABLE handle (ROWID INTEGER PRIMARY KEY, id TEXT);"
    "CREATE TABLE chat (ROWID INTEGER PRIMARY KEY, chat_identifier TEXT, display_name TEXT);"
    "CREATE TABLE chat_message_join (chat_id INTEGER, message_id INTEGER);"
    "CREATE TABLE attachment (ROWID INTEGER PRIMARY KEY, filename TEXT, transfer_name TEXT, "
    "mime_type TEXT, total_bytes INTEGER);"
    "CREATE TABLE message_attachment_join (message_id INTEGER, attachment_id INTEGER);"
)
"""What Apple's `chat.db` has, as far as it is read."""


def _imessage() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(f"{folder}/chat.db")
        connection.execute(
            APPLE_TABLES + "INSERT INTO handle VALUES (1, '+4917012345678');"
            "INSERT INTO chat VALUES (1, '+4917012345678', NULL);"
            "INSERT INTO chat_message_join VALUES (1, 1), (1, 2), (1, 3), (1, 4);"
            "INSERT INTO attachment VALUES "
            "(1, '~/Library/Messages/Attachments/a/x.png', 'x.png', 'image/png', 4);"
            "INSERT INTO message_attachment_join VALUES (2, 1)"
        )
        for number in range(1, 5):
            values = (number, f"g{number}", f"Hello {number}", 700_000_000 * 10**9 + number)
            connection.execute("INSERT INTO message VALUES (?, ?, ?, NULL, ?, 0, 1, NULL, 0, 0, 0)", values)
        connection.close()
        return {"chat.db": Path(folder, "chat.db").read_bytes(), "Attachments/a/x.png": PNG}


def _mail(number: int) -> str:
    part = f"--X\nContent-Type: text/plain\n\nText {number}\n"
    file = (
        f'--X\nContent-Type: image/png; name="a.png"\nContent-Transfer-Encoding: base64\n\n{_PACKED}\n--X--\n'
    )
    return mail(number, Content_Type="multipart/mixed; boundary=X", body=part + file)


_PACKED: Final = base64.b64encode(PNG).decode()
_CARDS: Final = "".join(
    f"BEGIN:VCARD\nVERSION:3.0\nFN:Ada {n}\nEMAIL:ada{n}@example.com\nBDAY:1990-04-01\nEND:VCARD\n"
    for n in range(4)
)
_EVENTS: Final = "".join(
    f"BEGIN:VEVENT\nUID:{n}\nDTSTART:20240501T100000Z\nSUMMARY:Tea {n}\n"
    "ATTENDEE;CN=Ada:mailto:ada@example.com\nEND:VEVENT\n"
    for n in range(4)
)
_LETTA: Final = {
    "agents": [{"messages": [{"id": f"l{n}", "role": "user", "content": "Yo"} for n in range(3)]}],
    "blocks": [{"id": "b1", "label": "human", "value": "Lives in Ghent"}],
}

SAMPLES: Final[dict[str, dict[str, bytes]]] = {
    "chatgpt": _chatgpt(),
    "claude": _claude(),
    "slack": _slack(),
    "telegram": _telegram(),
    "whatsapp": _whatsapp(),
    "mbox": {"a.mbox": (mail(1) + _mail(2) + mail(3) + _mail(4)).encode()},
    "maildir": {f"cur/{n}": _mail(n).partition("\n")[2].encode() for n in range(4)},
    "imessage": _imessage(),
    "vcard": {"a.vcf": _CARDS.encode()},
    "icalendar": {"a.ics": f"BEGIN:VCALENDAR\n{_EVENTS}END:VCALENDAR\n".encode()},
    "openclaw": _openclaw(),
    "codex": _codex(),
    "claude-code": _claude_code(),
    "letta": {"a.af": _json(_LETTA)},
    "hindsight": {
        "h.json": _json({"items": [{"id": f"h{n}", "text": "Dog", "fact_type": "world"} for n in range(4)]})
    },
    "zep": {
        "z.json": _json(
            {"messages": [{"uuid": f"z{n}", "role_type": "user", "content": "Hi"} for n in range(4)]}
        )
    },
    "mem0": {"m.json": _json({"results": [{"id": f"m{n}", "memory": "Tea"} for n in range(4)]})},
    "jsonl": {"a.jsonl": _lines(*({"id": n, "role": "user", "text": f"t {n}"} for n in range(9)))},
    "markdown": {
        f"note {n}.md": f"---\ndate: 2024-05-0{n + 1}\n---\n# Note\n\nText {n}".encode() for n in range(4)
    },
}  # fmt: skip


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Put the files of an export into a folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder
