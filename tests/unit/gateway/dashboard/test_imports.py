"""Importing in the browser: upload, preview, import, undo; and learning from it."""

import asyncio
import re
from urllib.parse import quote

import httpx
import pytest

from apps import app_on
from nexus.app import App
from nexus.errors import NexusError
from nexus.gateway.guard import BodyLimits, Guard, Keys, Rules
from nexus.home import Home
from nexus.testing import ModelServer
from unit.history.exports import AGENT_SESSIONS, bring, mail, said

PART = {"HX-Request": "true"}
_MAIL = (mail(1, body="The <key> hangs behind the piano.") + mail(2, From="me@example.com")).encode()


async def upload(client: httpx.AsyncClient, name: str = "Sent", data: bytes = _MAIL) -> str:
    answer = await client.post("/api/uploads", params={"name": name}, content=data)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def settled(client: httpx.AsyncClient, id_: str) -> str:
    while True:
        part = await client.get(f"/import/{id_}/progress")
        if "/progress" not in part.text:
            return part.text
        await asyncio.sleep(0.01)


async def test_an_upload_is_previewed_imported_and_undone(client: httpx.AsyncClient, app: App) -> None:
    id_ = await upload(client)
    shown = await client.get(f"/import/{id_}")
    assert 'hx-trigger="load, submit"' in shown.text
    given = {"me": "me@example.com, Max", "timezone": "Europe/Berlin"}
    begun = await client.post(f"/import/{id_}/preview", data=given, headers=PART)
    assert 'id="job"' in begun.text
    report = await settled(client, id_)
    assert "Import 2 messages" in report
    assert '<input type="hidden" name="me" value="me@example.com">' in report
    assert await said(app.ledgers) == []
    await client.post(f"/import/{id_}/start", data={"me": ["me@example.com", "Max"]}, headers=PART)
    assert "2 messages in 2 new threads" in await settled(client, id_)
    assert [sender for _, sender, _ in await said(app.ledgers)] == ["Ada Lovelace", "owner"]
    listed = (await client.get("/import")).text
    (import_id,) = re.findall(r'action="/import/undo/(imp_\w+)"', listed)
    assert "Sent" in listed
    assert import_id in (await client.get("/import", params={"when": "1"})).text
    old = (await client.get("/import", params={"when": "custom", "until": "2020-01-01"})).text
    assert import_id not in old
    assert "No imports found" in old
    await client.post(f"/import/undo/{import_id}")
    assert await said(app.ledgers) == []
    assert "No imports yet" in (await client.get("/import")).text


async def test_an_upload_can_be_discarded(client: httpx.AsyncClient) -> None:
    id_ = await upload(client, "../../<b>x</b>.mbox")
    listed = (await client.get("/import")).text
    assert "&lt;b&gt;x&lt;" not in listed
    assert "b&gt;.mbox" in listed
    await client.post(f"/import/{id_}/discard")
    assert (await client.get(f"/import/{id_}")).status_code == 404


async def test_what_is_no_export_says_so(client: httpx.AsyncClient) -> None:
    id_ = await upload(client, "a.bin", bytes(range(256)))
    await client.post(f"/import/{id_}/preview", data={}, headers=PART)
    assert "unrecognized format" in await settled(client, id_)


async def test_an_upload_that_is_too_large_is_refused(client: httpx.AsyncClient, app: App) -> None:
    app.imports.uploads.max_bytes = 10
    answer = await client.post("/api/uploads", params={"name": "a"}, content=b"x" * 11)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "The file is larger than 10 bytes"
    assert (await client.get("/api/uploads")).json() == []


