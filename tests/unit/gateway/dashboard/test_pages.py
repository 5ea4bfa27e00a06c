"""Pages: each is there, empty and full; what is in the ledgers cannot become a part of the page itself."""

import re
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from nexus.gateway.dashboard.render import POLICY, TEMPLATES
from nexus.ledgers.memory import exams
from nexus.ledgers.runtime import usage
from nexus.ledgers.runtime.usage import NewHit
from unit.gateway.scene import Scene

PAGES = (
    "/",
    "/search",
    "/help",
    "/chat",
    "/requests",
    "/memory",
    "/memory/entities",
    "/memory/facts",
    "/memory/episodes",
    "/memory/observations",
    "/memory/models",
    "/memory/merges",
    "/memory/exam",
    "/automations",
    "/automations/new",
    "/automations/new/script",
    "/sessions",
    "/usage",
    "/channels",
    "/people",
    "/settings",
)
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


async def fill(scene: Scene, folder: Path) -> None:
    """Something hostile wherever a page shows a text."""
    (event_id,) = await scene.say(HOSTILE)
    await scene.lineage()
    await scene.converse(HOSTILE)
    await scene.remember("entity", id="one", name=f"Ada {HOSTILE}", type="Person")
    await scene.remember("entity", id="two", name=f"Ada B {HOSTILE}", type="Person")
    await scene.remember("fact", about="one", fact=f"Ada says {HOSTILE}", event_id=event_id)
    await scene.remember(
        "episode",
        title=HOSTILE,
        channel="cli",
        events=[event_id],
        start="2026-05-01T10:00:00Z",
        end="2026-05-01T11:00:00Z",
    )
    await scene.automation(folder, "greeter", description=HOSTILE)
    await examine(scene)


async def examine(scene: Scene) -> None:
    """Two exams, with something wrong."""
    fact_id = str(await scene.ledgers.memory.read(lambda c: c.execute("SELECT id FROM facts").get))
    for number in (1, 2):
        exam = exams.Exam(
            id=f"exm_{number}",
            sample_id="exm_1",
            created_at=f"2026-05-0{number}T10:00:00.000Z",
            facts=1,
            settings={"embedding": HOSTILE},
            questioner=HOSTILE,
        )
        answer = exams.Answer(
            fact_id=fact_id, age="month", kind="statement", entity_id="one", asked=4, found=number
        )
        finding = exams.Finding(
            problem="hidden",
            fact_id=fact_id,
            fact="",
            detail=HOSTILE,
            fixes=(exams.Fix(does=HOSTILE, command=HOSTILE),),
        )
        await scene.ledgers.memory.write(exams.add, exam, [answer], [finding])


async def test_every_page_of_an_empty_home_says_what_to_do_next(client: httpx.AsyncClient) -> None:
    for path in PAGES:
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert "<h1>" in answer.text, path


