"""Mail becomes messages: who wrote, in which conversation, and what is new in it."""

import base64
import random
import threading
import time
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from attached_files import png
from nexus.channels import email, kinds
from nexus.channels.adapter import Message, MessageError
from nexus.config import ChannelConfig
from nexus.history import parser_process
from nexus.history.parser_process import UnreadableError

_OWN = frozenset({"agent@nexus.example"})
_SERVER = "mx.nexus.example"
_PASS = f"{_SERVER}; dmarc=pass (p=REJECT) header.from=home.example"


def _mail(text: str = "Hello", *, results: str | None = _PASS, **headers: str) -> EmailMessage:
    mail = EmailMessage()
    if results is not None:
        mail["Authentication-Results"] = results
    given = {
        "From": "Hana Ito <hana@home.example>",
        "To": "agent@nexus.example",
        "Message-ID": "<1@home.example>",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    for name, value in given.items():
        mail[name] = value
    mail.set_content(text)
    return mail


def _read(mail: EmailMessage | bytes, server: str = _SERVER) -> Message:
    data = mail if isinstance(mail, bytes) else mail.as_bytes()
    found = email.parse_message(data, own=_OWN, auth_server=server)
    assert found is not None
    return found.validate()


def test_a_mail_begins_a_conversation_with_its_subject() -> None:
    message = _read(_mail("Hello\n\nHana", Subject="=?utf-8?q?Z=C3=BCrich?= next week"))
    assert message.text == "Zürich next week\n\nHello\n\nHana"
    assert message.title == "Zürich next week"
    assert (message.id, message.sender, message.sender_name) == (
        "1@home.example",
        "hana@home.example",
        "Hana Ito",
    )
    assert message.thread == "hana@home.example 1@home.example"
    assert message.is_verified
    assert not message.is_group
    assert not message.is_automatic


def test_replies_belong_to_the_first_mail_of_their_conversation() -> None:
    reply = _mail(
        Message_ID="<3@home.example>",
        References="<1@home.example> <2@nexus.example>",
        In_Reply_To="<2@nexus.example>",
        Subject="Re: Trip",
    )
    message = _read(reply)
    assert message.thread == "hana@home.example 1@home.example"
    assert (message.text, message.title) == ("Hello", "Trip")
    other = _read(_mail(From="sam@away.example", In_Reply_To="<1@home.example>"))
    assert other.thread != message.thread, "who knows an id doesn't get into somebody's conversation"


@pytest.mark.parametrize(
    "results",
    [
        f"{_SERVER}; dmarc=pass header.from=home.example",
        f"{_SERVER} 1; spf=softfail smtp.mailfrom=x@y.example; dkim=pass (2048-bit) header.d=home.example",
        f"{_SERVER.upper()}; dkim = pass header.i=@HOME.example",
        f"{_SERVER}; spf=pass smtp.mailfrom=hana@home.example",
    ],
)
def test_the_mail_server_vouches_for_the_sender(results: str) -> None:
    assert _read(_mail(results=results)).is_verified


@pytest.mark.parametrize(
    "results",
    [
        None,
        f"{_SERVER}; dmarc=fail header.from=home.example",
        f"{_SERVER}; dmarc=pass header.from=evil.example",
        f"{_SERVER}; dkim=pass header.d=evil.example; spf=pass smtp.mailfrom=evil.example",
        f"{_SERVER}; spf=pass smtp.mailfrom=hana@home.example.evil.example",
        f"{_SERVER}; dkim=pass header.d=example",
        "mx.evil.example; dmarc=pass header.from=home.example",
        f"mx.evil.example ({_SERVER}); dmarc=pass header.from=home.example",
        f'{_SERVER}; spf=fail smtp.mailfrom="x; dmarc=pass header.from=home.example"@evil.example',
        f"{_SERVER}; spf=fail (; dmarc=pass header.from=home.example ;) smtp.mailfrom=evil.example",
        f"{_SERVER}; none",
    ],
)
def test_a_forged_sender_is_not_vouched_for(results: str | None) -> None:
    assert not _read(_mail(results=results)).is_verified


def test_only_what_the_own_server_wrote_on_top_counts() -> None:
    own = f"Authentication-Results: {_SERVER}; dmarc=fail header.from=home.example\r\n".encode()
    assert not _read(own + _mail().as_bytes()).is_verified
    foreign = b"Authentication-Results: mx.evil.example; dmarc=fail header.from=home.example\r\n"
    assert _read(foreign + _mail().as_bytes()).is_verified
    assert not _read(_mail(), server="").is_verified, "nobody is named whose word counts"


def test_two_senders_are_none_that_can_be_vouched_for() -> None:
    second = b"From: hana@home.example\r\n"
    for data in (
        second + _mail(From="eve@evil.example").as_bytes(),
        _mail(results=_PASS).as_bytes().replace(b"From: Hana Ito <", b"From: <eve@evil.example>, Hana <"),
    ):
        assert not _read(data).is_verified


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Auto_Submitted": "auto-generated; x=y"},
        {"Precedence": "bulk"},
        {"List_Id": "<talk.lists.example>"},
        {"Return_Path": "<>"},
        {"From": "mailer-daemon@home.example"},
        {"X_Auto_Response_Suppress": "All"},
    ],
)
def test_programs_and_lists_are_recognized(headers: dict[str, str]) -> None:
    assert _read(_mail(**headers)).is_automatic


