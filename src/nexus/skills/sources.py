"""Where Agent Skills come from: a folder, an archive, a URL or a git repository.

Everything is read into memory, within limits, before anything is written: what an archive says about paths
and links is never acted on.
"""

import io
import os
import re
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from nexus.errors import UsageError
from nexus.skills.skill import MANIFEST, File, Skill, Tree, check_limits, check_path, read_skill, read_tree

_MOST_DOWNLOADED: Final = 32 * 1024 * 1024
_MOST_UNPACKED: Final = 64 * 1024 * 1024
_MOST_MEMBERS: Final = 20_000
_MOST_FOLDERS: Final = 5_000
_MOST_DEPTH: Final = 6
_TIMEOUT_S: Final = 60.0
_MOST_LISTED: Final = 40
_LEFT_OUT: Final = frozenset({".git", "__pycache__", ".DS_Store", "__MACOSX"})
_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_GIT: Final = re.compile(r"(?:git\+.*|git@.*|(?:ssh|git)://.*|.*\.git/?(?:#.*)?)\Z", re.DOTALL)
_FORGE: Final = re.compile(
    r"https://(?:github\.com|gitlab\.com|codeberg\.org)/[^/#?]+/[^/#?]+?/?"
    r"(?:(?:/-)?/tree/(?P<ref>[^/#?]+)(?:/(?P<path>[^#?]*))?)?"
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A skill at its source."""

    skill: Skill
    tree: Tree
    source: str


def fetch(source: str, names: Collection[str] = (), *, everything: bool = False) -> list[Found]:
    """Fetch skills by name, or the only one; UsageError if it isn't clear which, or one is broken."""
    place = Path(source).expanduser()
    if place.is_dir():
        return list(_choose(_read_folder(place.resolve()), names, everything))
    if place.is_file() and place.name == MANIFEST:
        return fetch(str(place.resolve().parent), names, everything=everything)
    if place.is_file():
        readers = _read_packed(_read_file(place), str(place.resolve()))
    elif _GIT.match(source) or _FORGE.fullmatch(source):
        return _clone(source, names, everything)
    elif urlsplit(source).scheme in {"http", "https"}:
        readers = _read_packed(_download(source), _without_secrets(source))
    else:
        raise UsageError(
            f"{source} is no folder, file, URL or git repository",
            hint="Use a folder with a SKILL.md, a .zip or .tar.gz, or a URL of one or of a git repository.",
        )
    return list(_choose(readers, names, everything))


Reader = Callable[[], Found]


def _choose(found: Mapping[str, Reader], names: Collection[str], everything: bool) -> Iterator[Found]:
    """Read the skills that were asked for, by the names of their folders."""
    if not found:
        raise UsageError(f"No {MANIFEST} there", hint=f"A skill is a folder with a {MANIFEST} in it.")
    if not names and len(found) > 1 and not everything:
        listed = ", ".join(sorted(found)[:_MOST_LISTED])
        more = f" and {len(found) - _MOST_LISTED} more" * (len(found) > _MOST_LISTED)
        raise UsageError(
            f"There are {len(found)} skills: {listed}{more}", hint="Name those that you want, or pass --all."
        )
    for name in names:
        if name not in found:
            raise UsageError(
                f"No skill {name!r:.80} there", hint=f"Found: {', '.join(sorted(found)[:_MOST_LISTED])}."
            )
    for name in names or sorted(found):
        try:
            yield found[name]()
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint) from error


def _read_folder(root: Path, repository: str = "") -> dict[str, Reader]:
    """The skills in a folder and below it, which may be a clone of a repository."""
    found: dict[str, Reader] = {}

    def reader(folder: Path) -> Reader:
        below = folder.relative_to(root)
        source = f"{repository} {below}" if repository else str(folder)
        return lambda: _make(read_tree(folder, _LEFT_OUT.__contains__), source)

    for count, (place, folders, files) in enumerate(os.walk(root)):
        if count > _MOST_FOLDERS:
            raise UsageError(f"{root} has more than {_MOST_FOLDERS} folders", hint="Name a folder in it.")
        folder = Path(place)
        if MANIFEST in files:
            folders.clear()
            _add(found, folder.name, reader(folder))
        if len(folder.relative_to(root).parts) == _MOST_DEPTH:
            folders.clear()
        folders[:] = sorted(each for each in folders if each not in _LEFT_OUT)
    return found


def _read_packed(data: bytes, source: str) -> dict[str, Reader]:
    """The skills in an archive, or in a SKILL.md alone."""
    if data.startswith(_ZIP):
        members = _unzip(data)
    elif data.startswith(_GZIP):
        members = _untar(data)
    elif data.lstrip(b"\xef\xbb\xbf").startswith(b"---"):
        members = {MANIFEST: File(content=data)}
    else:
        raise UsageError(f"{source} is no .zip, no .tar.gz and no {MANIFEST}")
    roots = sorted(
        {path.removesuffix(MANIFEST) for path in members if path == MANIFEST or path.endswith(f"/{MANIFEST}")}
    )
    found: dict[str, Reader] = {}
    for root in roots:
        if not any(root != other and root.startswith(other) for other in roots):
            tree = {path.removeprefix(root): file for path, file in members.items() if path.startswith(root)}
            folder = root.strip("/").rpartition("/")[2]

            def read(tree: Mapping[str, File | None] = tree, root: str = root) -> Found:
                links = [path for path, file in tree.items() if file is None]
                if links:
                    raise UsageError(f"`{links[0]}` is a link", hint="A skill has only files and folders.")
                files = {path: file for path, file in tree.items() if file is not None}
                return _make(files, f"{source} {root}".strip())

            _add(found, folder or "skill", read)
    return found


