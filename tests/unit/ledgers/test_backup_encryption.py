"""Backups that only the holder of a key can read."""

import importlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest

from contents import files, furnish, rows
from nexus.errors import CareError
from nexus.home import Home
from nexus.ledgers import backup

# It ships no types.
_AGE: Final[Any] = importlib.import_module("pyrage")


class Key:
    """A key pair: what a backup is encrypted to, and the file that decrypts it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.pair = _AGE.x25519.Identity.generate()
        self.public = str(self.pair.to_public())
        self.file = folder / name
        self.file.write_text(f"# created by a test\n{self.pair}\n")


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path, "key.txt")


@pytest.fixture
def copy(home: Home, tmp_path: Path, key: Key) -> Path:
    """An encrypted backup of a furnished home."""
    furnish(home)
    backup.make(home, tmp_path / "copy.age", encrypt_to=[key.public])
    return tmp_path / "copy.age"


def left_beside(home: Home) -> list[Path]:
    return [
        path for path in home.root.parent.iterdir() if ".backup-" in path.name or "unfinished" in path.name
    ]


def test_an_encrypted_backup_is_restored_whole(home: Home, tmp_path: Path, copy: Path, key: Key) -> None:
    other = Home(tmp_path / "other")
    with backup.open_backup(copy, home, key.file) as folder:
        manifest, problems = backup.check(folder)
    restored = backup.restore(copy, other, trust=True, identity=key.file)
    assert (problems, restored.manifest) == ([], manifest)
    assert files(other) == files(home)
    assert rows(other)["memory.facts"] == rows(home)["memory.facts"] != []
    assert left_beside(home) == left_beside(other) == []


def test_nothing_of_a_home_can_be_read_without_the_key(home: Home, tmp_path: Path, copy: Path) -> None:
    readable = backup.make(home, tmp_path / "readable")
    config = (tmp_path / "readable" / "config.toml").read_bytes()
    assert readable.size_bytes > len(config) > 0
    assert copy.stat().st_mode & 0o777 == 0o600
    for text in (b"SQLite format 3", b"manifest.json", config[:64]):
        assert text not in copy.read_bytes()


def test_any_of_several_keys_decrypts(home: Home, tmp_path: Path, key: Key) -> None:
    furnish(home)
    other = Key(tmp_path, "other.txt")
    own = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(own)], check=True)
    public = own.with_suffix(".pub").read_text()
    backup.make(home, tmp_path / "copy.age", encrypt_to=[key.public, other.public, public])
    for file in (key.file, other.file, own):
        with backup.open_backup(tmp_path / "copy.age", home, file) as folder:
            assert backup.check(folder)[1] == []


def test_a_wrong_key_and_no_key_change_nothing(home: Home, tmp_path: Path, copy: Path) -> None:
    before = rows(home)
    with pytest.raises(CareError, match="can't be decrypted: No matching keys"):
        backup.restore(copy, home, replace=True, identity=Key(tmp_path, "wrong.txt").file)
    with pytest.raises(CareError, match="is encrypted"):
        backup.restore(copy, home, replace=True)
    assert rows(home) == before
    assert left_beside(home) == []


@pytest.mark.parametrize("cut", [1, 40_000, 70_000, 200_000, -60, 100_000_000])
def test_a_file_that_is_cut_short_or_altered_is_refused(
    home: Home, tmp_path: Path, copy: Path, key: Key, cut: int
) -> None:
    content = bytearray(copy.read_bytes())
    if cut < len(content):
        copy.write_bytes(content[: len(content) - cut] if cut > 0 else content[:-cut])
    else:
        content[len(content) // 2] ^= 1
        copy.write_bytes(content)
    with pytest.raises(CareError, match=r"damaged or truncated|can't be decrypted"):
        backup.restore(copy, Home(tmp_path / "other"), identity=key.file)
    assert not (tmp_path / "other").exists()
    assert left_beside(home) == []


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "data/outside", "state/../../outside", "state/link"]
)
def test_an_archive_cannot_write_outside_of_its_folder(
    home: Home, tmp_path: Path, key: Key, name: str
) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        if name == "state/link":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member, io.BytesIO())
    forged = tmp_path / "forged.age"
    forged.write_bytes(_AGE.encrypt(stream.getvalue(), [key.pair.to_public()]))
    before = set(tmp_path.rglob("outside"))
    with pytest.raises(CareError, match="damaged"):
        backup.restore(forged, Home(tmp_path / "other"), identity=key.file)
    assert set(tmp_path.rglob("outside")) == before == set()


def test_other_programs_read_it(copy: Path, key: Key) -> None:
    with tarfile.open(fileobj=io.BytesIO(_AGE.decrypt(copy.read_bytes(), [key.pair]))) as archive:
        assert {"manifest.json", "config.toml", "data/events.db"} <= set(archive.getnames())


@pytest.mark.parametrize("recipient", ["age1nonsense", "ssh-ed25519 AAAA", "ada@example.org", ""])
def test_a_recipient_that_is_no_key_is_refused_before_anything_is_written(
    home: Home, tmp_path: Path, recipient: str
) -> None:
    with pytest.raises(CareError, match="is not a public key"):
        backup.make(home, tmp_path / "copy.age", encrypt_to=[recipient])
    assert not (tmp_path / "copy.age").exists()


def test_a_place_that_is_taken_is_refused(home: Home, tmp_path: Path, key: Key) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(CareError, match="already exists"):
        backup.make(home, tmp_path / "taken", encrypt_to=[key.public])


@pytest.mark.parametrize(
    "content", ["", "# only a comment\n", "AGE-SECRET-KEY-1NONSENSE\n", "-----BEGIN NOTHING"]
)
def test_a_file_without_a_usable_key_is_named(copy: Path, home: Home, tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(CareError, match=r"bad\.txt holds no private key"):
        backup.restore(copy, home, replace=True, identity=tmp_path / "bad.txt")


def test_a_missing_package_is_named(
    home: Home, tmp_path: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyrage", None)
    with pytest.raises(CareError) as refused:
        backup.make(home, tmp_path / "copy.age", encrypt_to=[key.public])
    assert "nexus-runtime[encryption]" in refused.value.hint
