"""Importing a history: upload, preview, import with its progress, undo."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from nexus import history
from nexus.app import App
from nexus.gateway.dashboard.render import get, is_part, page, post, read_form, read_period, redirect
from nexus.gateway.guard import UPLOADS
from nexus.ledgers.events import imports

_ACTIVE = "import"


async def list_imports(request: Request, app: App) -> Response:
    """Show a place to drop an export, what was uploaded, and what was imported."""
    uploads = await asyncio.to_thread(app.imports.uploads.list_complete)
    done, days = await app.ledgers.events.read(imports.list_imports), read_period(request)
    return await page(
        request,
        "imports.html",
        active=_ACTIVE,
        uploads=[(each, app.imports.job(each.id)) for each in uploads],
        imports=[each for each in done[::-1] if each.created_at in days],
        uploading=UPLOADS,
        max_bytes=app.imports.uploads.max_bytes,
        importing=app.imports.is_importing,
    )


async def show_upload(request: Request, app: App) -> Response:
    """Show an upload: how it is to be read, what it would bring, and its import."""
    id_ = request.path_params["upload"]
    job = app.imports.job(id_)
    upload = job.upload if job else await asyncio.to_thread(app.imports.uploads.get, id_)
    return await page(request, "import.html", active=_ACTIVE, upload=upload, job=job, formats=history.SOURCES)


async def show_progress(request: Request, app: App) -> Response:
    """Show how far the preview or the import of an upload has come."""
    job = app.imports.job(request.path_params["upload"])
    return await page(request, "part_import.html", job=job)


async def preview(request: Request, app: App) -> Response:
    """Begin to count what an upload would bring."""
    id_ = request.path_params["upload"]
    return await _show_job(request, await app.imports.preview(id_, await _read_choices(request)))


async def start(request: Request, app: App) -> Response:
    """Begin to import an upload."""
    id_ = request.path_params["upload"]
    return await _show_job(request, await app.imports.start(id_, await _read_choices(request)))


async def discard(request: Request, app: App) -> Response:
    """Delete an upload."""
    await app.imports.discard(request.path_params["upload"])
    return redirect("/import")


async def undo(request: Request, app: App) -> Response:
    """Undo an import."""
    await app.forget_import(request.path_params["import_id"])
    return redirect("/import")


async def _show_job(request: Request, job: history.Job) -> Response:
    if is_part(request):
        return await page(request, "part_import.html", job=job)
    return redirect(f"/import/{job.upload.id}")


async def _read_choices(request: Request) -> history.Choices:
    given = await read_form(request)
    names = [name.strip() for line in given.all("me") for name in line.replace(",", "\n").splitlines()]
    return history.Choices(
        owner=tuple(name for name in names if name),
        timezone=given.text("timezone"),
        format=given.text("format"),
        trusts_from=given.text("trust_from") == "yes",
    )


ROUTES = (
    get("/import", list_imports),
    post("/import/undo/{import_id}", undo),
    get("/import/{upload}", show_upload),
    get("/import/{upload}/progress", show_progress),
    post("/import/{upload}/preview", preview),
    post("/import/{upload}/start", start),
    post("/import/{upload}/discard", discard),
)