async def test_the_api_tells_progress_and_result(client: httpx.AsyncClient) -> None:
    id_ = await upload(client)
    path, how = f"/api/uploads/{id_}", {"me": ["me@example.com"]}
    assert (await client.post(f"{path}/preview", json=how)).status_code == 202
    while (told := (await client.get(path)).json())["status"] not in ("done", "failed"):
        await asyncio.sleep(0.01)
    assert (told["job"], told["report"]["messages"], told["report"]["people"]) == ("preview", 2, 2)
    assert (await client.post(f"{path}/import", json=how)).status_code == 202
    while (told := (await client.get(path)).json())["status"] not in ("done", "failed"):
        await asyncio.sleep(0.01)
    import_id = told["imported"]["id"]
    assert [each["id"] for each in (await client.get("/api/imports")).json()] == [import_id]
    assert (await client.delete(f"/api/imports/{import_id}")).status_code == 204
    assert (await client.get("/api/imports")).json() == []
    assert (await client.delete("/api/imports/imp_none")).status_code == 404


async def test_only_uploads_pass_the_guard_in_pieces(app: App) -> None:
    from contextlib import AsyncExitStack

    from nexus.gateway.dependencies import Served
    from nexus.gateway.server import build

    token, host = "t" * 43, "127.0.0.1:7807"
    rules = Rules(
        hosts=frozenset({host}), rate_per_s=100, body=BodyLimits(most_bytes=1_000, timeout_ms=1_000)
    )
    async with AsyncExitStack() as stack:
        guard = Guard(build(Served(app, Keys(token), stack)), Keys(token), rules)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=f"http://{host}")
        )
        bearer = {"authorization": f"Bearer {token}"}
        large = b"x" * 5_000
        assert (await client.post("/api/uploads?name=a", content=large)).status_code == 401
        assert (await client.post("/api/uploads?name=a", content=large, headers=bearer)).status_code == 201
        assert (await client.post("/api/uploads/x/import", content=large, headers=bearer)).status_code == 413


@pytest.mark.parametrize("path", ["/backfill", "/backfill/progress"])
async def test_without_imports_there_is_nothing_to_learn_from(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200


async def test_learning_needs_a_model_and_says_so(client: httpx.AsyncClient) -> None:
    for to in ("estimate", "sample", "start"):
        shown = await client.post(f"/backfill/{to}", data={}, headers=PART)
        refused = await client.post(f"/backfill/{to}", data={})
        assert (shown.status_code, refused.status_code) == (409 if to == "start" else 200, 409)
        assert "No model configured" in shown.text
        assert "No model configured" in refused.text
    assert (await client.get("/api/backfill")).json() is None
    assert (await client.post("/api/backfill/pause")).status_code == 400
    refused = await client.post("/backfill/estimate", data={"budget": "much"}, headers=PART)
    assert "is not a limit" in refused.text


async def test_imported_sessions_are_listed_by_themselves(client: httpx.AsyncClient, app: App) -> None:
    await bring(app.ledgers, AGENT_SESSIONS / "codex")
    address = f"/sessions/{quote('codex:0199c1de-77aa-7d01-b5e6-1b2c3d4e5f60', safe='')}"
    for page in ("/sessions", "/sessions?kind=all", "/sessions?kind=workers", "/chat"):
        assert "teapot" not in (await client.get(page)).text, page
    assert (await client.get("/api/sessions")).json()["items"] == []
    (line,) = (await client.get("/api/sessions", params={"kind": "imported"})).json()["items"]
    assert (line["source"], line["title"]) == ("codex", "Write a README for the teapot.")
    assert "Write a README for the teapot." in (await client.get("/sessions?kind=imported")).text
    shown = (await client.get(address)).text
    assert "Imported from" in shown
    assert "apply_patch" in shown
    assert "Continue in chat" not in shown
    left = await client.get(address.replace("/sessions/", "/chat/"))
    assert (left.status_code, left.headers["location"]) == (303, address)
    await client.post(address.replace("/sessions/", "/session-deletion/"))
    assert (await client.get("/api/sessions", params={"kind": "imported"})).json()["items"] == []
    assert await said(app.ledgers) == []


async def test_a_message_to_an_imported_session_is_refused(home: Home, server: ModelServer) -> None:
    async with app_on(home, server) as app:
        await bring(app.ledgers, AGENT_SESSIONS / "codex")
        run = await app.send("Go on", session_label="codex:0199c1de-77aa-7d01-b5e6-1b2c3d4e5f60")
        with pytest.raises(NexusError, match="imported from codex"):
            await run.result()
    assert server.requests == []
