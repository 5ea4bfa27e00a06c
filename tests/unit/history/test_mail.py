"""Mail in its real shapes."""

import time
from pathlib import Path

import pytest

from hostile import slow_mail
from nexus import history
from nexus.history.sources import mail as mails
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from unit.history.exports import bring, mail, rows, said


async def test_answers_share_the_thread_of_the_first_mail(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(
        mail(1, Subject="Plans")
        + mail(2, Subject="AW: Plans", References="<mail-1@example.com>", In_Reply_To="<mail-1@example.com>")
        + mail(3, Subject="Re: AW: Plans", References="<mail-1@example.com>\n <mail-2@example.com>",
               In_Reply_To="<mail-2@example.com>")
    )  # fmt: skip
    await bring(opened, tmp_path / "a.mbox")
    assert await rows(opened, "SELECT external_id, title FROM threads") == [("mail-1@example.com", "Plans")]
    answered = await rows(
        opened,
        "SELECT q.external_id FROM events AS e JOIN events AS q ON q.id = e.reply_to_event_id ORDER BY e.seq",
    )
    assert answered == [("mail-1@example.com",), ("mail-2@example.com",)]


async def test_twenty_levels_of_quotes_keep_the_answer_and_its_question(
    opened: Ledgers, tmp_path: Path
) -> None:
    quotes = "\n".join(f"{'> ' * level}level {level}" for level in range(1, 21))
    (tmp_path / "a.mbox").write_text(mail(1, body=f"My answer.\n{quotes}"))
    await bring(opened, tmp_path / "a.mbox")
    [(_, _, content)] = await said(opened)
    assert content == "Subject 1\n\nMy answer.\n> level 1"


async def test_words_in_any_encoding_are_read(opened: Ledgers, tmp_path: Path) -> None:
    latin = mail(
        1, Subject="=?iso-8859-1?Q?Gr=FC=DFe?=", Content_Type="text/plain; charset=iso-8859-1", body="BODY"
    )
    wrong = mail(2, Content_Type="text/plain; charset=klingon", body="BODY")
    raw = latin.encode().replace(b"BODY", "Übermorgen".encode("latin-1"))
    raw += wrong.encode().replace(b"BODY", b"caf\xff")
    (tmp_path / "a.mbox").write_bytes(raw)
    await bring(opened, tmp_path / "a.mbox")
    assert [content for _, _, content in await said(opened)] == ["Grüße\n\nÜbermorgen", "Subject 2\n\ncaf�"]


async def test_a_header_that_cannot_be_decoded_is_read_as_it_is(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(mail(1, Subject="=?utf-8?b?a?=") + mail(2))
    await bring(opened, tmp_path / "a.mbox")
    assert [content.splitlines()[0] for _, _, content in await said(opened)] == ["=?utf-8?b?a?=", "Subject 2"]


async def test_html_is_read_as_text_and_files_by_their_hash(opened: Ledgers, tmp_path: Path) -> None:
    body = (
        "--X\nContent-Type: text/html\n\n<head><style>p{}</style></head><p>Hello <b>you</b></p><p>Bye</p>\n"
        '--X\nContent-Type: image/png; name="cat.png"\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n--X--\n'
    )
    (tmp_path / "a.mbox").write_text(mail(1, Content_Type="multipart/mixed; boundary=X", body=body))
    await bring(opened, tmp_path / "a.mbox")
    [(_, _, content)] = await said(opened)
    assert content == "Subject 1\n\nHello you\nBye"
    [(name, type_, size, digest)] = await rows(
        opened, "SELECT filename, media_type, size_bytes, sha256 FROM attachments"
    )
    assert (name, type_, size) == ("cat.png", "image/png", 5)
    assert digest == "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


async def test_newsletters_make_no_people(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(
        mail(1, From="Shop <no-reply@shop.example>", To="")
        + mail(2, From="Weekly <hello@weekly.example>", List_Unsubscribe="<mailto:x@y>", To="")
    )
    await bring(opened, tmp_path / "a.mbox")
    assert await rows(opened, "SELECT canonical_name FROM entities", "identity") == [("Owner",)]
    assert len(await rows(opened, "SELECT * FROM event_participants")) == 2


_SENT_BY_ME = mail(1, From="Me <ME@example.com>", To="ada@example.com")
_FORGED = "Received: from evil.example by mx.example.net with ESMTP; Thu, 2 Jan 2020 10:00:00 +0000\n"


def _with(top: str) -> str:
    """The owner's mail with headers above its own."""
    line, _, rest = _SENT_BY_ME.partition("\n")
    return f"{line}\n{top}{rest}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Sent", _SENT_BY_ME),
        ("Sent Messages.mbox", _SENT_BY_ME),
        ("Gesendete Objekte.mbox", _SENT_BY_ME),
        ("all.mbox", _with("X-Gmail-Labels: Archived,Sent\n")),
        ("all.mbox", _with("X-Gmail-Labels: =?UTF-8?Q?Archiviert,Gesendet?=\n")),
        (
            "all.mbox",
            _with(f"Authentication-Results: mx.example.net; dmarc=pass header.from=example.com\n{_FORGED}"),
        ),
        (
            "all.mbox",
            _with(f"{_FORGED}Authentication-Results: mail.example.net; dkim=pass header.d=example.com\n"),
        ),
    ],
)
async def test_mail_that_was_filed_as_sent_or_vouched_for_is_the_owners(
    opened: Ledgers, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    await bring(opened, tmp_path / name, owner=("me@example.com",))
    assert [sender for _, sender, _ in await said(opened)] == ["owner"]
    [(owner,)] = await rows(opened, "SELECT entity_id FROM persons WHERE is_owner", "identity")
    assert await rows(opened, "SELECT entity_id FROM event_participants WHERE role = 'sender'") == [(owner,)]


@pytest.mark.parametrize(
    "top",
    [
        "",
        _FORGED,
        # What stands below the line of the server that received it came with the mail.
        f"{_FORGED}X-Gmail-Labels: Sent\n",
        f"{_FORGED}Authentication-Results: evil.example; dmarc=pass header.from=example.com\n",
        f"{_FORGED}Received: from a by evil.example\n"
        "Authentication-Results: evil.example; dmarc=pass header.from=example.com\n",
        f"Authentication-Results: mx.example.net; dmarc=fail header.from=example.com\n{_FORGED}",
        f"Authentication-Results: mx.example.net; dkim=pass header.d=evil.example\n{_FORGED}",
        # Below an older hop, even one that claims to be of the same server.
        f"{_FORGED}Received: from a by relay.evil.example\n"
        "Authentication-Results: mx.example.net; dmarc=pass header.from=example.com\n",
        f"{_FORGED}Received: from a by mx.example.net\n"
        "Authentication-Results: mx.example.net; dmarc=pass header.from=example.com\n",
        # Another organization below the same public suffix.
        "Received: from evil.example by mx.example.co.uk; Thu, 2 Jan 2020 10:00:00 +0000\n"
        "Authentication-Results: mallory.co.uk; dmarc=pass header.from=example.com\n",
        # A signature by everybody who registers below a suffix.
        f"Authentication-Results: mx.example.net; dkim=pass header.d=com\n{_FORGED}",
    ],
)
async def test_a_forged_mail_of_the_owner_is_somebodys_words(
    opened: Ledgers, tmp_path: Path, top: str
) -> None:
    # The owner's entity goes by the forged address.
    (tmp_path / "Sent").write_text(mail(9, From="Me <me@example.com>", To="ada@example.com"))
    await bring(opened, tmp_path / "Sent", owner=("me@example.com",))
    [(owner,)] = await rows(opened, "SELECT entity_id FROM persons WHERE is_owner", "identity")
    await Memory(opened).run("alias", {"entity": owner, "alias": ["me@example.com:email"]})
    (tmp_path / "all.mbox").write_text(_with(top))
    source = history.open_source(tmp_path / "all.mbox", history.Options(owner=("me@example.com",)))
    assert (await history.preview(opened, source)).unverified == 1
    await bring(opened, tmp_path / "all.mbox", owner=("me@example.com",))
    [(sender, entity)] = await rows(
        opened,
        "SELECT sender, entity_id FROM events JOIN event_participants ON event_id = events.id "
        "WHERE role = 'sender' AND external_id = 'mail-1@example.com'",
    )
    assert sender == "me@example.com (unverified)"
    assert entity not in (None, owner)


async def test_a_from_header_is_enough_if_the_owner_says_so(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "all.mbox").write_text(_SENT_BY_ME)
    await bring(opened, tmp_path / "all.mbox", owner=("me@example.com",), trusts_from=True)
    assert [sender for _, sender, _ in await said(opened)] == ["owner"]


async def test_a_line_from_inside_a_mail_splits_nothing(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_text(mail(1, body="Hi\n\n>From here on\nFrom there") + mail(2))
    done = await bring(opened, tmp_path / "a.mbox")
    assert done.messages == 2
    assert (await said(opened))[0][2] == "Subject 1\n\nHi\n\nFrom here on\nFrom there"


async def test_a_very_large_mail_is_cut_and_the_next_one_whole(
    opened: Ledgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mails, "_LARGEST_BYTES", 2_000)
    (tmp_path / "a.mbox").write_text(mail(1, body="line\n" * 2_000) + mail(2))
    await bring(opened, tmp_path / "a.mbox")
    found = await rows(
        opened, "SELECT length(content) < 4000, json_extract(metadata_json, '$.cut_at_bytes') FROM events"
    )
    assert found == [(1, 2_000), (1, None)]


async def test_a_maildir_is_read(opened: Ledgers, tmp_path: Path) -> None:
    for number, folder in ((1, "cur"), (2, "new"), (3, "tmp")):
        (tmp_path / "mail" / folder).mkdir(parents=True)
        (tmp_path / "mail" / folder / f"{number}.host:2,S").write_text(mail(number).partition("\n")[2])
    done = await bring(opened, tmp_path / "mail")
    assert (done.source, done.messages) == ("maildir", 2)


async def test_a_mail_inside_of_a_mail_is_a_file_and_not_its_senders_words(
    opened: Ledgers, tmp_path: Path
) -> None:
    body = (
        "--X\nContent-Type: text/plain\n\nSee below.\n--X\nContent-Type: message/rfc822\n\n"
        "From: eve@evil.example\nSubject: hi\n\nAlways pay Eve.\n--X--\n"
    )
    (tmp_path / "Sent").write_text(mail(1, Content_Type="multipart/mixed; boundary=X", body=body))
    await bring(opened, tmp_path / "Sent", owner=("ada@example.com",))
    [(_, _, content)] = await said(opened)
    assert content == "Subject 1\n\nSee below."
    assert await rows(opened, "SELECT filename FROM attachments") == [("mail.eml",)]


async def test_different_addresses_are_different_people(opened: Ledgers, tmp_path: Path) -> None:
    senders = ["jörg@müller.example", "järg@möller.example", "a@strasse.example", "a@straße.example"]
    (tmp_path / "a.mbox").write_text("".join(mail(n, From=each) for n, each in enumerate(senders)))
    await bring(opened, tmp_path / "a.mbox", owner=("a@straße.example",), trusts_from=True)
    found = await rows(opened, "SELECT identifier FROM event_participants WHERE role = 'sender'")
    assert {each for (each,) in found} == {
        "jörg@xn--mller-kva.example", "järg@xn--mller-jua.example", "a@strasse.example", "owner",
    }  # fmt: skip


async def test_a_mail_that_takes_too_much_is_set_aside_and_the_next_one_comes(
    opened: Ledgers, tmp_path: Path
) -> None:
    (tmp_path / "a.mbox").write_bytes(
        mail(1, Content_Type="text/html", body="<a " * 30_000).encode()
        + b"From eve Thu Jan  2 10:00:00 2020\n" + slow_mail() + b"\n\n" + mail(3).encode()
    )  # fmt: skip
    begun = time.process_time()
    done = await bring(opened, tmp_path / "a.mbox")
    assert time.process_time() - begun < 5, "another process reads it"
    assert dict(done.set_aside.counts) == {"The mail can't be read: it takes too much": 1}
    assert [content.splitlines()[0] for _, _, content in await said(opened)] == ["Subject 1", "Subject 3"]
