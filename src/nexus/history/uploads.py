"""Uploaded exports: kept below the home until they are imported or discarded.

A served home previews and imports them in the background, one at a time, and shows their progress. Each has a
folder of its own under a name that this program chose. The browser's name for the file only names the file in
it, without anything that could lead elsewhere.
"""

import asyncio
import json
import logging
import re
import shutil
from collections import Counter
from collections.abc import AsyncIterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from nexus import clock, ids
from nexus.config import Config
from nexus.errors import CareError, MissingError, NexusError, UsageError
from nexus.history import sources
from nexus.history.files import total_bytes
from nexus.history.importer import Chunk, Importer, Progress, chunks
from nexus.history.source import Options, Source, find_zone
from nexus.home import PRIVATE_DIRECTORY, PRIVATE_FILE, Home
from nexus.ledgers import Ledgers
from nexus.ledgers.events import imports
from nexus.ledgers.events.imports import Import, SetAsides
from nexus.memory.operations import Memory
from nexus.text import join_lines

_UNFINISHED: Final = ".unfinished"
_CHOICES: Final = ".choices.json"
_ID: Final = re.compile(r"upl_[0-9A-Z]{26}")
_NAME_BYTES: Final = 200
_WRITTEN_BYTES: Final = 1024 * 1024
# What stays free on the disk, for the ledgers.
_RESERVE_BYTES: Final = 256 * 1024 * 1024


@dataclass(slots=True)
class Preview:
    """Counts, the span of time, and what would be set aside."""

    source: str
    title: str
    size_bytes: int = 0
    threads: int = 0
    messages: int = 0
    known: int = 0
    people: int = 0
    attachments: int = 0
    attachments_absent: int = 0
    """Those whose bytes the export doesn't hold."""
    unverified: int = 0
    """Mail that says it is from the owner, without proof."""
    first: str | None = None
    last: str | None = None
    kinds: Counter[str] = field(default_factory=Counter[str])
    undated: int = 0
    set_aside: SetAsides = field(default_factory=SetAsides)

    def record(self) -> dict[str, Any]:
        """For a program to read."""
        return {
            "format": self.source,
            "size_bytes": self.size_bytes,
            "threads": self.threads,
            "messages": self.messages,
            "already_imported": self.known,
            "people": self.people,
            "attachments": self.attachments,
            "attachments_absent": self.attachments_absent,
            "unverified": self.unverified,
            "first": self.first,
            "last": self.last,
            "kinds": dict(self.kinds),
            "without_time": self.undated,
            "set_aside": dict(self.set_aside.counts),
            "examples": self.set_aside.examples,
        }


async def preview(
    ledgers: Ledgers, source: Source, progress: Progress = lambda messages, size: None
) -> Preview:
    """Read a source to its end, and say what it holds."""
    seen = Preview(source=source.name, title=source.title)
    seen.size_bytes = await asyncio.to_thread(total_bytes, source.files)
    for name, reason in source.files.refused:
        seen.set_aside.add(reason, name)
    threads: set[int] = set()
    people: set[int] = set()
    parts = chunks(source, None)
    while (chunk := await asyncio.to_thread(next, parts, None)) is not None:
        # Hashes, because an archive may name a million people.
        threads.update(hash(thread) for thread in chunk.threads)
        people.update(hash(person.identifier) for each in chunk.messages for person in
                      (*((each.sender,) if each.author == "person" and each.sender else ()), *each.recipients,
                       *each.copied))  # fmt: skip
        _count(seen, chunk)
        ids = [each.external_id for each in chunk.messages]
        seen.known += len(
            await ledgers.events.read(imports.find_recorded, channel=source.channel, external_ids=ids)
        )
        progress(seen.messages, source.files.read_bytes)
    seen.threads, seen.people = len(threads), len(people)
    return seen


def _count(seen: Preview, chunk: Chunk) -> None:
    seen.messages += len(chunk.messages)
    for each in chunk.messages:
        seen.kinds[each.kind] += 1
        seen.attachments += len(each.attachments)
        seen.attachments_absent += sum(file.member is None and file.data is None for file in each.attachments)
        seen.unverified += "unverified_sender" in each.metadata
        if each.at is None:
            seen.undated += 1
            continue
        at = clock.timestamp(each.at)
        seen.first = min(seen.first or at, at)
        seen.last = max(seen.last or at, at)
    for each in chunk.set_aside:
        seen.set_aside.add(each.reason, each.place)


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """An export that was uploaded whole."""

    id: str
    path: Path
    size_bytes: int
    choices: dict[str, Any] | None
    """How it is to be read, once its import was started."""

    @property
    def name(self) -> str:
        return self.path.name


