"""However much was said, no page is too large for a browser, and making one keeps nobody else waiting."""

import asyncio
import json
import re
import threading
from html import unescape
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from nexus.gateway.dashboard import render, words
from nexus.gateway.dashboard.render import MOST_AT_ONCE, outcome, page, pretty
from nexus.ledgers.agents import messages, turns
from nexus.ledgers.agents.messages import NewMessage
from unit.gateway.scene import SCRIPT, Scene
from unit.ledgers.runtime.lineage import ROOT

MOST_BYTES = 300_000
PATIENCE_S = 60
# What takes most room on a page: quotation marks when escaped, cells and marks when they are Markdown.
QUOTES, MARKS = '"' * 1_000_000, "`a` " * 250_000
TABLE = "|" * 400 + "\n" + "-|" * 400 + "\n" + "|\n" * 5_000


def _session(connection: apsw.Connection) -> None:
    """A thousand turns of long messages and many calls, and then one of a million characters."""
    turn = turns.begin(
        connection, session_label="main", execution_id="exe_s", request_id=ROOT, role="manager"
    )
    said: list[NewMessage] = []
    for place in range(1_000):
        most = 9_000 if place % 50 == 0 else 900
        said.append(NewMessage(role="user", content=QUOTES[:most], parts_json=None))
        said.append(NewMessage(role="assistant", content=(MARKS, TABLE)[place % 2][:most], parts_json=None))
    messages.append(connection, turn, 0, [*said, NewMessage(role="user", content=QUOTES, parts_json=None)])
    calls = [
        (f"tcl_{n:03}", turn.id, "[" * 700 + "]" * 700, QUOTES[:9_000], 1_999 - n % 2) for n in range(60)
    ]
    connection.executemany(
        "INSERT INTO agent_tool_calls (id, session_id, turn_id, tool_name, arguments_json, result, position)"
        " SELECT ?1, session_id, id, 'bash', ?3, ?4, ?5 FROM agent_turns WHERE id = ?2",
        calls,
    )
    turns.end(connection, turn.id, "done")


def _facts(connection: apsw.Connection, event_id: str) -> None:
    connection.executemany(
        "INSERT INTO facts (id, source_entity_id, fact, source_event_id) VALUES (?, 'busy', ?, ?)",
        ((f"fact_{n:05}", f"{n} {QUOTES[:3_000]}", event_id) for n in range(5_000)),
    )
    connection.execute(
        "INSERT INTO analysis_runs (id, type_id, subject_entity_id, content)"
        " VALUES ('obs_1', 'observation', 'busy', ?)",
        (TABLE,),
    )
    connection.execute("INSERT INTO observation_facts SELECT 'obs_1', id FROM facts LIMIT 200")


def _spans(connection: apsw.Connection) -> None:
    attributes = json.dumps({"error": "e" * 3_000, "path": "&" * 3_000})
    connection.executemany(
        "INSERT INTO spans (id, request_id, root_request_id, execution_id, kind, name, started_at,"
        " duration_ms, outcome, attributes_json)"
        " VALUES (?, ?2, ?2, 'exe_1', 'tool', 'bash', ?3, 1.5, 'error', ?4)",
        ((f"spn_x{n:04}", ROOT, f"2026-05-01T10:00:{n % 60:02}.000Z", attributes) for n in range(2_000)),
    )


async def fill(scene: Scene, folder: Path) -> list[str]:
    """Too much of everything; the pages that show it."""
    (event_id,) = await scene.say(QUOTES)
    await scene.say(*[QUOTES[:5_000]] * 60)
    await scene.lineage()
    await scene.say(*[MARKS[:50_000]] * 4, direction="outbound", request_id=ROOT)
    await scene.remember("entity", id="busy", name="Busy", type="Person")
    await scene.ledgers.agents.write(_session)
    await scene.ledgers.memory.write(_facts, event_id)
    await scene.ledgers.runtime.write(_spans)
    said = await scene.ledgers.events.read(lambda c: [row[0] for row in c.execute("SELECT id FROM events")])
    times = {"start": "2026-05-01T10:00:00Z", "end": "2026-05-01T11:00:00Z"}
    made = await scene.remember("episode", title="Much", channel="cli", events=said, **times)
    await scene.automation(folder, "busy", f"{SCRIPT}# {QUOTES[:50_000]}\n")
    return [
        "/chat/main",
        "/sessions/main",
        "/sessions",
        f"/events/{event_id}",
        f"/requests/{ROOT}",
        "/requests",
        "/memory/facts",
        "/memory/entities/busy",
        "/memory/observations",
        "/memory/observations/obs_1",
        f"/memory/episodes/{made['id']}",
        "/memory?q=busy",
        "/automations/busy",
        "/automations",
        "/usage",
    ]


