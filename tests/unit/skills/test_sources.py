"""Where skills come from. Nothing in an archive or a repository is believed."""

import gzip
import io
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nexus.errors import UsageError
from nexus.skills import sources
from nexus.skills.sources import fetch
from skill_folders import COUNT, manifest, write_skill


def _zip(file: Path, members: dict[str, str], mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    return file


def _tar(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755
    return info


def test_a_folder_is_read_without_what_version_control_keeps(tmp_path: Path) -> None:
    place = write_skill(tmp_path / "any name", **{".git/config": "x", "scripts/__pycache__/a.pyc": "x"})
    (found,) = fetch(str(place))
    assert (found.skill.name, found.skill.files) == ("word-count", ("SKILL.md",))
    assert found.source == str(place)
    assert fetch(str(place / "SKILL.md"))[0].skill == found.skill


def test_of_several_skills_those_are_taken_that_are_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write_skill(tmp_path / "skills" / name, manifest(name))
    write_skill(tmp_path / "skills" / "broken", "nothing")
    with pytest.raises(UsageError, match="There are 4 skills: a, b, broken, c"):
        fetch(str(tmp_path))
    assert [each.skill.name for each in fetch(str(tmp_path), ["c", "a"])] == ["c", "a"]
    with pytest.raises(UsageError, match="No skill 'd' there"):
        fetch(str(tmp_path), ["d"])
    with pytest.raises(UsageError, match=r"broken: SKILL\.md doesn't begin"):
        fetch(str(tmp_path), everything=True)


@pytest.mark.parametrize("prefix", ["", "repository-main/skills/word-count/"])
def test_archives_are_read(prefix: str, tmp_path: Path) -> None:
    members = {f"{prefix}SKILL.md": COUNT, f"{prefix}scripts/count.sh": "#!/bin/sh"}
    packed = [
        _zip(tmp_path / "a.skill", members, 0o100755),
        _tar(tmp_path / "a.tgz", *((_member(name), text.encode()) for name, text in members.items())),
    ]
    for file in packed:
        (found,) = fetch(str(file))
        assert found.skill.files == ("SKILL.md", "scripts/count.sh")
        assert found.tree["scripts/count.sh"].is_program


@pytest.mark.parametrize("name", ["../../.ssh/authorized_keys", "/etc/cron.d/x", "a/../../b"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    zipped = _zip(tmp_path / "a.zip", {"SKILL.md": COUNT, name: "x"})
    tarred = _tar(tmp_path / "a.tgz", (_member("SKILL.md"), COUNT.encode()), (_member(name), b"x"))
    for file in (zipped, tarred):
        with pytest.raises(UsageError, match="outside of its folder"):
            fetch(str(file))


def test_links_in_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(_zip(tmp_path / "a.zip", {"a/SKILL.md": COUNT}).read_bytes())
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        info = zipfile.ZipInfo("a/link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    link = _member("a/link", tarfile.SYMTYPE, "/etc/passwd")
    tarred = _tar(tmp_path / "a.tgz", (_member("a/SKILL.md"), COUNT.encode()), (link, b""))
    for file in (tmp_path / "b.zip", tarred):
        with pytest.raises(UsageError, match="`link` is a link"):
            fetch(str(file))


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_MOST_UNPACKED", 1024 * 1024)
    zeros = "\0" * (3 * 1024 * 1024)
    zipped = _zip(tmp_path / "a.zip", {"SKILL.md": COUNT, "zeros": zeros})
    (tmp_path / "a.tgz").write_bytes(gzip.compress(zeros.encode()))
    for file in (zipped, tmp_path / "a.tgz"):
        with pytest.raises(UsageError, match="more than 1 MiB"):
            fetch(str(file))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b"\x1f\x8bbroken", b"\x7fELF", b"<html>"])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UsageError):
        fetch(str(tmp_path / "a.zip"))


def test_a_repository_is_read_at_a_commit(tmp_path: Path) -> None:
    repository = write_skill(tmp_path / "word-count.git")
    write_skill(repository / "more" / "other", manifest("other"))
    for command in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "-m", "First"],
    ):
        subprocess.run(["git", *command], cwd=repository, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()
    url = f"file://{repository}"
    (found,) = fetch(f"{url}#main")
    assert (found.skill.name, found.source) == ("word-count", f"{url}@{commit} .")
    with pytest.raises(UsageError, match="git: "):
        fetch(f"{url}#nowhere")


@pytest.mark.parametrize(
    "source", ["git+ext::sh -c 'touch x'", "git+--upload-pack=touch x", "nowhere", "ftp://a.example/a.zip"]
)
def test_a_source_can_not_name_a_program(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        fetch(source)
    assert list(tmp_path.iterdir()) == []


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.startswith("/SKILL.md?")
        self.send_response(200 if found else 404)
        self.end_headers()
        if found:
            self.wfile.write(COUNT.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_url_is_read(site: str) -> None:
    (found,) = fetch(f"{site.replace('//', '//ada:secret@')}/SKILL.md?token=secret")
    assert (found.skill.name, found.source) == ("word-count", f"{site}/SKILL.md")
    with pytest.raises(UsageError, match="404"):
        fetch(f"{site}/a.zip")
