"""A home as a folder of Markdown."""

from pathlib import Path

import pytest

from nexus.errors import CareError
from nexus.history import markdown
from nexus.ledgers import Ledgers
from nexus.memory.operations import Memory
from unit.history.exports import bring, chatgpt, long_conversation, mail


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in sorted(folder.rglob("*.md"))}


async def test_people_topics_and_days_are_pages_that_link_to_each_other(
    opened: Ledgers, tmp_path: Path
) -> None:
    (tmp_path / "a.mbox").write_text(mail(1, body="I work at Acme.\n# not a heading"))
    await bring(opened, tmp_path / "a.mbox", owner=("me@example.com",))
    event = await opened.events.read(lambda c: c.execute("SELECT id FROM events").get)
    memory = Memory(opened)
    await memory.run("entity", {"name": "Acme: Inc/Ltd", "type": "Company", "id": "acme"})
    fact = {
        "source": "ada@example.com",
        "type": "WORKS_AT",
        "target": "acme",
        "fact": "Ada works at Acme",
        "event": event,
    }
    await memory.run("relationship", fact)
    written = await markdown.write(opened, tmp_path / "out")
    pages = contents(tmp_path / "out")
    assert list(pages) == [
        "Home.md", "people/Ada Lovelace.md", "people/Owner.md", "timeline/2020/2020-01-02.md",
        "topics/Acme Inc Ltd.md",
    ]  # fmt: skip
    assert (written.people, written.topics, written.days, written.messages) == (2, 1, 1, 1)
    ada = pages["people/Ada Lovelace.md"]
    assert "aliases:\n- ada@example.com" in ada
    assert "Ada works at Acme [[topics/Acme Inc Ltd]]" in ada
    assert "([[timeline/2020/2020-01-02|Ada Lovelace, 2020-01-02]])" in ada
    assert "Ada works at Acme [[people/Ada Lovelace]]" in pages["topics/Acme Inc Ltd.md"]
    day = pages["timeline/2020/2020-01-02.md"]
    assert "## Subject 1 · email" in day
    assert "**09:01 Ada Lovelace**\n> Subject 1\n>\n> I work at Acme.\n> # not a heading" in day


async def test_the_same_home_gives_the_same_bytes_and_an_old_folder_is_kept(
    opened: Ledgers, tmp_path: Path
) -> None:
    await bring(
        opened, chatgpt(tmp_path / "conversations.json", *(long_conversation(f"c{n}", 5) for n in range(3)))
    )
    for name in ("one", "two"):
        await markdown.write(opened, tmp_path / name)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert len(contents(tmp_path / "one")) == 3
    with pytest.raises(CareError, match="already exists"):
        await markdown.write(opened, tmp_path / "one")
    assert not [each for each in tmp_path.iterdir() if "unfinished" in each.name]


async def test_two_of_one_name_have_pages_of_their_own(opened: Ledgers, tmp_path: Path) -> None:
    for _ in range(2):
        await Memory(opened).run("entity", {"name": "Anna", "type": "Person"})
    await markdown.write(opened, tmp_path / "out")
    assert list(contents(tmp_path / "out")) == ["Home.md", "people/Anna (2).md", "people/Anna.md"]