async def test_no_page_of_a_hostile_home_is_too_large(
    client: httpx.AsyncClient, scene: Scene, tmp_path: Path
) -> None:
    wanted = await fill(scene, tmp_path)
    whole = re.search(r"/messages/\w+", (await client.get("/sessions/main")).text)
    assert whole is not None
    for path in [*wanted, whole[0]]:
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text[-500:])
        assert len(answer.content) < MOST_BYTES, (path, len(answer.content))
        for following in set(re.findall(r'hx-get="([^"]+)"', answer.text)):
            more = await client.get(unescape(following), headers={"hx-request": "true"})
            assert more.status_code == 200, (following, more.text[-500:])
            assert len(more.content) < MOST_BYTES, (following, len(more.content))


async def test_a_long_message_can_be_read_to_its_end(client: httpx.AsyncClient, scene: Scene) -> None:
    text = "".join(f"line {number}\n" for number in range(9_000))
    (event_id,) = await scene.say(text)
    address, read = f"/events/{event_id}?from=0", ""
    while address:
        shown = (await client.get(address, headers={"hx-request": "true"})).text
        read += unescape(re.findall(r'<div class="said whole">(.*?)</div>', shown, re.DOTALL)[0])
        following = re.search(r'hx-get="([^"]+)"', shown)
        address = unescape(following[1]) if following else ""
    assert read == text


async def test_a_transcript_goes_on_with_the_messages_that_did_not_fit(
    client: httpx.AsyncClient, scene: Scene
) -> None:
    await scene.converse(*(f"{number:02} {QUOTES[:4_000]}" for number in range(20)))
    address, found = "/sessions/main", list[str]()
    while address:
        shown = (await client.get(address)).text
        found = [*re.findall(r'said">(\d\d) &', shown), *found]
        following = re.search(r'hx-get="([^"]+)"', shown)
        address = unescape(following[1]) if following else ""
    assert found == [f"{number:02}" for number in range(20)]


@pytest.mark.parametrize("text", [MARKS[:6_000], TABLE, "> " * 3_000, QUOTES[:6_000], "-\n" * 3_000])
def test_what_a_text_becomes_is_bounded_by_the_text(text: str) -> None:
    plain = len(str(words.markdown("x" * 30_000))) - 30_000
    assert len(words.markdown(text)) <= 3 * (5 * len(text) + plain) + 1_000


def test_json_that_would_become_very_large_stays_as_it_came() -> None:
    deep = "[" * 700 + "]" * 700
    assert pretty(deep) == deep
    assert outcome('{"log": {"turns": 1, "said": "Nothing to remember"}}') == "Nothing to remember"
    assert outcome('{"log": {"waits": "no turn is due"}}') == "no turn is due"
    assert [outcome(other) for other in ("plain", "[1]", '{"log": {}}')] == [
        "plain", "[\n  1\n]", '{\n  "log": {}\n}'
    ]  # fmt: skip
    assert pretty('{"a": [1]}') == '{\n  "a": [\n    1\n  ]\n}'


def test_a_part_ends_with_a_line() -> None:
    first = render.cut_part("aaaa\n" * 10_000, most=9_999)
    assert (len(first.text), first.next, first.whole) == (9_995, 9_995, 50_000)
    assert render.cut_part("x" * 50, 40).next is None


class Shown:
    """Tells on which thread it is put on a page, and is only put there when it may."""

    hint = ""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.threads: list[int] = []

    @property
    def message(self) -> str:
        self.threads.append(threading.get_ident())
        assert self.may.wait(PATIENCE_S)
        return "Shown"


def _request() -> Request:
    app = Starlette()
    app.state.making = asyncio.Semaphore(MOST_AT_ONCE)
    scope: dict[str, Any] = {
        "type": "http",
        "app": app,
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [],
    }
    return Request(scope)


async def test_pages_are_made_on_threads_and_few_at_once() -> None:
    request, shown = _request(), Shown()
    making = [
        asyncio.create_task(page(request, "part_error.html", error=shown)) for _ in range(MOST_AT_ONCE + 3)
    ]
    async with asyncio.timeout(PATIENCE_S):
        while len(shown.threads) < MOST_AT_ONCE:
            await asyncio.sleep(0.01)
    # The loop goes on meanwhile, and no further page is begun.
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert len(shown.threads) == MOST_AT_ONCE
    shown.may.set()
    answers = await asyncio.gather(*making)
    assert {answer.status_code for answer in answers} == {200}
    assert threading.get_ident() not in shown.threads
