"""Previews and imports of uploads in a served home: in the background, one at a time, with their progress."""

import asyncio
import logging
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from nexus.config import Config
from nexus.errors import CareError, NexusError, UsageError
from nexus.history import sources
from nexus.history.files import total_bytes
from nexus.history.importer import Importer
from nexus.history.preview import Preview, preview
from nexus.history.source import Options, Source, zone
from nexus.history.uploads import Upload, Uploads
from nexus.ledgers import Ledgers
from nexus.ledgers.events.imports import Import
from nexus.memory.operations import Memory

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
        return Options(owner=self.owner, timezone=zone(self.timezone), trusts_from=self.trusts_from)


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
        for upload in await asyncio.to_thread(self.uploads.listed):
            if upload.choices is not None:
                self._start(upload, "import", Choices.load(upload.choices))

    async def close(self) -> None:
        """Stop; imports go on when the home is served again."""
        running = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def job(self, upload_id: str) -> Job | None:
        """What was last done with an upload."""
        return self._jobs.get(upload_id)

    @property
    def importing(self) -> bool:
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
        source = await asyncio.to_thread(self._opened, job)
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

    def _opened(self, job: Job) -> Source:
        return sources.opened(job.upload.path, job.choices.options(), job.choices.format or None)
