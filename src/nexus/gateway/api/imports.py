"""Histories: uploading an export, what it would bring, importing it, and undoing that."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field

from nexus import history
from nexus.errors import MissingError
from nexus.gateway.dependencies import ServedApp, api_router
from nexus.history.uploads import Upload
from nexus.ledgers.events import imports

router = api_router("imports")
UploadId = Annotated[str, Path(max_length=60, description="The upload's id: `upl_…`.")]
ImportId = Annotated[str, Path(max_length=60, description="The import's id: `imp_…`.")]


class Import(BaseModel):
    """A history that was imported."""

    id: str
    format: str
    location: str = Field(description="The file or folder that was read.")
    status: str = Field(description="`running` (or interrupted) or `done`.")
    threads: int
    messages: int
    already_imported: int
    set_aside: dict[str, int] = Field(description="What couldn't be read, by reason.")
    examples: list[list[str]] = Field(description="Some of that: the reason and the place.")
    created_at: str
    completed_at: str | None


class Report(BaseModel):
    """What an import would bring."""

    format: str
    size_bytes: int
    threads: int
    messages: int
    already_imported: int
    people: int
    attachments: int
    attachments_absent: int = Field(description="Those of which the export only has the name.")
    unverified: int = Field(description="Mail from your address without proof that you sent it.")
    first: str | None
    last: str | None
    kinds: dict[str, int]
    without_time: int
    set_aside: dict[str, int]
    examples: list[list[str]]


class Uploaded(BaseModel):
    """An uploaded export, and what is being done with it."""

    id: str
    name: str
    size_bytes: int
    job: Literal["preview", "import"] | None = None
    status: Literal["waiting", "running", "done", "failed"] | None = None
    messages: int = Field(default=0, description="Messages read or recorded so far.")
    read_bytes: int = 0
    total_bytes: int = 0
    report: Report | None = Field(default=None, description="The result of a preview.")
    imported: Import | None = Field(default=None, description="The result of an import.")
    error: str | None = None
    hint: str | None = None


class HowToRead(BaseModel):
    """How an export is to be read."""

    me: list[Annotated[str, Field(min_length=1, max_length=300)]] = Field(
        default=[], max_length=50, description="How you appear in it: names, addresses or ids."
    )
    timezone: str = Field(
        default="", max_length=60, description="Of times without one. Default: this machine's."
    )
    format: str = Field(default="", max_length=40, description="Empty: recognized.")
    trust_from: bool = Field(
        default=False, description="Take mail from your address for yours without proof."
    )

    def choices(self) -> history.Choices:
        return history.Choices(
            owner=tuple(self.me), timezone=self.timezone, format=self.format, trusts_from=self.trust_from
        )


@router.get("/uploads")
async def list_uploads(app: ServedApp) -> list[Uploaded]:
    """Every upload that is not imported yet."""
    return [
        _describe_upload(app, each) for each in await asyncio.to_thread(app.imports.uploads.list_complete)
    ]


@router.post(
    "/uploads",
    status_code=201,
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {}}}},
    },
)
async def upload_export(
    app: ServedApp, request: Request, name: Annotated[str, Query(min_length=1, max_length=500)]
) -> Uploaded:
    """Upload an export. The body is the file; it is written to disk as it comes."""
    given = request.headers.get("content-length", "")
    expected = int(given) if given.isdecimal() and len(given) < 16 else None
    upload = await app.imports.uploads.receive(name, _stream_body(request), expected)
    return _describe_upload(app, upload)


@router.get("/uploads/{upload_id}")
async def get_upload(app: ServedApp, upload_id: UploadId) -> Uploaded:
    """An upload with the progress and the result of what is done with it. After its import, it is deleted."""
    job = app.imports.job(upload_id)
    return _describe_upload(
        app, job.upload if job else await asyncio.to_thread(app.imports.uploads.get, upload_id)
    )


@router.delete("/uploads/{upload_id}", status_code=204)
async def discard_upload(app: ServedApp, upload_id: UploadId) -> None:
    """Delete an upload without importing it."""
    await app.imports.discard(upload_id)


@router.post("/uploads/{upload_id}/preview", status_code=202)
async def preview_upload(app: ServedApp, upload_id: UploadId, how: HowToRead) -> Uploaded:
    """Count what an upload would bring. Nothing is recorded."""
    job = await app.imports.preview(upload_id, how.choices())
    return _describe_upload(app, job.upload)


@router.post("/uploads/{upload_id}/import", status_code=202)
async def import_upload(app: ServedApp, upload_id: UploadId, how: HowToRead) -> Uploaded:
    """Import an upload in the background. A restart of the home doesn't end it."""
    job = await app.imports.start(upload_id, how.choices())
    return _describe_upload(app, job.upload)


@router.get("/imports")
async def list_imports(app: ServedApp) -> list[Import]:
    """Every import, the oldest first."""
    return [_describe_import(each) for each in await app.ledgers.events.read(imports.list_imports)]


@router.delete("/imports/{import_id}", status_code=204)
async def undo_import(app: ServedApp, import_id: ImportId) -> None:
    """Undo an import: what it recorded, the people known only from it, and what was learned from it."""
    if import_id not in {each.id for each in await app.ledgers.events.read(imports.list_imports)}:
        raise MissingError("No import has this id", hint="See GET /api/imports.")
    await app.forget_import(import_id)


async def _stream_body(request: Request) -> AsyncGenerator[bytes]:
    async for piece in request.stream():
        yield piece


def _describe_upload(app: ServedApp, upload: Upload) -> Uploaded:
    shown: dict[str, Any] = {"id": upload.id, "name": upload.name, "size_bytes": upload.size_bytes}
    job = app.imports.job(upload.id)
    if job is None:
        return Uploaded(**shown)
    return Uploaded(
        **shown,
        job=job.kind,
        status=job.status,
        messages=job.messages,
        read_bytes=job.read_bytes,
        total_bytes=job.total_bytes,
        report=Report(**job.preview.record()) if job.preview else None,
        imported=_describe_import(job.imported) if job.imported else None,
        error=job.error.message if job.error else None,
        hint=job.error.hint if job.error else None,
    )


def _describe_import(done: imports.Import) -> Import:
    return Import(**done.record())
