"""Forgetting over the dashboard and the API: what it shows, and its receipt."""

import asyncio

import httpx

from nexus.app import App
from nexus.ledgers import backup, sql
from nexus.ledgers.forgetting import Receipt
from unit.gateway.scene import Scene


async def test_the_page_after_forgetting_shows_the_receipt_and_hands_it_out(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    await scene.remember("entity", id="tyler", name="Tyler Quillfeather", type="Person")
    await scene.remember("fact", about="tyler", fact="Tyler Quillfeather plays the cello")
    await asyncio.to_thread(backup.make, app.home, app.home.root.parent / "backup")

    page = (await client.post("/memory/forget", data={"entity": "tyler", "sure": "yes"})).text
    assert "Searched and clean: rows, indexes, free pages, wal" in page
    assert "still has it:" in page
    (forget_id,) = [part.split('"')[0] for part in page.split("/memory/forget/")[1:]]
    given = await client.get(f"/memory/forget/{forget_id}")
    assert given.headers["content-disposition"] == f'attachment; filename="{forget_id}"'
    file = app.home.root.parent / forget_id
    file.write_bytes(given.content)
    assert Receipt.read(file).id == forget_id.removesuffix(".json")

    assert (await client.get("/memory/forget/fgt_none.json")).status_code == 404
    assert (await client.get("/memory/forget/..%2F..%2Ftoken.json")).status_code == 404


async def test_the_page_previews_a_correction_and_changes_nothing(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    fact = await scene.remember("fact", fact="Tyler Quillfeather plays the cello")
    # What begins like an option is a text all the same.
    given = {"change": "correct", "fact_id": fact["id"], "fact": "--yes he plays the viola"}
    shown = (await client.post("/memory/preview", data=given)).text
    assert "Nothing to compare: no prompts in the last 30 days." in shown
    gone = {"change": "forget", "fact_id": "fact_none"}
    refused = await client.post("/memory/preview", data=gone)
    assert "fact_none" in refused.text
    assert await app.ledgers.memory.read(sql.value, "SELECT count(*) FROM facts") == 1


async def test_the_api_hands_out_a_receipt_and_checks_it(
    client: httpx.AsyncClient, app: App, scene: Scene
) -> None:
    await scene.remember("fact", fact="Tyler Quillfeather plays the cello")
    (fact_id,) = await app.ledgers.memory.read(
        lambda c: [row[0] for row in c.execute("SELECT id FROM facts")]
    )
    await asyncio.to_thread(backup.make, app.home, app.home.root.parent / "backup")

    done = (await client.post("/api/memory/forget", json={"fact": fact_id})).json()
    receipt = (await client.get(f"/api/memory/forget/{done['forget_id']}")).json()
    assert receipt["removed"] == done["removed"]
    own, old = (await client.get(f"/api/memory/forget/{done['forget_id']}/check")).json()
    assert (own["kind"], own["clean"]) == ("home", True)
    assert (old["kind"], old["clean"], old["rows"]["memory.facts"]) == ("backup", False, 1)
    assert (await client.get("/api/memory/forget/fgt_none")).status_code == 404
