"""Address books, calendars and notes."""

from pathlib import Path

from nexus.ledgers import Ledgers, forgetting
from unit.history.exports import bring, rows

_CARD = """BEGIN:VCARD
VERSION:3.0
FN:Sarah Chen
EMAIL;TYPE=WORK:Sarah@Example.com
TEL:+49 170 1234567
BDAY:1990-04-01
ORG:Acme
PHOTO;ENCODING=b;TYPE=JPEG:AAAA
 BBBB
UID:card-1
END:VCARD
"""


async def test_a_card_becomes_a_person_with_a_birthday(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "book.vcf").write_text(_CARD + "BEGIN:VCARD\nVERSION:3.0\nEND:VCARD\n")
    done = await bring(opened, tmp_path / "book.vcf")
    assert (done.source, done.messages) == ("vcard", 1)
    people = await rows(opened, "SELECT canonical_name FROM entities ORDER BY id", "identity")
    assert people == [("Owner",), ("Sarah Chen",)]
    facts = await rows(opened, "SELECT fact_type, value FROM person_facts ORDER BY fact_type", "identity")
    assert facts == [("birthday", "1990-04-01"), ("employer", "Acme")]
    aliases = await rows(opened, "SELECT type, normalized FROM entity_aliases ORDER BY type", "identity")
    assert ("email", "sarah@example.com") in aliases
    assert ("phone", "+491701234567") in aliases
    target = await forgetting.find(opened, lambda c: forgetting.import_(c, done.id))
    await forgetting.forget(opened, target, actor="test")
    assert await rows(opened, "SELECT canonical_name FROM entities", "identity") == [("Owner",)]
    assert await rows(opened, "SELECT * FROM person_facts", "identity") == []


async def test_appointments_say_when_where_and_with_whom(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "cal.ics").write_text(
        "BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:e1\nDTSTAMP:20240101T000000Z\n"
        "DTSTART;TZID=Europe/Berlin:20240501T100000\nSUMMARY:Dentist\nLOCATION:Main St 1\n"
        "ATTENDEE;CN=Sarah Chen:mailto:sarah@example.com\nRRULE:FREQ=YEARLY\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:e2\nSUMMARY:no start\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:e3\nDTSTART:garbage\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    done = await bring(opened, tmp_path / "cal.ics")
    assert done.source == "icalendar"
    [(content, at)] = await rows(opened, "SELECT content, occurred_at FROM events")
    assert content == (
        "Appointment: Dentist\nWhen: 2024-05-01 10:00\nRepeats: FREQ=YEARLY\n"
        "Where: Main St 1\nWith: Sarah Chen"
    )
    assert at == "2024-05-01T08:00:00.000Z"
    assert done.set_aside.total <= 1


async def test_notes_keep_their_dates_and_are_split_at_headings(opened: Ledgers, tmp_path: Path) -> None:
    (tmp_path / "vault" / ".obsidian").mkdir(parents=True)
    (tmp_path / "vault" / ".obsidian" / "x.md").write_text("hidden")
    (tmp_path / "vault" / "Garden.md").write_text(
        "---\ntitle: The garden\ndate: 2024-03-02\n---\n# Beds\n"
        + "tomatoes " * 250
        + "\n## Tools\nThe spade.\n"
    )
    (tmp_path / "vault" / "2024-05-06.md").write_text("Rain.")
    done = await bring(opened, tmp_path / "vault")
    assert done.source == "markdown"
    found = await rows(
        opened, "SELECT substr(content, 1, 24), substr(occurred_at, 1, 10) FROM events ORDER BY seq"
    )
    assert found == [
        ("2024-05-06\n\nRain.", "2024-05-06"),
        ("# Beds\ntomatoes tomatoes", "2024-03-02"),
        ("The garden\n\n## Tools\nThe", "2024-03-02"),
    ]
    (tmp_path / "vault" / "2024-05-06.md").write_text("Sun.")
    again = await bring(opened, tmp_path / "vault")
    assert (again.messages, again.known) == (1, 2)