class Uploads:
    """The uploads of one home."""

    def __init__(self, home: Home, max_bytes: int) -> None:
        self._folder = home.run / "uploads"
        self.max_bytes = max_bytes

    async def receive(
        self, name: str, pieces: AsyncIterable[bytes], expected_bytes: int | None = None
    ) -> Upload:
        """Write an upload to disk, piece by piece. One that is too large or breaks off leaves nothing."""
        await asyncio.to_thread(self._check_room, expected_bytes or 0)
        id_ = ids.new("upl")
        folder = self._folder / id_
        await asyncio.to_thread(_new_folder, folder)
        try:
            size = await self._write(folder / _UNFINISHED, pieces)
            path = folder / file_name(name)
            await asyncio.to_thread((folder / _UNFINISHED).rename, path)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        return Upload(id=id_, path=path, size_bytes=size, choices=None)

    def list_complete(self) -> list[Upload]:
        """Return every complete upload, the oldest first."""
        if not self._folder.is_dir():
            return []
        found = (self._read(folder) for folder in sorted(self._folder.iterdir()))
        return [each for each in found if each is not None]

    def get(self, upload_id: str) -> Upload:
        """Return the upload of that id."""
        found = self._read(self._folder / upload_id) if _ID.fullmatch(upload_id) else None
        if found is None:
            raise MissingError("This upload is gone", hint="Upload the file again.")
        return found

    def choose(self, upload: Upload, choices: dict[str, Any] | None) -> None:
        """Note how an upload is to be read, so that its import can go on after a restart."""
        file = upload.path.with_name(_CHOICES)
        if choices is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(json.dumps(choices), encoding="utf-8")

    def discard(self, upload: Upload) -> None:
        """Delete an upload."""
        shutil.rmtree(upload.path.parent, ignore_errors=True)

    def sweep(self) -> None:
        """Delete what a killed process left unfinished."""
        if self._folder.is_dir():
            for folder in self._folder.iterdir():
                if self._read(folder) is None:
                    shutil.rmtree(folder, ignore_errors=True)

    async def _write(self, path: Path, pieces: AsyncIterable[bytes]) -> int:
        file = await asyncio.to_thread(_new_file, path)
        size, held = 0, bytearray()
        try:
            async for piece in pieces:
                size += len(piece)
                if size > self.max_bytes:
                    raise self._too_large()
                held += piece
                if len(held) >= _WRITTEN_BYTES:
                    await asyncio.to_thread(file.write, bytes(held))
                    held.clear()
            await asyncio.to_thread(file.write, bytes(held))
        finally:
            await asyncio.to_thread(file.close)
        if not size:
            raise UsageError("The file is empty", hint="Choose the file that you exported.")
        return size

    def _check_room(self, expected_bytes: int) -> None:
        if expected_bytes > self.max_bytes:
            raise self._too_large()
        _new_folder(self._folder)
        free = shutil.disk_usage(self._folder).free - _RESERVE_BYTES
        if expected_bytes > free:
            raise CareError(
                f"The disk has no room for {expected_bytes:,} bytes",
                hint="Make room, or import the file where it is with `nexus import`.",
            )

    def _too_large(self) -> UsageError:
        return UsageError(
            f"The file is larger than {self.max_bytes:,} bytes",
            hint="Import it with `nexus import`, or raise `max_upload_bytes` below [gateway] in config.toml.",
        )

    def _read(self, folder: Path) -> Upload | None:
        if not folder.is_dir() or not _ID.fullmatch(folder.name):
            return None
        for path in folder.iterdir():
            if not path.name.startswith("."):
                file = folder / _CHOICES
                choices = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
                return Upload(id=folder.name, path=path, size_bytes=path.stat().st_size, choices=choices)
        return None


def file_name(given: str) -> str:
    """Return the last part of a name, without what a file name may not hold."""
    last = re.split(r"[/\\]", given)[-1]
    plain = "".join(character if character.isprintable() else " " for character in last)
    plain = join_lines(plain).lstrip(". ")
    stem, dot, ending = plain.rpartition(".")
    if dot and len(ending) <= 10:
        return f"{_cut(stem, _NAME_BYTES - len(ending.encode()))}.{ending}"
    return _cut(plain, _NAME_BYTES) or "export"


def _cut(text: str, most_bytes: int) -> str:
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


def _new_file(path: Path) -> BinaryIO:
    file = path.open("xb")
    path.chmod(PRIVATE_FILE)
    return file


def _new_folder(folder: Path) -> None:
    folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)


Kind = Literal["preview", "import"]
Status = Literal["waiting", "running", "done", "failed"]
_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """How an upload is to be read."""

    owner: tuple[str, ...] = ()
    timezone: str = ""
    format: str = ""
    trusts_from: bool = False

    @classmethod
    def load(cls, values: dict[str, Any]) -> "Choices":
        owner: list[str] = values.pop("owner", [])
        return cls(owner=tuple(owner), **values)

    def options(self) -> Options:
        return Options(owner=self.owner, timezone=find_zone(self.timezone), trusts_from=self.trusts_from)


