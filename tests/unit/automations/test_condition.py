"""How an automation fares: one answer, given by `list`, `doctor`, `status`, API and dashboard alike."""

import html
import json
import re
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx
import pytest
from click.testing import CliRunner

from nexus import clock
from nexus.app import App
from nexus.cli import program
from nexus.config import load
from nexus.gateway.dependencies import Served
from nexus.gateway.guard import Keys
from nexus.gateway.server import build
from nexus.home import Home


def nexus(*words: str) -> str:
    return CliRunner().invoke(program, list(words)).output


@pytest.fixture
def tea(home: Home, tmp_path: Path) -> Home:
    file = tmp_path / "tea.py"
    file.write_text("def run(ctx):\n    return None\n")
    nexus("automations", "register", str(file), "--workspace")
    return home


def change(home: Home, column: str, value: str) -> None:
    query = f"UPDATE automations SET {column} = {value} WHERE name = 'tea'"
    subprocess.run(["sqlite3", str(home.ledger("runtime")), query], check=True)


def remove_script(home: Home) -> None:
    (home.scripts / "tea.py").unlink()


TROUBLES: dict[str, tuple[Callable[[Home], None], str]] = {
    "an open circuit": (lambda home: change(home, "circuit_state", "'open'"), "stopped after"),
    "a missing script": (remove_script, "refused: "),
    "an unknown peer": (
        lambda home: change(home, "peer_workspaces", """'["/x/coffee/"]'"""),
        "no workspace of its peer coffee",
    ),
    "a timeout that is cut": (lambda home: change(home, "timeout_ms", "90000"), "exceeds the 30,000 ms"),
    "a last error": (
        lambda home: change(home, "last_error = 'no milk', consecutive_errors", "1"),
        "its last run failed: no milk",
    ),
}


def spend(home: Home) -> None:
    home.config_file.write_text("[budgets]\nautomation_usd = 0.20\n")
    query = (
        "INSERT INTO usage (id, request_id, root_request_id, automation, provider, model, input_tokens, "
        "output_tokens, cost_microusd) VALUES ('use_1', 'req_1', 'req_1', 'tea', 'test', 'any', 1, 1, 300000)"
    )
    subprocess.run(["sqlite3", str(home.ledger("runtime")), query], check=True)


TROUBLES["a budget that is used up"] = (
    spend,
    "the budget of $0.20 per day for `tea` is used up ($0.30 spent)",
)
TROUBLES["a schedule that cannot be read"] = (
    lambda home: change(home, "hook_point = 'schedule', triggers_json", """'{"cron": "tea time"}'"""),
    "never runs: invalid schedule",
)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_command_tells_of_trouble(tea: Home, trouble: str) -> None:
    bring_about, told = TROUBLES[trouble]
    assert "tea:" not in nexus("doctor")
    bring_about(tea)

    [state] = [
        each["state"] for each in json.loads(nexus("automations", "list", "--json")) if each["name"] == "tea"
    ]
    assert told in state
    report = nexus("doctor")
    assert told in report
    assert "No problems found" not in report
    assert told in nexus("status")


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_the_gateway_tells_of_the_same_trouble(tea: Home, trouble: str) -> None:
    bring_about, told = TROUBLES[trouble]
    bring_about(tea)
    async with App(tea, load(tea.config_file), serve=False) as app, AsyncExitStack() as stack:
        server = build(Served(app, Keys("t" * 43), stack))
        transport = httpx.ASGITransport(server)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7807") as client:
            condition = (await client.get("/api/automations/tea")).json()["condition"]
            page = html.unescape((await client.get("/automations/tea")).text)
    assert told in condition["text"]
    assert condition["level"] in {"warning", "error"}
    assert condition["remedy"]
    assert re.sub(r"`(\S+)`", r"<code>\1</code>", told) in page
    assert condition["last_error"] == ("no milk" if trouble == "a last error" else None)


def test_a_scheduled_one_says_when_it_runs_next(tea: Home) -> None:
    nexus("automations", "register", "tea", "--schedule", "0 8 1 1 *", "--zone", "Europe/Berlin")
    [listed] = [each for each in json.loads(nexus("automations", "list", "--json")) if each["name"] == "tea"]
    due = clock.parse(listed["next_at"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert (due.month, due.day, due.hour, due > clock.now()) == (1, 1, 8, True)
    assert listed["state"] == f"active, next run {listed['next_at']}"
    assert "tea:" not in nexus("doctor"), "a schedule is not a problem"
    nexus("automations", "disable", "tea")
    [listed] = [each for each in json.loads(nexus("automations", "list", "--json")) if each["name"] == "tea"]
    assert (listed["state"], listed["next_at"]) == ("disabled: by hand", None)
