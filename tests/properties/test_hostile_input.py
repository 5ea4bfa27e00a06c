"""Mail, HTML, archives, webhooks and attachments, garbled at random: each is read or refused, and in time."""

import io
import json
import random
import tempfile
import time
import zipfile
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path

import pytest

from attached_files import png
from hostile import FOUND, slow_mail
from long_form import times
from nexus import attachments, history
from nexus.attachments import File
from nexus.channels import wire
from nexus.channels.adapter import Message, MessageError
from nexus.channels.email import parsing
from nexus.channels.webhook import Webhook
from nexus.errors import CareError, UsageError
from nexus.history.items import Item
from unit.history.samples import SAMPLES

_MOST_CPU_S = 2.0
_PIECES = (
    b"<a ", b"<!--", b"<![", b"<blockquote>", b"&#x", b"</p>", b"\0", b"\r\n\r\n", b"--b\r\n", b"(", b'"',
    b"\xff",
    b"=?utf-8?q?=40?=", b"Content-Type: multipart/mixed; boundary=b\r\n\r\n", b"{", b"[", b"\\ud800",
    b"PK\x03\x04", b"From \n", b"9" * 5_000, b"../", b"%PDF-1.4\n", b"BEGIN:VCARD\n", b"---\n", b"&a *a ",
)  # fmt: skip


def _mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = (
        "Eve <eve@evil.example>",
        "agent@nexus.example",
        "=?utf-8?q?Z?=",
    )
    mail["Received"], mail["References"] = "from evil.example by mx.example.org; x", "<a@b> <c@d>"
    mail.set_content("Hello\n> quoted\n")
    mail.add_alternative("<p>Hello<blockquote>quoted</blockquote><table><tr><td>x</table>", subtype="html")
    mail.add_attachment(png(), maintype="image", subtype="png", filename="a.png")
    return mail.as_bytes()


def _read_mail(data: bytes) -> None:
    with suppress(MessageError):
        parsing.message(data, own=frozenset(), auth_server="mx.example.org")


def _read_html(data: bytes) -> None:
    _read_mail(b"From: eve@evil.example\r\nContent-Type: text/html\r\n\r\n" + data)


def _read_export(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        with suppress(CareError, UsageError):
            source = history.open_source(path, history.Options())
            assert all(isinstance(each, Item) for each in source.read(None))


def _read_webhook(data: bytes) -> None:
    hook = Webhook("desk", secret="0123456789abcdef" * 2)
    with suppress(MessageError):
        assert isinstance(hook._message({}, data), Message)  # pyright: ignore[reportPrivateUsage]
    with suppress(MessageError):
        wire.message(wire.parsed(data))


def _read_attachment(data: bytes) -> None:
    with suppress(UsageError):
        attachments.checked(File(name="a", data=data), 1_000_000)


def _archives() -> list[bytes]:
    made: list[bytes] = []
    for members in SAMPLES.values():
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        made.append(held.getvalue())
    return made


_HOOK = json.dumps(
    {"type": "message", "id": "1", "thread": "t", "sender": "me", "text": "x",
     "files": [{"name": "a", "media_type": "image/png", "data": b64encode(png()).decode()}]}
).encode()  # fmt: skip
_TARGETS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "mail": (_read_mail, [_mail()]),
    "html": (
        _read_html,
        [b"<html><head><title>t</title></head><p>a<br><blockquote>b</blockquote>"],
    ),
    "archive": (lambda data: _read_export(data, "x.zip"), _archives()),
    **{
        f"export {Path(name).suffix}": ((lambda data, name=name: _read_export(data, Path(name).name)), [data])
        for members in SAMPLES.values()
        for name, data in members.items()
    },
    "webhook": (_read_webhook, [_HOOK]),
    "attachment": (_read_attachment, [png(), b"%PDF-1.4\n", b"text"]),
}


def _garbled(whole: bytes, chance: random.Random) -> bytes:
    data = bytearray(whole)
    for _ in range(chance.randrange(1, 12)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[place : place + chance.randrange(1, 60)]
            case 2:
                data[place:place] = data[place : place + 40] * 3
            case _:
                data[place:place] = chance.choice(_PIECES) * chance.choice((1, 1, 3, 2_000))
    return bytes(data)


def _check(read: Callable[[bytes], None], data: bytes, what: object) -> None:
    begun = time.process_time()
    read(data)
    assert time.process_time() - begun < _MOST_CPU_S, what


@pytest.mark.parametrize("target", _TARGETS)
def test_no_input_holds_a_channel_or_ends_an_import(target: str) -> None:
    read, wholes = _TARGETS[target]
    for seed in range(times(20, long=20_000 // len(_TARGETS) + 1)):
        chance = random.Random(f"{target} {seed}")
        _check(read, _garbled(chance.choice(wholes), chance), (target, seed))


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_before_is_read_or_refused(name: str) -> None:
    for read, _ in _TARGETS.values():
        _check(read, FOUND[name], name)


def test_a_mail_that_takes_minutes_is_given_up() -> None:
    _check(_read_mail, slow_mail(), "slow")
    with pytest.raises(MessageError, match="too much"):
        parsing.message(slow_mail(), own=frozenset(), auth_server="")