@dataclass(kw_only=True, slots=True)
class Job:
    """A preview or an import of one upload, as far as it has come."""

    upload: Upload
    kind: Kind
    choices: Choices
    status: Status = "waiting"
    messages: int = 0
    read_bytes: int = 0
    total_bytes: int = 0
    preview: Preview | None = None
    imported: Import | None = None
    error: NexusError | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        return self.status in ("done", "failed")


class ImportJobs:
    """What is being done with the uploads of one home."""

    def __init__(self, ledgers: Ledgers, memory: Memory, config: Config) -> None:
        self._ledgers = ledgers
        self._memory = memory
        self._config = config
        self._jobs: dict[str, Job] = {}
        self._turn = asyncio.Lock()
        self.uploads = Uploads(ledgers.home, config.gateway.max_upload_bytes)

    async def recover(self) -> None:
        """Go on with the imports that a restart interrupted."""
        await asyncio.to_thread(self.uploads.sweep)
        for upload in await asyncio.to_thread(self.uploads.list_complete):
            if upload.choices is not None:
                self._start(upload, "import", Choices.load(upload.choices))

    async def close(self) -> None:
        """Stop; imports go on when the home is served again."""
        running = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def job(self, upload_id: str) -> Job | None:
        """Return what was last done with an upload."""
        return self._jobs.get(upload_id)

    @property
    def is_importing(self) -> bool:
        """Whether an import is waiting or under way."""
        return any(job.kind == "import" and not job.is_over for job in self._jobs.values())

    async def preview(self, upload_id: str, choices: Choices) -> Job:
        """Begin to count what an upload would bring."""
        upload = await asyncio.to_thread(self.uploads.get, upload_id)
        choices.options()
        await self._stop(upload)
        return self._start(upload, "preview", choices)

    async def start(self, upload_id: str, choices: Choices) -> Job:
        """Begin to import an upload. It is deleted when everything is recorded."""
        upload = await asyncio.to_thread(self.uploads.get, upload_id)
        choices.options()
        await self._stop(upload)
        await asyncio.to_thread(self.uploads.choose, upload, asdict(choices))
        return self._start(upload, "import", choices)

    async def discard(self, upload_id: str) -> None:
        """Delete an upload that isn't being imported."""
        upload = await asyncio.to_thread(self.uploads.get, upload_id)
        await self._stop(upload)
        self._jobs.pop(upload_id, None)
        await asyncio.to_thread(self.uploads.discard, upload)

    async def _stop(self, upload: Upload) -> None:
        """End a preview of an upload, for another or for the import."""
        job = self._jobs.get(upload.id)
        if job is None or job.is_over or job.task is None:
            return
        if job.kind == "import":
            raise UsageError(f"{upload.name} is being imported", hint="Wait until it is done.")
        job.task.cancel()
        await asyncio.gather(job.task, return_exceptions=True)

    def _start(self, upload: Upload, kind: Kind, choices: Choices) -> Job:
        job = Job(upload=upload, kind=kind, choices=choices)
        self._jobs.pop(upload.id, None)
        self._jobs[upload.id] = job
        over = [id_ for id_, each in self._jobs.items() if each.is_over]
        for id_ in over[:-_REMEMBERED]:
            del self._jobs[id_]
        job.task = asyncio.create_task(self._run(job))
        return job

    async def _run(self, job: Job) -> None:
        try:
            async with self._turn:
                job.status = "running"
                await self._work(job)
        except NexusError as error:
            job.error = error
        except Exception as error:
            _LOG.exception("an import failed")
            job.error = CareError(f"The import failed: {type(error).__name__}: {error}")
        if job.kind == "import":
            if job.error is None:
                await asyncio.to_thread(self.uploads.discard, job.upload)
            else:
                await asyncio.to_thread(self.uploads.choose, job.upload, None)
        job.status = "failed" if job.error else "done"

    async def _work(self, job: Job) -> None:
        choices = job.choices
        source = await asyncio.to_thread(
            sources.open_source, job.upload.path, choices.options(), choices.format or None
        )
        job.total_bytes = await asyncio.to_thread(total_bytes, source.files)

        def progress(messages: int, read_bytes: int) -> None:
            job.messages, job.read_bytes = messages, min(read_bytes, job.total_bytes)

        if job.kind == "preview":
            job.preview = await preview(self._ledgers, source, progress)
            return
        importer = Importer(
            self._ledgers,
            self._memory,
            source,
            phone_region=self._config.memory.phone_region,
            attachment_bytes=self._config.attachments.max_bytes,
            progress=progress,
        )
        job.imported = await importer.run()