def test_the_agents_own_mail_is_not_handed_over() -> None:
    own = _mail(From="Agent <Agent@nexus.example>").as_bytes()
    assert email.parse_message(own, own=_OWN, auth_server=_SERVER) is None


def test_others_who_read_along_make_a_group() -> None:
    named = _read(_mail(To="agent@nexus.example, sam@away.example"))
    assert (named.is_group, named.is_addressed, named.thread) == (True, True, "1@home.example")
    copied = _read(_mail(To="sam@away.example", Cc="agent@nexus.example"))
    assert (copied.is_group, copied.is_addressed) == (True, False)
    alias = _read(_mail(To="nexus@home.example", Delivered_To="nexus@home.example"))
    assert not alias.is_group


@pytest.mark.parametrize(
    ("text", "new"),
    [
        (
            "Yes.\n\nOn Mon, 3 Nov 2025 at 10:00, Agent\n<agent@nexus.example> wrote:\n\n> Shall I?\n",
            "Yes.",
        ),
        ("Ja.\n\nAm 3. November schrieb Agent:\n> Soll ich?\n", "Ja."),
        ("Yes.\n\n-----Original Message-----\nFrom: Agent\nShall I?", "Yes."),
        ("Yes.\n\nFrom: Agent\nSent: Monday\nTo: Hana\nSubject: Trip\n\nShall I?", "Yes."),
        ("Yes.\n\n________________________________\nFrom: Agent\nShall I?", "Yes."),
        ("Yes.\n-- \nHana Ito\n+41", "Yes."),
        ("> Shall I?\nYes.\n> And now?\nNo.", "> Shall I?\nYes.\n> And now?\nNo."),
        ("> Only a quote", "> Only a quote"),
        ("Note:\nthe code is:\n> 4711", "Note:\nthe code is:"),
    ],
)
def test_only_what_is_new_in_a_reply_is_read(text: str, new: str) -> None:
    assert _read(_mail(text, In_Reply_To="<2@nexus.example>")).text == new
    assert text.strip() in _read(_mail(text)).text, "a first mail is read whole: it may forward something"


def test_html_is_read_without_what_it_hides_or_quotes() -> None:
    mail = _mail(In_Reply_To="<2@nexus.example>")
    mail.set_content(
        "<html><head><style>p {}</style></head><body><p>See you <b>at 10</b>.</p><script>x()</script>"
        '<div class="quote">On Monday, Agent wrote:<br><blockquote>When?<p>Agent</p></blockquote></div>',
        subtype="html",
    )
    assert _read(mail).text == "See you at 10."


def test_files_come_along() -> None:
    mail = _mail("See the picture.")
    mail.add_related(png(), maintype="image", subtype="png", cid="<logo>", disposition="inline")
    mail.add_attachment(png(), maintype="image", subtype="png", filename="dögs.png")
    mail.add_attachment(_mail("Inner words", Subject="Inner"))
    message = _read(mail)
    assert message.text == "See the picture."
    assert [(file.name, file.media_type) for file in message.files] == [
        ("dögs.png", "image/png"),
        ("mail.eml", "message/rfc822"),
    ]
    assert message.files[0].data == png()
    assert b"Inner words" in message.files[1].data


def test_a_mail_without_an_id_has_the_same_one_each_time() -> None:
    data = _mail().as_bytes().replace(b"Message-ID", b"X-Nothing")
    assert _read(data).id == _read(data).id != "1@home.example"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff\xfe",
        b"From: \r\n\r\nHello",
        b"From: <>\r\n\r\nHello",
        b"Subject: no sender\r\n\r\nHello",
    ],
)
def test_what_has_no_sender_is_no_message(data: bytes) -> None:
    with pytest.raises(MessageError):
        _read(data)


@pytest.mark.parametrize("part", [b"<a ", b"<!", b"<!--", b"&", b"<![", b"</a ", b"<?", b"<script>"])
def test_no_html_is_read_in_the_process_of_the_channel(part: bytes) -> None:
    html = b"From: eve@evil.example\r\nContent-Type: text/html\r\n\r\nHello" + part * 8_000
    begun = time.process_time()
    assert _read(html).text.startswith("Hello")
    assert time.process_time() - begun < 1
    _tried(b"From: " + b"a@b.example, " * 100_000 + b"\r\n\r\nHello")
    assert time.process_time() - begun < 2


def test_a_mail_that_takes_too_much_memory_is_unread_and_the_next_one_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parser_process, "_MEMORY_BYTES", 200_000_000)
    process = parser_process.ParserProcess()
    try:
        with pytest.raises(UnreadableError):
            process.read_mail(b"From: eve@evil.example\r\n\r\n" + b"x\n" * 20_000_000)
        assert process.read_mail(_mail("Hello").as_bytes()).text == "Hello"
    finally:
        process.close()


