"""The owner's profile: what it says, what each line rests on, its versions, and a form to edit it."""

from starlette.requests import Request
from starlette.responses import Response

from nexus.app import App
from nexus.gateway.dashboard.endpoint import back, form, get, post
from nexus.gateway.dashboard.render import page
from nexus.memory.profile import MAX_TOKENS, OwnerProfile, versions


async def shown(request: Request, app: App) -> Response:
    """The newest version."""
    version = await versions.newest(app.ledgers) or await OwnerProfile(app.ledgers).refresh()
    cited = await versions.citations(app.ledgers, version.id) if version else []
    lines = [
        (text, [each for each in cited if each.line == number])
        for number, text in enumerate((version.content if version else "").splitlines(), start=1)
    ]
    return await page(
        request,
        "profile.html",
        active="memory",
        profile=version,
        lines=lines,
        versions=await versions.list_versions(app.ledgers),
        max_tokens=MAX_TOKENS,
    )


async def write(request: Request, app: App) -> Response:
    """Save the owner's edit."""
    await OwnerProfile(app.ledgers).write((await form(request)).raw("content"))
    return back("/memory/profile")


async def reset(request: Request, app: App) -> Response:
    """Drop the owner's edit."""
    await OwnerProfile(app.ledgers).reset()
    return back("/memory/profile")


ROUTES = (
    get("/memory/profile", shown),
    post("/memory/profile", write),
    post("/memory/profile/reset", reset),
)
