"""What a folder must be to be a skill. It may come from anybody."""

import os
from pathlib import Path

import pytest

from nexus.errors import UsageError
from nexus.skills import skill
from nexus.skills.skill import File, read_skill, read_tree, sign_tree
from skill_folders import COUNT, manifest, write_skill


def _read(text: str, **files: str) -> skill.Skill:
    return read_skill(
        {path: File(content=each.encode()) for path, each in {"SKILL.md": text, **files}.items()}
    )


def test_a_skill_in_the_open_format_is_read(tmp_path: Path) -> None:
    place = write_skill(
        tmp_path / "word-count",
        **{"scripts/count.sh": "#!/bin/sh\nwc -w $1\n", "references/LIMITS.md": "None."},
    )
    found = read_skill(read_tree(place))
    assert (found.name, found.description) == ("word-count", "Count the words of a text file.")
    assert found.license == "MIT"
    assert found.compatibility == "Needs a POSIX shell"
    assert found.metadata == {"author": "ada"}
    assert found.allowed_tools == "Bash(wc:*)"
    assert found.files == ("SKILL.md", "references/LIMITS.md", "scripts/count.sh")
    assert found.scripts == ("scripts/count.sh",)
    assert found.instructions.startswith("# Word count")


def test_a_byte_order_mark_and_line_ends_of_windows_are_read() -> None:
    assert _read("\ufeff" + COUNT.replace("\n", "\r\n")).name == "word-count"


def test_the_tools_may_be_a_list() -> None:
    assert (
        _read("---\nname: a\ndescription: b\nallowed-tools:\n  - Bash\n  - Read\n---\n").allowed_tools
        == "Bash Read"
    )


_BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# No front matter", "doesn't begin with front matter"),
        ("---\nname: a\ndescription: b\n", "doesn't begin with front matter"),
        ("---\n- a\n---\n", "no list of keys"),
        ("---\nname: [a\n---\n", "not YAML"),
        ("---\ndescription: b\n---\n", "no `name`"),
        ("---\nname: a\n---\n", "no `description`"),
        ("---\nname: a\ndescription: {b: c}\n---\n", "isn't text"),
        (manifest("Word_Count"), "not a name"),
        (manifest("../../etc"), "not a name"),
        (manifest("a" * 65), "65 characters"),
        (manifest("a--b"), "not a name"),
        (manifest("a", "x" * 50_000), "larger than"),
        (manifest("a", "x" * 1_025), "1,025 characters"),
        (manifest("a", "Harmless.\U000e0041\U000e0042"), "invisible"),
        (manifest("a", "Harmless \u202etxt.exe"), "invisible"),
        (f"---\nname: a\ndescription: b\n{_BOMB}---\n", "alias"),
        (f"---\nname: a\ndescription: {'[' * 400}{']' * 400}\n---\n", "nested too deeply"),
        ("---\nname: a\ndescription: b\nmetadata: !!python/object:os.system x\n---\n", ""),
        (manifest("a", body="x" * 200_000), "larger than 128 KiB"),
    ],
)
def test_what_is_no_skill_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        _read(text)
    assert why in caught.value.message


def test_the_hash_is_of_every_path_mode_and_content(tmp_path: Path) -> None:
    place = write_skill(tmp_path / "a", **{"b.txt": "b"})
    hashes = [read_skill(read_tree(place)).sha256]
    for change in (
        lambda: (place / "b.txt").write_text("c"),
        lambda: (place / "b.txt").rename(place / "c.txt"),
        lambda: (place / "c.txt").chmod(0o700),
        lambda: (place / "d").write_text(""),
    ):
        before = sign_tree(place)
        change()
        assert sign_tree(place) != before
        hashes.append(read_skill(read_tree(place)).sha256)
    assert len(set(hashes)) == 5


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    place = write_skill(tmp_path / "a", **{"b.txt": "b"})
    before, times = sign_tree(place), (place / "b.txt").stat()
    (place / "b.txt").write_text("c")
    os.utime(place / "b.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sign_tree(place) != before


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    for kind in ("file", "folder", "pipe"):
        place = write_skill(tmp_path / f"skill-{kind}")
        if kind == "pipe":
            os.mkfifo(place / "x")
        else:
            (place / "x").symlink_to(tmp_path / "secret" if kind == "file" else tmp_path)
        with pytest.raises(UsageError, match="`x` is"):
            read_tree(place)


def test_a_folder_that_is_reached_through_a_link_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for place in (tmp_path / "link" / "a", tmp_path / "link"):
        with pytest.raises(UsageError, match="symbolic link"):
            read_tree(place)


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    large = write_skill(tmp_path / "large")
    with (large / "x").open("wb") as stream:
        stream.truncate(skill.MOST_BYTES)
    many = write_skill(tmp_path / "many")
    for number in range(skill.MOST_FILES):
        (many / str(number)).touch()
    deep = write_skill(tmp_path / "deep", **{"/".join("abcdefghi"): "x"})
    for place, why in ((large, "larger than 8 MiB"), (many, "more than 500 files"), (deep, "not a path")):
        with pytest.raises(UsageError, match=why):
            read_tree(place)
    for number in range(4 * skill.MOST_FILES):
        (many / f"{number}.txt").touch()
    with pytest.raises(UsageError, match="more than 500 files"):
        sign_tree(many)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\u202eb", "a\\b"])
def test_a_file_whose_name_can_not_be_shown_is_refused(name: str, tmp_path: Path) -> None:
    place = write_skill(tmp_path / "a")
    (place / name).touch()
    with pytest.raises(UsageError, match="character that no file"):
        read_tree(place)