def test_the_parser_sees_nothing_of_the_machine() -> None:
    process = parser_process.ParserProcess()
    try:
        assert process.read_mail(_mail("Hello").as_bytes()).text == "Hello"
        running = process._process  # pyright: ignore[reportPrivateUsage]
        assert running is not None
        mine = Path("/proc/self/ns")
        [inner] = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        for kind in ("net", "pid", "mnt", "user"):
            assert Path(f"/proc/{inner}/ns/{kind}").readlink() != (mine / kind).readlink()
        assert not Path(f"/proc/{inner}/root/home").exists()
        assert not Path(f"/proc/{inner}/root/etc/hostname").exists()
    finally:
        process.close()


def test_the_parser_outlives_the_thread_that_began_it() -> None:
    process = parser_process.ParserProcess()
    try:
        began = threading.Thread(target=process.read_mail, args=(_mail("Hello").as_bytes(),))
        began.start()
        began.join()
        running = process._process  # pyright: ignore[reportPrivateUsage]
        assert process.read_mail(_mail("Again").as_bytes()).text == "Again"
        assert process._process is running  # pyright: ignore[reportPrivateUsage]
    finally:
        process.close()


def test_large_files_come_through_whole() -> None:
    data = random.Random(3).randbytes(1_000_000)
    mail, inner = _mail("See the files."), _mail("Inner")
    for each in (inner, mail):
        each.add_attachment(data, maintype="application", subtype="zip", filename="a.zip")
    mail.add_attachment(inner)
    mail.add_attachment(base64.encodebytes(data).decode(), filename="armored.txt")
    found = _read(mail).files
    assert found[0].data == data
    assert found[2].data.decode().split() == base64.encodebytes(data).decode().split()
    assert _read(found[1].data).files[0].data == data


def test_different_addresses_are_different_senders() -> None:
    def read(address: str, domain: str = "") -> Message:
        results = f"{_SERVER}; dmarc=pass header.from={domain or address.partition('@')[2]}"
        return _read(f"Authentication-Results: {results}\r\nFrom: {address}\r\n\r\nHi".encode())

    one, two = read("jörg@müller.example"), read("järg@möller.example")
    assert one.is_verified
    assert two.is_verified
    assert one.sender != two.sender
    assert read("jörg@xn--mller-kva.example", "müller.example").sender == one.sender
    assert not read("jörg@müller.example", "möller.example").is_verified
    owner = ChannelConfig(kind="email", owner=("Jörg@müller.example", "me@strasse.example", "k@kelvin.test"))
    assert kinds.is_owner(owner, one)
    assert not kinds.is_owner(owner, two)
    assert not kinds.is_owner(owner, read("me@straße.example"))
    for lookalike in ("\u212a@kelvin.test", "k@\u212aelvin.test"):
        with suppress(MessageError):
            assert not kinds.is_owner(owner, read(lookalike))


@pytest.mark.parametrize(
    "sender",
    [
        "=?utf-8?q?victim=40bank.example?=@evil.example",
        "=?utf-8?q?a=3E=2C_=3Cvictim=40bank.example?=@evil.example",
        "a@evil.example=?utf-8?q?=2Cvictim=40bank.example?=",
        "a\\xfcb@evil.example",
    ],
)
def test_an_address_that_would_become_another_in_the_answer_is_none(sender: str) -> None:
    with pytest.raises(MessageError, match="no sender"):
        _read(f"From: {sender}\r\n\r\nHello".encode())


def test_what_is_cut_off_of_a_mail_never_says_who_wrote_it() -> None:
    for top in (b"X-More: 1\r\n" * 1_001, b"From: hana@home.example (" + b"x" * 20_000 + b")\r\n"):
        assert _tried(top + _mail().as_bytes()) is None


def test_broken_mail_never_does_more_than_fail() -> None:
    """Bytes are changed, cut and repeated at random: a message comes out, or a MessageError."""
    mail = _mail("Hello\n> quoted", References="<a@b> <c@d>", Subject="=?utf-8?q?Z=C3=BCrich?=")
    mail.add_attachment(png(), maintype="image", subtype="png", filename="a.png")
    chance, whole = random.Random(11), mail.as_bytes()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            place = chance.randrange(len(data))
            change = chance.randrange(3)
            if change == 0:
                data[place] = chance.randrange(256)
            elif change == 1:
                del data[place : place + chance.randrange(1, 60)]
            else:
                data[place:place] = data[place : place + 40] * 3
        _tried(bytes(data))
    deep = b"From: a@b.c\r\n" + b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (n, n) for n in range(3_000)
    )
    _tried(deep)
    _tried(b'From: a@b.c\r\nContent-Type: text/plain; charset="no-such"\r\n\r\n\xff\xfe')
    _tried(b"From: a@b.c\r\nTo: " + b"(" * 100_000 + b"\r\n\r\nHello")


def _tried(data: bytes) -> Any:
    try:
        return email.parse_message(data, own=_OWN, auth_server=_SERVER)
    except MessageError:
        return None
