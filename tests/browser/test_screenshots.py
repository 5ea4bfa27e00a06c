"""The script that takes pictures of the dashboard knows every page."""

from starlette.routing import Route

from browser.pictures import script
from nexus.gateway.dashboard import routes

# Not pages: parts of one, and files. A commit looks as a version does, an approval as in the chat.
_WITHOUT_PICTURE = {
    "/favicon.ico",
    "/sw.js",
    "/chat-later/{label:path}",
    "/chat-answers/{id}",
    "/import/{upload}/progress",
    "/backfill/progress",
    "/chat-workers/{id}",
    "/messages/{id}/text",
    "/events/{id}/files/{place}",
    "/automations/{name}/changes/{commit}",
    "/approvals/{id}",
    "/memory/forget/{forget_id}.json",
    "/mcp-servers/signed-in",
}


def test_every_page_has_its_picture() -> None:
    pages = {each.path for each in routes() if isinstance(each, Route) and "GET" in (each.methods or ())}
    shots = [*script().DEMO, *script().EMPTY]
    assert {shot.route for shot in shots if shot.route} == pages - _WITHOUT_PICTURE
    assert len({shot.name for shot in shots}) == len(shots)