async def test_stored_text_is_shown_and_never_becomes_part_of_a_page(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    await fill(scene, tmp_path)
    further = (
        "/requests/req_ROOT1",
        "/sessions/main",
        "/chat/main",
        "/memory/entities/one",
        "/automations/greeter",
    )
    for path in (*PAGES, *further, "/memory?q=Ada"):
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert "<script>alert" not in answer.text, path
        assert not re.search(r"<img\b", answer.text), path
    examined = (await client.get("/memory/exam")).text
    assert "Of 1 thing you told me, I would find 1 (100%)." in examined
    assert examined.count('class="point"') == 2
    assert "Of 1 thing you told me, I would find 0 (0%)." in (await client.get("/memory/exam?id=exm_1")).text
    assert "No exam yet" in (await client.get("/memory/exam?id=none")).text
    shown = (await client.get("/memory/facts")).text
    assert "Ada says &lt;script&gt;" in shown
    event_id = re.search(r"/events/(evt_\w+)", shown)
    assert event_id is not None
    assert "&lt;script&gt;" in (await client.get(event_id[0])).text


async def test_no_page_may_run_a_script_of_its_own_or_load_anything_from_elsewhere(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/requests")
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    for template in TEMPLATES.glob("*.html"):
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), template.name
        assert not re.search(r"\s(on\w+|style)=", text), template.name
        assert not re.search(r"(src|href)=\"(https?:)?//", text), template.name
        assert "| safe" not in text, template.name


async def test_what_is_not_there_is_told_on_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/events/evt_none")
    assert answer.status_code == 404
    assert "Unknown event evt_none" in answer.text
    part = await client.get("/automations/none", headers={"hx-request": "true"})
    assert part.status_code == 404
    assert "<html" not in part.text


async def test_a_list_goes_on_where_it_was_left(client: httpx.AsyncClient, scene: Scene) -> None:
    await scene.requests(60)
    first = (await client.get("/requests")).text
    following = re.search(r'hx-get="(/requests\?cursor=[^"]+)"', first)
    assert following is not None
    rest = (await client.get(following[1].replace("&amp;", "&"), headers={"hx-request": "true"})).text
    assert rest.count("<tr>") == 10
    assert "<html" not in rest


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_chosen_theme_is_there_from_the_first_byte(client: httpx.AsyncClient, theme: str) -> None:
    answer = await client.get("/settings", headers={"cookie": f"theme={theme}"})
    assert f'<html lang="en" data-theme="{theme}">' in answer.text
    assert "data-theme=" not in (await client.get("/settings", headers={"cookie": 'theme="><b>'})).text


async def test_a_budget_that_was_used_up_is_shown_with_what_it_refused(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await scene.lineage()
    hit = NewHit(
        id="bgt_1",
        budget="automation",
        unit="usd",
        automation="memory-writer",
        most=0.5,
        used=0.52,
        request_id="req_ROOT1",
        root_request_id="req_ROOT1",
        execution_id=None,
    )
    await scene.ledgers.runtime.write(usage.record_hit, hit)
    shown = (await client.get("/usage")).text
    assert "Budget of memory-writer" in shown
    assert "$0.52 of $0.50" in shown
    assert 'href="/requests/req_ROOT1"' in shown


FAR = ("9" * 20, "9" * 5_000, str((1 << 62) + 1), "-1", "\u0665x")


@pytest.mark.parametrize("far", FAR)
async def test_a_place_that_no_list_has_is_the_fault_of_whoever_asks(
    client: httpx.AsyncClient, scene: Scene, far: str
) -> None:
    request_id = await scene.lineage()
    await scene.converse("Hello", label="main")
    await scene.remember("entity", id="one", name="Ada", type="Person")
    asked = [
        (f"/requests/{request_id}", {"from": far}),
        ("/memory/facts", {"cursor": far}),
        ("/memory/entities/one", {"cursor": f"2026~{far}"}),
        ("/sessions/main", {"cursor": far}),
        ("/chat/main", {"cursor": far}),
        ("/api/memory/facts", {"cursor": far}),
        ("/api/memory/entities/one/timeline", {"cursor": f"2026~{far}"}),
        ("/api/sessions/main/transcript", {"cursor": far}),
    ]
    for path, params in asked:
        answer = await client.get(path, params=params)
        assert answer.status_code in {400, 422}, (path, answer.text[:500])


async def test_the_farthest_place_is_one(client: httpx.AsyncClient) -> None:
    assert (await client.get("/memory/facts", params={"cursor": str(1 << 62)})).status_code == 200


@pytest.mark.parametrize("label", ["tea/time", "tea/later", "runs/one/answer", "tea/say"])
async def test_a_session_can_be_opened_whatever_its_label_holds(
    client: httpx.AsyncClient, scene: Scene, label: str
) -> None:
    await scene.converse("Where is the tea?", label=label)
    address = f"/chat/{quote(label, safe='')}"
    assert address in (await client.get("/chat")).text
    for path in (address, f"/chat/{label}"):
        shown = await client.get(path)
        assert shown.status_code == 200
        assert f"<h1>{label}</h1>" in shown.text
        assert "Answer to: Where is the tea?" in shown.text
    polled = re.findall(r'data-later="(/chat-later/[^"?]+)', shown.text)
    assert polled
    assert (await client.get(polled[0], headers={"hx-request": "true"})).status_code == 200


async def test_a_browser_is_told_on_a_page_that_there_is_none(client: httpx.AsyncClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nowhere", "/static/nothing.css"):
        told = await client.get(path, headers=browser)
        assert told.status_code == 404
        assert told.headers["content-type"].startswith("text/html")
        assert told.headers["content-security-policy"] == POLICY
        assert "Page not found" in told.text
    for path, headers in (("/nowhere", {}), ("/api/nowhere", browser)):
        told = await client.get(path, headers=headers)
        assert (told.status_code, told.headers["content-type"]) == (404, "application/problem+json")