def _add(found: dict[str, Reader], name: str, reader: Reader) -> None:
    number = 2
    key = name
    while key in found:  # such as the same skill for two programs
        key, number = f"{name}#{number}", number + 1
    found[key] = reader


def _make(tree: Tree, source: str) -> Found:
    for path in tree:
        check_path(path)
    check_limits(len(tree), sum(len(file.content) for file in tree.values()))
    return Found(skill=read_skill(tree), tree=tree, source=source)


def _unzip(data: bytes) -> dict[str, File | None]:
    members: dict[str, File | None] = {}
    left = _MOST_UNPACKED
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[: _MOST_MEMBERS + 1]:
                if member.is_dir() or _is_left_out(member.filename):
                    continue
                with archive.open(member) as stream:
                    # Its own word about its size counts for nothing.
                    content = stream.read(left + 1)
                left -= len(content)
                mode = member.external_attr >> 16
                is_link = (mode & 0o170000) not in {0, 0o100000}
                _add_member(members, member.filename, content, None if is_link else mode, left)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, OSError, EOFError) as error:
        raise UsageError(f"The archive can't be read: {error}") from error
    return members


def _untar(data: bytes) -> dict[str, File | None]:
    members: dict[str, File | None] = {}
    left = _MOST_UNPACKED
    try:
        # Unpacked first: a header of an archive may be as large as it likes.
        unpacked = zlib.decompressobj(wbits=31).decompress(data, _MOST_UNPACKED + 1)
        if len(unpacked) > _MOST_UNPACKED:
            raise UsageError(f"The archive holds more than {_MOST_UNPACKED // 1024**2} MiB")
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            for member in archive:
                if member.isdir() or _is_left_out(member.name):
                    continue
                stream = archive.extractfile(member) if member.isfile() else None
                content = stream.read() if stream else b""
                left -= len(content)
                _add_member(members, member.name, content, member.mode if stream else None, left)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        raise UsageError(f"The archive can't be read: {error}") from error
    return members


def _add_member(
    members: dict[str, File | None], name: str, content: bytes, mode: int | None, left: int
) -> None:
    path = name.removeprefix("./")
    if left < 0 or len(members) == _MOST_MEMBERS:
        raise UsageError(f"The archive holds more than {_MOST_UNPACKED // 1024**2} MiB, or too many files")
    if path.startswith("/") or ".." in path.split("/"):
        raise UsageError(f"The archive has a file outside of its folder: {path!r:.80}")
    if path in members:
        raise UsageError(f"The archive has {path!r:.80} twice")
    members[path] = None if mode is None else File(content=content, is_program=bool(mode & 0o100))


def _is_left_out(path: str) -> bool:
    return not _LEFT_OUT.isdisjoint(path.split("/"))


def _read_file(place: Path) -> bytes:
    with place.open("rb") as stream:
        return bytes(_check_size(stream.read(_MOST_DOWNLOADED + 1), str(place)))


def _check_size(data: bytes | bytearray, source: str) -> bytes | bytearray:
    if len(data) > _MOST_DOWNLOADED:
        raise UsageError(f"{source} is larger than {_MOST_DOWNLOADED // 1024**2} MiB")
    return data


def _without_secrets(url: str) -> str:
    """An address without its password and query: where a skill came from is kept, and shown."""
    return re.sub(r"(?<=//)[^/@]*@", "", url.partition("?")[0])


def _download(url: str) -> bytes:
    import httpx

    data = bytearray()
    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=_TIMEOUT_S) as response:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                data += chunk
                _check_size(data, url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UsageError(f"{url} can't be downloaded: {error}") from error
    return bytes(data)


def _clone(source: str, names: Collection[str], everything: bool) -> list[Found]:
    """Fetch skills of a git repository: `URL`, `URL#REF`, or the address of a folder at a forge."""
    forge = _FORGE.fullmatch(source)
    url, _, ref = source.removeprefix("git+").partition("#")
    path = ""
    if forge is not None and forge["ref"]:
        url = re.split(r"(?:/-)?/tree/", url)[0]
        ref, path = forge["ref"], forge["path"] or ""
    with tempfile.TemporaryDirectory(prefix="nexus-skills-") as temporary:
        place = Path(temporary).resolve() / "repository"
        branch = ["--branch", ref] if ref else []
        _run_git("clone", "--quiet", "--depth=1", "--template=", *branch, "--", url, str(place))
        commit = _run_git("-C", str(place), "rev-parse", "HEAD").strip()
        folder = place / path if path else place
        if not folder.resolve().is_relative_to(place) or not folder.is_dir():
            raise UsageError(f"{url} has no folder {path}")
        # The name of a repository says more than that of a temporary folder.
        found = _read_folder(folder.resolve(), f"{_without_secrets(url)}@{commit}")
        if folder == place and set(found) == {place.name}:
            found = {url.rstrip("/").removesuffix(".git").rpartition("/")[2]: found[place.name]}
        return list(_choose(found, names, everything))


def _run_git(*arguments: str) -> str:
    """Run git so that nothing in a repository is run."""
    settings = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "submodule.recurse=false")
    command = ["git", *(part for each in settings for part in ("-c", each)), *arguments]
    # Never `ext::`, which names a program.
    environment = {**os.environ, "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file"}
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are a list, and the URL stands after `--`
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except FileNotFoundError:
        raise UsageError("git is not installed", hint="Install it, or download the skill.") from None
    if done.returncode:
        told = (done.stderr.strip().splitlines() or ["git failed"])[-1]
        raise UsageError(f"git: {told}", hint="Check the address and your access to it.")
    return done.stdout
